"""Formulas as MathML, which browsers draw themselves."""

from __future__ import annotations

import re

from latex2mathml.converter import convert

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[0-9]+(?:\.[0-9]+)?|\S")
_BAR = re.compile(r"\\bar\{\w\}")
_TEXT = re.compile(r"\\text\{[^{}]*\}")
_LARGE = re.compile(r"\\(sum|prod)(?=_)")


def symbols(tex: str) -> set[str]:
    """Return the letters and signs of a formula that its legend explains, with a ``\bar{}`` where they have one."""
    return {*_TOKEN.findall(_TEXT.sub(" ", _BAR.sub(" ", tex))), *_BAR.findall(tex)}


def mathml(tex: str, display: str = "block") -> str:
    """Convert a TeX formula to a ``<math>`` element."""
    # inside brackets latex2mathml puts the limits of a sum beside it unless they are asked for
    return convert(_LARGE.sub(r"\\\1\\limits", tex), display=display)
