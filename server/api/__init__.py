"""The calls under ``/api`` and the three of operations, a module a subject, each with its ``router``."""
