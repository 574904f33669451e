"""Modules run by hand, once: they make the sample inputs, and the names of ImageNet's classes."""
