"""Single pages, and what holds for every page."""
