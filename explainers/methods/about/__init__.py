"""What a page says of each method beside its declaration: the formula, in plain words, when to trust it, where it fails."""

from __future__ import annotations

from explainers.methods.about.maskings import MASKS
from explainers.methods.about.propagation import INSIDE
from explainers.methods.about.texts import RULES_IN_A_LINE, SYMBOLS, About

ABOUT: dict[str, About] = INSIDE | MASKS


def line_of(method_name: str, rule: str | None, usual: str | None) -> str:
    """One line of plain words for a method under a rule; with its ``usual`` rule nothing is added. Empty for a method that says nothing
    of itself.
    """
    if method_name not in ABOUT:
        return ""
    parts = [ABOUT[method_name].line]
    if rule is not None and rule != usual:
        parts.append(RULES_IN_A_LINE.get(rule, f"With the rule {rule}."))
    return " ".join(parts)


__all__ = ["ABOUT", "SYMBOLS", "About", "line_of"]
