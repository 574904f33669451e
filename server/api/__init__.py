"""The calls under ``/api`` and the three of operations. Each module serves one subject and has its ``router``."""
