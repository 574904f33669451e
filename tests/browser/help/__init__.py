"""The help and the guided visit."""
