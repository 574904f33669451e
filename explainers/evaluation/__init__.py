"""Runs that measure methods on a data set: plan, rows, statistics and reports."""
