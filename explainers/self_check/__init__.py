"""Checks of a model when it is opened, on a sample of its own: the guard against maps that are silently wrong."""
