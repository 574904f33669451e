"""What is exported from the pages."""
