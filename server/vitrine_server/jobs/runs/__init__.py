"""Measurements of methods on data sets, begun on a page or read from a report."""
