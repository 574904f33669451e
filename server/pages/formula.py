"""Formulas as MathML, which browsers draw themselves: a reader of the small part of TeX that the methods are written in.

``{}`` group, ``_`` and ``^`` (under and over sums and products), ``'``, ``\\frac{}{}``, ``\\binom{}{}``, ``\\bar{}``, ``\\text{}``,
``\\left(`` ... ``\\right)``, ``\\,`` ``\\;`` ``\\quad``, and the names of :data:`KNOWN_NAMES`.
"""

from __future__ import annotations

import re
from html import escape

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[0-9]+(?:\.[0-9]+)?|\S")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_LARGE = {"\\sum": "∑", "\\prod": "∏"}
_LETTERS = {"\\alpha": "α", "\\lambda": "λ", "\\pi": "π", "\\varepsilon": "ε"}
_SIGNS = {
    "\\nabla": "∇", "\\odot": "⊙", "\\int": "∫", "\\leftarrow": "←", "\\to": "→", "\\mapsto": "↦", "\\approx": "≈", "\\sim": "∼",
    "\\propto": "∝", "-": "−",
}  # fmt: skip
_SPACES = {"\\,": "0.17em", "\\;": "0.28em", "\\quad": "1em"}
_FUNCTIONS = {"\\cos": "cos"}
#: Every name that stands for itself.
KNOWN_NAMES = (*_LARGE, *_LETTERS, *_SIGNS, *_SPACES, *_FUNCTIONS)


class FormulaError(ValueError):
    """The formula is not written in the part of TeX that is understood."""


def symbols(tex: str) -> set[str]:
    """The letters and signs of a formula, those of a ``\\bar{}`` with it: what its legend explains."""
    barred = re.findall(r"\\bar\{\w\}", tex)
    rest = _TEXT.sub(" ", re.sub(r"\\bar\{\w\}", " ", tex))
    return {*_TOKEN.findall(rest), *barred}


def mathml(tex: str, display: str = "block") -> str:
    """A ``<math>`` element that says the formula; raises FormulaError where it cannot be read."""
    reader = _Reader(tex)
    return f'<math display="{display}">{reader.row(end=None)}</math>'


class _Reader:
    def __init__(self, tex: str) -> None:
        self._tex = tex
        self._texts = [text[1] for text in _TEXT.finditer(tex)]
        self._tokens: list[str] = _TOKEN.findall(_TEXT.sub(r" \\text ", tex))
        self._tokens.reverse()  # the next one is the last

    def row(self, end: str | None) -> str:
        """Everything up to ``end``, as one row."""
        parts: list[str] = []
        while True:
            if not self._tokens:
                if end is not None:
                    raise FormulaError(f"{self._tex!r} has no {end!r} for something that it opens")
                return f"<mrow>{''.join(parts)}</mrow>"
            if self._tokens[-1] == end:
                self._tokens.pop()
                return f"<mrow>{''.join(parts)}</mrow>"
            parts.append(self._scripted())

    def _next(self) -> str:
        if not self._tokens:
            raise FormulaError(f"{self._tex!r} ends too early")
        return self._tokens.pop()

    def _scripted(self) -> str:
        """One thing with what stands under and over it."""
        large = self._tokens[-1] in _LARGE
        base = self._atom()
        below, above = "", ""
        while self._tokens and self._tokens[-1] in {"_", "^", "'"}:
            sign = self._tokens.pop()
            if sign == "'":
                above += "<mo>′</mo>"
            elif sign == "_":
                below = self._atom()
            else:
                above += self._atom()
        if not below and not above:
            return base
        over = f'<mpadded depth="0.3em">{above}</mpadded>' if large else f"<mrow>{above}</mrow>"
        if below and above:
            name = "munderover" if large else "msubsup"
            return f"<{name}>{base}{below}{over}</{name}>"
        name = ("munder" if large else "msub") if below else ("mover" if large else "msup")
        return f"<{name}>{base}{below or over}</{name}>"

    def _atom(self) -> str:
        token = self._next()
        if token == "{":
            return self.row("}")
        if token == "\\frac":
            return f"<mfrac>{self._atom()}{self._atom()}</mfrac>"
        if token == "\\binom":
            return f'<mrow><mo>(</mo><mfrac linethickness="0">{self._atom()}{self._atom()}</mfrac><mo>)</mo></mrow>'
        if token == "\\bar":
            return f'<mover accent="true">{self._atom()}<mo>¯</mo></mover>'
        if token == "\\text":
            return f"<mtext>{escape(self._texts.pop(0))}</mtext>"
        if token == "\\left":
            return self._fenced()
        if token in _SPACES:
            return f'<mspace width="{_SPACES[token]}"></mspace>'
        for names, tag in ((_LARGE, "mo"), (_LETTERS, "mi"), (_SIGNS, "mo"), (_FUNCTIONS, "mi")):
            if token in names:
                return f"<{tag}>{names[token]}</{tag}>"
        if token in {"}", "_", "^", "'"} or token.startswith("\\"):
            raise FormulaError(f"{self._tex!r} has {token!r}, which is not understood there")
        if token.isdigit() or "." in token[1:]:
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        spaced = ' lspace="0" rspace="0"' if token == "|" else ""
        return f'<mo stretchy="false"{spaced}>{escape(token)}</mo>'

    def _fenced(self) -> str:
        opening = self._next()
        inner = self.row("\\right")
        return f"<mrow><mo>{escape(opening)}</mo>{inner}<mo>{escape(self._next())}</mo></mrow>"
