"""Plates on the page, beside each other and at full size."""
