"""The inputs on which a method did best and worst by each metric, with what is needed to draw its map on them."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.evaluation.measuring import EvaluationRow, EvaluationSetup
from explainers.evaluation.statistics import columns_of
from explainers.metrics import Metric
from explainers.models.inputs.types import TextInput
from explainers.rendering.overlays import lay_over

MAX_CANDIDATE_INPUTS = 100  # number of first inputs among which examples are chosen, so that a report stays small
EXAMPLES_PER_END = 2  # best inputs of each method, and as many worst ones
EXAMPLE_SIDE = 112  # pixels
_STEPS = 127


def examples_of(setup: EvaluationSetup, rows: list[EvaluationRow]) -> dict[str, Any]:
    """Choose from the ``rows`` of a run the inputs on which each method is best and worst by each metric of ``setup``, and return them as
    plain data.

    inputs  number among the explained classes of inputs -> name, class, and the picture as the model saw it (JPEG, base64) or its words
    maps    method -> number -> scores of patches or words, as whole numbers from -127 to 127, base64
    grid    (rows, columns) of the patches; absent for texts
    chosen  metric -> method -> best and worst, each a list of [number, value]
    """
    methods = list(setup.plan.methods)
    among = rows[: MAX_CANDIDATE_INPUTS * len(methods)]
    count = len(among) // len(methods)
    cases = {metric.name: _choose_cases(metric, among, methods) for metric in setup.metrics}
    numbers_of_methods: dict[str, set[int]] = {method: set() for method in methods}
    for ends_of_methods in cases.values():
        for method, ends in ends_of_methods.items():
            numbers_of_methods[method] |= {number for end in ends.values() for number, _ in end}
    maps: dict[str, dict[str, str]] = {method: {} for method in methods}
    for i, row in enumerate(among):
        if i // len(methods) in numbers_of_methods[row["method"]]:
            maps[row["method"]][str(i // len(methods))] = pack_scores(row["scores"])
    inputs = {str(number): _input(setup, among[number * len(methods)]) for number in sorted(set().union(*numbers_of_methods.values()))}
    examples: dict[str, Any] = {"among": count, "inputs": inputs, "maps": maps, "chosen": cases}
    if setup.data.kind == "image":
        examples["grid"] = list(_grid(setup, among[0]["index"]))
    return examples


def _choose_cases(metric: Metric, rows: list[EvaluationRow], methods: list[str]) -> dict[str, Any]:
    columns = columns_of(metric, rows, methods)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = columns[..., 0] if metric.combine is None else metric.combine(columns)
    sign = -1 if metric.direction == "lower" else 1
    cases = {}
    for number, method in enumerate(methods):
        column = values[:, number]
        order = [i for i in np.argsort(-sign * column, kind="stable").tolist() if np.isfinite(column[i])]
        best, worst = order[:EXAMPLES_PER_END], order[::-1][: min(EXAMPLES_PER_END, max(0, len(order) - EXAMPLES_PER_END))]
        cases[method] = {end: [[i, float(f"{column[i]:.6g}")] for i in numbers] for end, numbers in (("best", best), ("worst", worst))}
    return cases


def pack_scores(scores: Sequence[float]) -> str:
    """Return the ``scores`` of a map encoded as a text in base64: each is divided by the largest magnitude and rounded
    to one of 127 steps.
    """
    values = np.asarray(scores, np.float64)
    largest = np.abs(values).max(initial=0.0)
    steps = np.round(values / largest * _STEPS) if largest > 0 else np.zeros_like(values)
    return base64.b64encode(steps.astype(np.int8).tobytes()).decode("ascii")


def unpack_scores(text: str) -> NDArray[np.float32]:
    """Decode the ``text`` in which :func:`pack_scores` encoded scores; return them as float32 (N,), from -1 to 1."""
    return np.frombuffer(base64.b64decode(text), np.int8).astype(np.float32) / np.float32(_STEPS)


def _grid(setup: EvaluationSetup, index: int) -> tuple[int, int]:
    grid = setup.model.layout_of(setup.model.tensors(setup.data[index].model_input)).grid
    assert grid is not None
    return grid


def _input(setup: EvaluationSetup, row: EvaluationRow) -> dict[str, Any]:
    record = setup.model.prepare(setup.data[row["index"]].model_input).inputs[0]
    about: dict[str, Any] = {"name": row["input"], "target": row["target"]}
    if isinstance(record, TextInput):
        return {**about, "words": [word.text for word in record.words if word.tokens]}
    assert record.pixels is not None
    small = record.pixels.copy()
    small.thumbnail((EXAMPLE_SIDE, EXAMPLE_SIDE))
    data = io.BytesIO()
    small.save(data, "JPEG", quality=80)
    return {**about, "picture": base64.b64encode(data.getvalue()).decode("ascii")}


def draw_example(examples: dict[str, Any], method: str, index: int, signed: bool, size: int = 160) -> bytes:
    """Draw the map of ``method`` over the example picture of input number ``index`` and return the bytes of a PNG file whose longer side
    has ``size`` pixels. ``signed``: whether the method's scores have a sign. Raises KeyError if there is no such picture or map.
    """
    picture = Image.open(io.BytesIO(base64.b64decode(examples["inputs"][str(index)]["picture"]))).convert("RGB")
    scores = unpack_scores(examples["maps"][method][str(index)]).reshape(examples["grid"])
    data = io.BytesIO()
    lay_over(picture, scores, signed, size).save(data, "PNG")
    return data.getvalue()
