"""Metrics of the maps of an embedded model, measured and estimated as ``vitrine evaluate`` does, without a folder."""

from __future__ import annotations

import explainers  # noqa: F401  (before timm and transformers)

# isort: split
import math
from collections.abc import Mapping, Sequence

from tqdm import tqdm

from explainers.datasets import Dataset
from explainers.evaluation.measuring import EvaluationRow, EvaluationSetup, rows_of
from explainers.evaluation.plan import ExplainedTarget, make_plan
from explainers.evaluation.statistics import columns_of, estimate, weights_of_rows
from explainers.metrics import METRICS
from explainers.models.model import Model
from recipes.evaluation import Table


def map_rows(
    model: Model, data: Dataset, methods: Sequence[str], metrics: Sequence[str], *, target: ExplainedTarget = "predicted"
) -> list[EvaluationRow]:
    """Explain every input of ``data`` for the ``target`` of ``model`` by ``methods``, and return the rows of the values of ``metrics``,
    input by input. Texts that are too long are cut.
    """
    plan = make_plan(model, data, methods, metrics, target=target, long_texts="cut")
    setup = EvaluationSetup(model, data, plan)
    indices = tqdm(range(len(data)), desc="explaining", unit="input", leave=False, disable=None)
    return [row for index in indices for row in rows_of(setup, index)]


def table_of(rows: list[EvaluationRow], methods: Sequence[str], metrics: Mapping[str, str]) -> tuple[Table, dict[str, int]]:
    """Summarise rows of metric values: return a table of the estimate of each metric by method, and how many inputs have a value.

    ``metrics`` maps the title in the table to the metric's name. A metric without a value is left out of a method's row; the count is that
    of the method with most values.
    """
    table: Table = {method: {} for method in methods}
    counts = {}
    weights = weights_of_rows(rows, list(methods))
    for title, name in metrics.items():
        estimates = estimate(METRICS[name], columns_of(METRICS[name], rows, list(methods)), weights)
        counts[title] = int(estimates.counts.max())  # a method whose maps lack what a metric needs has fewer
        for method, value in zip(methods, estimates.values.tolist(), strict=True):
            if math.isfinite(value):
                table[method][title] = value
    return table, counts
