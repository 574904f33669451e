"""A world of known truth: a finished run in which it is known which tokens an answer comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explainers.errors import ExplainerError
from explainers.evaluation.reporting import REPORT, check_report
from explainers.evaluation.rows import ROWS, read_rows
from explainers.evaluation.statistics import Numbers, columns_of, weighted_values, without_rounding
from explainers.metrics import METRICS, Metric

#: For each kind of input the metrics that say how well a map finds the known tokens; the first of them is the truth.
TRUTHS: dict[str, tuple[str, ...]] = {"image": ("patch_ap", "patch_auc", "energy"), "text": ("reciprocal_rank", "mass_marked")}
#: The data sets whose answers come from what is marked and from nothing else, as their models were made; of others it is known where the
#: thing is, and not that a model looks at all of it and nowhere else.
MARKS_ALONE = frozenset({"marked-scenes", "votes", "subject-verb"})
MIN_METHODS = 5  # fewest methods whose order is compared


@dataclass(frozen=True, eq=False)
class World:
    """A finished run on a data set for which it is known on which tokens the answers depend.

    name    the name of the run
    report  the report of the run
    rows    one row for each input and method or control, in the order of the inputs
    """

    name: str
    report: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def kind(self) -> str:
        """The kind of input of the run, such as "image"."""
        return str(self.report["kind"])

    @property
    def marks_alone(self) -> bool:
        """True where it is known that answers come from what is marked alone."""
        return self.report["dataset"]["name"] in MARKS_ALONE

    @property
    def truth(self) -> str:
        """The name of the metric that is the truth."""
        return TRUTHS[self.kind][0]

    @property
    def methods(self) -> list[str]:
        """The specs of the methods."""
        return [method["spec"] for method in self.report["methods"]]

    @property
    def controls(self) -> list[str]:
        """The names of the controls, whose rows follow those of the methods."""
        return list(self.report["plan"].get("controls", ()))

    @property
    def metrics(self) -> list[Metric]:
        """The metrics that were measured, except the truth and those of which neither end is better."""
        names = [metric["name"] for metric in self.report["metrics"]]
        return [METRICS[name] for name in names if name in METRICS and name != self.truth and METRICS[name].direction is not None]

    def values(self, metric: Metric, weights: Numbers) -> Numbers:
        """Return the values (draws, M + K) of a metric for M methods and K controls, the larger the better, with inputs drawn as often as
        ``weights`` says.

        Differences by rounding alone are removed. Inputs without a truth count for nothing.
        """
        sign = -1 if metric.direction == "lower" else 1
        columns = np.where(self.has_truth[:, None, None], self._columns(metric), np.nan)
        return sign * without_rounding(weighted_values(metric, columns, weights))

    def _columns(self, metric: Metric) -> Numbers:
        """Return the columns of a metric for methods and controls, (inputs, M + K, columns)."""
        if metric.name not in self._read_columns:
            self._read_columns[metric.name] = columns_of(metric, self.rows, [*self.methods, *self.controls])
        return self._read_columns[metric.name]

    @cached_property
    def _read_columns(self) -> dict[str, Numbers]:
        return {}

    @cached_property
    def has_truth(self) -> NDArray[np.bool_]:
        """The explained inputs that have a truth, bool (inputs,)."""
        has_value: NDArray[np.bool_] = np.isfinite(self._columns(METRICS[self.truth])[:, : len(self.methods)])
        return np.asarray(has_value.all((1, 2)))

    @property
    def has_map(self) -> NDArray[np.bool_]:
        """The explained inputs that have the map of each control, bool (inputs, K)."""
        has_value = np.isfinite(self._columns(METRICS[self.truth])[:, len(self.methods) :]).all(2)
        return self.has_truth[:, None] & has_value


def read_world(folder: Path) -> World:
    """Return the world that the finished run in ``folder`` measured.

    Raises ExplainerError where it is not finished, and where it did not measure the truth of its kind.
    """
    files = folder / REPORT, folder / ROWS
    if not all(file.is_file() for file in files):
        raise ExplainerError(f"{folder} holds no finished run with its rows: measure it with vitrine evaluate --out {folder}.")
    report = check_report(json.loads(files[0].read_text("utf-8")), files[0])
    world = World(folder.name, report, read_rows(folder))
    if world.kind not in TRUTHS:
        known = " and ".join(f"{kind}s" for kind in TRUTHS)
        raise ExplainerError(f"{folder} measures {world.kind}s, and truth is known of {known}: name a run of these.")
    if world.truth not in report["results"]:
        raise ExplainerError(f"{folder} did not measure {world.truth}, which is the truth for {world.kind}s: add it to --metrics.")
    if len(world.methods) < MIN_METHODS:
        raise ExplainerError(f"{folder} measured {len(world.methods)} methods: an order of {MIN_METHODS} or more can be compared.")
    return world
