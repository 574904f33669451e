"""The one exception of the engine."""

from __future__ import annotations


class ExplainerError(ValueError):
    """Something asked of the engine cannot be done; the message says what was wrong and what to send instead."""
