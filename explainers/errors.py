"""The one exception of the engine, and what several of its messages share."""

from __future__ import annotations


class ExplainerError(ValueError):
    """Something asked of the engine cannot be done; the message says what was wrong and what to send instead."""


def not_installed(what: str, extra: str) -> str:
    """The message for a package that is missing, ``what`` it is needed for first, and the ``extra`` of Vitrine that brings it."""
    return f"{what}, which is not installed. In the folder of Vitrine: pip install -e '.[{extra}]'"
