"""What tests of several parts of the project share."""
