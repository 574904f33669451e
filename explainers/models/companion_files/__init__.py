"""Companion files: what is kept beside the weights of a model and read with them, each with its record in Python."""
