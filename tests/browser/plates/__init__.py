"""Plates at the wall, beside each other and at full size."""
