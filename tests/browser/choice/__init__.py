"""Choosing models, methods, rules, settings and classes."""
