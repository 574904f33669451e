"""What transformers' pipelines say at one place of a text: probabilities by the indices of their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explainers.models.model import Model


def _pipeline(name: Any, model: Model, **options: Any) -> Any:
    import transformers

    assert model.task is not None
    return transformers.pipeline(name, model=model.module, tokenizer=model.task.tokenizer, device=model.device, **options)


def _of_token(model: Model, text: str) -> dict[int, float]:
    """Run transformers' pipeline for ``model`` on ``text``; return the index of the label of the explained token with its probability, as a
    dict.
    """
    assert model.reading is not None
    rows = _pipeline("token-classification", model, ignore_labels=[])(text)
    row = next(row for row in rows if row["index"] == model.reading.token)
    names: dict[int, str] = dict(model.module.config.id2label)  # type: ignore[union-attr, arg-type]
    return {next(index for index, name in names.items() if name == row["entity"]): float(row["score"])}


def _of_mask(model: Model, text: str) -> dict[int, float]:
    """Run transformers' pipeline for ``model`` on ``text``; return the indices of the likeliest words at its only mask, each with its
    probability.
    """
    return {int(row["token"]): float(row["score"]) for row in _pipeline("fill-mask", model)(text)}


#: Name of a task -> function that asks transformers' pipeline.
TASK_PIPELINES: dict[str, Callable[[Model, str], dict[int, float]]] = {"token-classification": _of_token, "fill-mask": _of_mask}
