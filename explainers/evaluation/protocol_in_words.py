"""How a run measured, in sentences: what was explained, how pictures were shown, how tokens were taken away, what counted as right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explainers.evaluation.plan import CHOICES
from explainers.metrics.registry import TENTHS_OF_ALL
from explainers.models.resizing import RESIZES

_LONG_TEXTS = {
    "windows": "Texts longer than the model takes are read in windows.",
    "cut": "Texts longer than the model takes are cut to what it reads.",
}
_AS_TRAINED = "as the model was trained"


def protocol_in_words(plan: Mapping[str, Any], kind: str, removal: str | None = None) -> list[str]:
    """The sentences of a plan as plain data. ``kind`` is that of its inputs; ``removal`` the way that suited the model, where the plan
    names none. A plan of an earlier version lacks what had no choice then.
    """
    number = CHOICES["explains"][plan.get("explains") or "logit"]
    sentences = [f"Explained: {CHOICES['target'][plan['target']]}, {number}."]
    if kind == "image":
        resize = plan.get("resize")
        sentences.append(f"Pictures: {RESIZES[resize] if resize else _AS_TRAINED}.")
    way = plan.get("how") or (f"{removal}, as suits the model" if removal else "as suits the model")
    steps = plan.get("steps") or TENTHS_OF_ALL
    sentences.append(f"Tokens are taken away: {way}; where a metric goes by equal steps, in {steps}.")
    sentences.append(f"Right: {CHOICES['right'][plan.get('right') or 'any']}.")
    if kind == "text":
        sentences.append(_LONG_TEXTS[plan.get("long_texts") or "windows"])
    sentences.append(f"Drawn with seed {plan['seed']}.")
    return sentences
