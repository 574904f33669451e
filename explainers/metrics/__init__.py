"""Figures of merit of maps: pure functions, one module a question."""
