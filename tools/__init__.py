"""Commands that write documents and declarations, and measure what they say. Run from a checkout; nothing of it is installed."""
