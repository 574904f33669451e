"""What writes the documents, and measures what they say. Run from a checkout; nothing of it is installed."""
