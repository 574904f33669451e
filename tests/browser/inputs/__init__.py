"""Giving pictures and texts."""
