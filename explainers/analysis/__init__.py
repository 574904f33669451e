"""Analyses of a finished explanation: deletion tests, agreement, regions, interactions, layers and heads, mixed rules, summaries."""
