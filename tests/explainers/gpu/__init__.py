"""Tests that need a GPU of Nvidia."""
