"""Processes and threads that hold the loaded models, and how the server asks them."""
