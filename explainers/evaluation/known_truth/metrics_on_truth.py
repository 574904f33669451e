"""Which metrics put methods in the order of the truth? Runs in worlds where it is known which tokens an answer comes from.

The truth of a method is how well its maps name these tokens, averaged over inputs. A metric's agreement with it is Kendall's tau between
the order of the methods by the metric, the better end first, and their order by truth. For its interval inputs are drawn again, the same
for both orders. Controls, whose place is known beforehand, stand apart: they are no methods, and a metric is asked whether it puts them
there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explainers.errors import ExplainerError
from explainers.evaluation.controls import CONTROLS
from explainers.evaluation.known_truth.controls_on_truth import WorldControls, sum_of_worlds
from explainers.evaluation.reporting import REPORT, check_report
from explainers.evaluation.rows import ROWS, read_rows, write_json
from explainers.evaluation.statistics import BOOTSTRAP_DRAWS, LEVEL, Numbers, columns_of, weighted_values, weights_of_rows, without_rounding
from explainers.metrics import METRICS, Metric

__all__ = ["FILE", "World", "agreement_with_truth", "read_world", "write_truth"]

FILE = "truth.json"
FORMAT = 1
#: For each kind of input the metrics that say how well a map finds the known tokens; the first of them is the truth.
TRUTHS: dict[str, tuple[str, ...]] = {"image": ("patch_ap", "patch_auc", "energy"), "text": ("reciprocal_rank", "mass_marked")}
#: The data sets whose answers come from what is marked and from nothing else, as their models were made; of others it is known where the
#: thing is, and not that a model looks at all of it and nowhere else.
MARKS_ALONE = frozenset({"marked-scenes", "votes", "subject-verb"})
#: The needs of a metric that reveal the truth to it.
NEEDS_OF_MARKS = frozenset({"mask", "labelled", "others", "cell", "rationale", "passages"})
MIN_METHODS = 5  # fewest methods whose order is compared
DIGITS = 4


@dataclass(frozen=True, eq=False)
class World:
    """A finished run in a world of known truth: its report, and its rows in the order of the inputs."""

    name: str
    report: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def kind(self) -> str:
        """The kind of its inputs."""
        return str(self.report["kind"])

    @property
    def marks_alone(self) -> bool:
        """True if it is known that answers come from the marked parts alone."""
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
        """The measured metrics, except the truth itself and metrics without a better direction."""
        names = [metric["name"] for metric in self.report["metrics"]]
        return [METRICS[name] for name in names if name in METRICS and name != self.truth and METRICS[name].direction is not None]

    def values(self, metric: Metric, weights: Numbers) -> Numbers:
        """Return a metric (draws, M + K) of methods and controls, the larger the better, with each input counted as often as ``weights``
        says.

        Differences by rounding alone are removed. Inputs without a truth are not counted.
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
        """Whether each explained input has a truth, bool (inputs,)."""
        has_value: NDArray[np.bool_] = np.isfinite(self._columns(METRICS[self.truth])[:, : len(self.methods)])
        return np.asarray(has_value.all((1, 2)))

    @property
    def has_map(self) -> NDArray[np.bool_]:
        """Whether each explained input has the map of each control, bool (inputs, K)."""
        has_value = np.isfinite(self._columns(METRICS[self.truth])[:, len(self.methods) :]).all(2)
        return self.has_truth[:, None] & has_value


def read_world(folder: Path) -> World:
    """Read the finished run in a folder.

    Raises ExplainerError if the run is not finished, or did not measure the metric that is the truth for its kind of input.
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


def kendall(first: Numbers, second: Numbers) -> Numbers:
    """Return Kendall's tau-b (draws,) of each row of ``first`` (draws, M) with that of ``second``; NaN if one of them is constant."""
    above, below = np.triu_indices(first.shape[1], 1)
    signs = [np.nan_to_num(np.sign(values[:, above] - values[:, below])) for values in (first, second)]
    with np.errstate(invalid="ignore"):
        tau: Numbers = (signs[0] * signs[1]).sum(1) / np.sqrt((signs[0] ** 2).sum(1) * (signs[1] ** 2).sum(1))
    return tau


def agreement_with_truth(worlds: Sequence[World]) -> dict[str, Any]:
    """Compare every metric with the truth over some worlds, and return the results as plain data.

    worlds   for each its name, model, data set, how many inputs count, and the methods in the order of the truth with its values;
             separately the controls, with their places
    metrics  for each metric its agreement in each world (None if it was not measured there) and the mean over the worlds of a kind; where
             it puts the controls, in each world and in those of a kind together
    """
    drawn = [_WorldWithDraws(world, number) for number, world in enumerate(worlds)]
    names = list(dict.fromkeys(metric.name for world in worlds for metric in world.metrics))
    return {
        "format": FORMAT,
        "interval": {"level": LEVEL, "draws": BOOTSTRAP_DRAWS},
        "worlds": [each.about() for each in drawn],
        "metrics": [_metric_about(METRICS[name], drawn) for name in names],
    }


class _WorldWithDraws:
    """A world together with the random draws of its inputs."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.weights = weights_of_rows(world.rows, [*world.methods, *world.controls], seed)
        self.once = np.ones((1, self.weights.shape[1]))
        self.truth, self.truth_draws = (self.values(METRICS[world.truth], weights) for weights in (self.once, self.weights))
        by_truth = partial(world.values, METRICS[world.truth])
        self.of_controls = WorldControls(world.methods, world.controls, world.has_map, self.weights, by_truth)

    def values(self, metric: Metric, weights: Numbers) -> Numbers:
        """Return a metric of the methods under these weights, (draws, M)."""
        return self.world.values(metric, weights)[:, : len(self.world.methods)]

    def about(self) -> dict[str, Any]:
        """Return the description of the world for the document: methods and controls in the order of the truth."""
        world, report = self.world, self.world.report
        order = np.argsort(-self.truth[0], kind="stable")
        titles = {method["spec"]: method["title"] for method in report["methods"]}
        further = {name: self.values(METRICS[name], self.once)[0] for name in TRUTHS[world.kind][1:] if name in report["results"]}
        low, high = np.nanquantile(self.truth_draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return {
            "name": world.name,
            "kind": world.kind,
            "model": report["plan"]["model"],
            "dataset": report["dataset"]["title"],
            "marks_alone": world.marks_alone,
            "inputs": int(world.has_truth.sum()),
            "truth": {"name": world.truth, "title": METRICS[world.truth].title, "unit": METRICS[world.truth].unit},
            "methods": [
                {
                    "spec": world.methods[i],
                    "title": titles[world.methods[i]],
                    "value": _number(self.truth[0, i]),
                    "low": _number(low[i]),
                    "high": _number(high[i]),
                    "further": {name: _number(values[i]) for name, values in further.items()},
                }
                for i in order
            ],
            "controls": [
                {**control, **{key: _number(control[key]) for key in ("value", "low", "high")}, "title": CONTROLS[control["name"]].title}
                for control in self.of_controls.by_truth()
            ],
        }

    def taus(self, metric: Metric) -> tuple[float, Numbers, dict[str, Any]] | None:
        """Return the agreement of a metric with the truth, its draws, and its description.

        None if it was not measured or has values for too few methods.
        """
        world = self.world
        if metric not in world.metrics:
            return None
        value = self.values(metric, self.once)
        has_value = np.isfinite(value[0])
        if has_value.sum() < MIN_METHODS:
            return None
        tau = float(kendall(value[:, has_value], self.truth[:, has_value])[0])
        if not np.isfinite(tau):
            return None
        draws = kendall(self.values(metric, self.weights)[:, has_value], self.truth_draws[:, has_value])
        first = int(np.nanargmax(value[0]))
        about = {
            **_figure(tau, draws),
            "methods": int(has_value.sum()),
            "of": len(world.methods),
            "first": world.methods[first],
            "first_place": 1 + int((self.truth[0] > self.truth[0, first]).sum()),
        }
        return tau, draws, about

    def controls(self, metric: Metric) -> dict[str, Any] | None:
        """Return where a metric ranks the controls; None if it was not measured or has no value for them."""
        return self.of_controls.by_metric(partial(self.world.values, metric)) if metric in self.world.metrics else None


def _metric_about(metric: Metric, drawn: Sequence[_WorldWithDraws]) -> dict[str, Any]:
    """Return the description of one metric for the document: its agreement in each world and kind, and the controls."""
    by_world = {each.world.name: each.taus(metric) for each in drawn}
    controls = {each.world.name: each.controls(metric) for each in drawn}
    marks_alone = {each.world.name for each in drawn if each.world.marks_alone}
    by_kind, controls_by_kind = {}, {}
    for kind in TRUTHS:
        names = [each.world.name for each in drawn if each.world.kind == kind]
        of_kind = [taus for name in names if (taus := by_world[name]) is not None]
        by_kind[kind] = _mean_of(of_kind) if of_kind else None
        controls_by_kind[kind] = sum_of_worlds({name: controls[name] for name in names}, marks_alone)
    return {
        "name": metric.name,
        "title": metric.title,
        "family": metric.family,
        "reads_marks": bool(metric.needs & NEEDS_OF_MARKS),
        "kinds": by_kind,
        "worlds": {name: None if taus is None else taus[2] for name, taus in by_world.items()},
        "controls": {"kinds": controls_by_kind, "worlds": controls},
    }


def _mean_of(taus: Sequence[tuple[float, Numbers, dict[str, Any]]]) -> dict[str, Any]:
    """Return the mean agreement over worlds, whose inputs are drawn separately, and the smallest number of methods that were ordered in one
    of them.
    """
    mean, draws = np.mean([tau for tau, _, _ in taus]), np.mean([draws for _, draws, _ in taus], 0)
    fewest = min((about for _, _, about in taus), key=lambda about: int(about["methods"]) / int(about["of"]))
    return {**_figure(float(mean), draws), "methods": fewest["methods"], "of": fewest["of"], "worlds": len(taus)}


def _figure(tau: float, draws: Numbers) -> dict[str, Any]:
    """Return an agreement with the interval of its draws."""
    low, high = np.nanquantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"tau": _number(tau), "low": _number(low), "high": _number(high)}


def _number(value: float) -> float | None:
    return round(float(value), DIGITS) if np.isfinite(value) else None


def write_truth(folders: Iterable[Path], out: Path) -> dict[str, Any]:
    """Read the runs, write the comparison of metrics with the truth into the folder ``out``, and return it."""
    document = agreement_with_truth([read_world(folder) for folder in folders])
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / FILE, document)
    return document
