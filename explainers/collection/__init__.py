"""A table of many inputs: what a model answers to each, where it looks, and how far its maps can be trusted.

:func:`explainers.collect` makes it of a folder of pictures, a table of one's own or a data set. The inputs go through the model in batches;
the rows are Parquet, so that a stopped collection goes on where it was, and its memory does not grow with their number.
"""
