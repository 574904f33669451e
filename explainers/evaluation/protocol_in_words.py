"""How a run measured, in sentences: what was explained, how pictures were shown, how tokens were removed, what counted as right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explainers.evaluation.plan import CHOICES, LONG_TEXTS_IN_WORDS
from explainers.metrics import METRICS, RemovalCurve
from explainers.metrics.registry import TENTHS_OF_ALL
from explainers.models.resizing import RESIZES

_NEEDS_OF_LABELS = {"gold", "answer"}  # needs of metrics that depend on the labels of the data set
_RESIZE_AS_TRAINED = "as the model was trained"


def protocol_in_words(plan: Mapping[str, Any], kind: str, removal: str | None = None) -> list[str]:
    """Describe how a run measured, in sentences, from its plan as plain data.

    ``kind`` is the kind of its inputs; ``removal`` is the model's default way of removing tokens, for a plan that names none. A plan of an
    earlier version may lack newer options.
    """
    is_contrast = plan["target"] == "contrast"
    number = "the difference of their logits" if is_contrast else CHOICES["explains"][plan.get("explains") or "logit"]
    sentences = [f"Explained: {CHOICES['target'][plan['target']]}, {number}."]
    if kind == "image":
        resize = plan.get("resize")
        sentences.append(f"Pictures: {RESIZES[resize] if resize else _RESIZE_AS_TRAINED}.")
    metrics = [METRICS[name] for name in plan.get("metrics", ()) if name in METRICS]
    curves = [curve for metric in metrics for curve in metric.curves.values()]
    if any(not curve.pixels for curve in curves):
        sentences.append(_removal(plan, removal))
    fates = dict.fromkeys(_fate_of_pixels(curve) for curve in curves if curve.pixels)
    sentences += [f"{fate}, in steps of 1/{plan.get('steps') or TENTHS_OF_ALL}." for fate in fates]
    if any(metric.needs & _NEEDS_OF_LABELS for metric in metrics):
        sentences.append(f"Right: {CHOICES['right'][plan.get('right') or 'any']}.")
    if kind == "text":
        sentences.append(f"Texts longer than the model takes are {LONG_TEXTS_IN_WORDS[plan.get('long_texts') or 'windows']}.")
    sentences.append(f"Drawn with seed {plan['seed']}.")
    return sentences


def _fate_of_pixels(curve: RemovalCurve) -> str:
    """Say what becomes of the pixels of a picture that ``curve`` removes."""
    if curve.superpixels:
        return f"Superpixels (SLIC, about {curve.superpixels} of a picture) turn black"
    return "Pixels are imputed from their neighbours" if curve.imputed else "Pixels turn black"


def _removal(plan: Mapping[str, Any], removal: str | None) -> str:
    """Return a sentence on how tokens are removed in a run, and in how many steps. ``plan`` is the run's plan as JSON, ``removal`` the way
    of removal that suits its model, None if unknown.
    """
    way = plan.get("how") or (f"{removal}, as suits the model" if removal else "as suits the model")
    steps = plan.get("steps") or TENTHS_OF_ALL
    return f"Tokens are taken away: {way}; where a metric goes by equal steps, of 1/{steps} each."
