"""Companion files: data stored with the weights of a model and read with them, each with its record in Python."""
