"""What is taken away from the pages."""
