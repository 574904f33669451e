"""What writes documents and declarations anew, and measures what they say. Run from a checkout; nothing of it is installed."""
