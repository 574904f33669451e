"""Which metrics put methods in the order of the truth? Runs in worlds where it is known which tokens an answer comes from.

The truth of a method is how well its maps name these tokens, averaged over inputs. A metric's agreement with it is Kendall's tau between
the order of the methods by the metric, the better end first, and their order by truth. For its interval inputs are drawn again, the same
for both orders. Controls, whose place is known beforehand, stand apart: they are no methods, and a metric is asked whether it puts them
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from explainers.evaluation.controls import CONTROLS
from explainers.evaluation.known_truth.controls_on_truth import ControlsInWorld, ControlsOfKind, WorldControls, sum_of_worlds
from explainers.evaluation.known_truth.world import MIN_METHODS, TRUTHS, World, read_world
from explainers.evaluation.reporting import Interval
from explainers.evaluation.rows import write_json
from explainers.evaluation.statistics import BOOTSTRAP_DRAWS, LEVEL, Numbers, weights_of_rows
from explainers.json_records import INLINE, Record, describe
from explainers.metrics import METRICS, Metric

__all__ = ["FILE", "agreement_with_truth", "write_truth"]

FILE = "truth.json"
FORMAT = 1
#: The needs of a metric that reveal the truth to it.
NEEDS_OF_MARKS = frozenset({"mask", "labelled", "others", "cell", "rationale", "passages"})
DIGITS = 4


@dataclass(frozen=True)
class WorldTruth(Record):
    """The name, title and unit of the metric that is taken as the truth in a world."""

    name: str
    title: str
    unit: str


@dataclass(frozen=True)
class WorldMethod(Record):
    """A method in a world: its spec and title, and how well its maps find the tokens that determine the answers (``value``), with the ends
    of its interval (``low``, ``high``), and by further metrics.
    """

    spec: str
    title: str
    value: Annotated[float | None, describe(kind=float)]
    low: Annotated[float | None, describe(kind=float)]
    high: Annotated[float | None, describe(kind=float)]
    further: Annotated[dict[str, float | None], describe("By other metrics that are told the truth.")]


@dataclass(frozen=True, kw_only=True)
class WorldControl(Record):
    """A control in a world, a map of known quality: its name and title, how well it finds the tokens that determine the answers
    (``value``), with the ends of its interval (``low``, ``high``), and its rank among the methods.
    """

    name: str
    title: str
    value: Annotated[float | None, describe("How well it names the tokens that answers come from.", kind=float)]
    low: Annotated[float | None, describe(kind=float)]
    high: Annotated[float | None, describe(kind=float)]
    place: Annotated[int, describe("Among the methods of the world, by truth.")]


@dataclass(frozen=True, kw_only=True)
class TruthWorld(Record):
    """A world of known truth: a run on a data set for which it is known on which tokens the answers depend. It holds the methods and
    controls in the order of that truth, the world's name, kind of input, model and data set, and the number of measured inputs.
    """

    name: str
    kind: str
    model: str
    dataset: str
    marks_alone: Annotated[bool, describe("Whether it is known that answers come from what is marked and from nothing else.")]
    inputs: int
    truth: WorldTruth
    methods: Annotated[list[WorldMethod], describe("In the order of the truth, the best first.")]
    controls: list[WorldControl]


@dataclass(frozen=True, kw_only=True)
class TruthAgreement(Record):
    """Kendall's tau between the order of methods by a metric and their true order, with its confidence interval."""

    tau: Annotated[float | None, describe(kind=float)]
    low: Annotated[float | None, describe(kind=float)]
    high: Annotated[float | None, describe(kind=float)]
    methods: Annotated[int, describe("How many methods have a value.")]
    of: Annotated[int, describe("How many were measured.")]


@dataclass(frozen=True)
class TruthOfKind(Record):
    """The mean agreement (tau) of a metric with the truth over all worlds of one kind of input. ``methods`` and ``of`` count the methods
    with a value and all methods, in the world in which the smallest share of methods has a value.
    """

    agreement: Annotated[TruthAgreement, INLINE]
    worlds: int


@dataclass(frozen=True)
class TruthInWorld(Record):
    """The agreement of a metric with the truth in one world, and the method that it ranks first."""

    agreement: Annotated[TruthAgreement, INLINE]
    first: Annotated[str, describe("The method that the metric puts first.")]
    first_place: Annotated[int, describe("Its place by truth.")]


@dataclass(frozen=True)
class MetricControls(Record):
    """The ranks that a metric gives to controls, by kind of input and by world; null if it has no value for the truth itself."""

    kinds: Annotated[dict[str, dict[str, Any] | None], describe(kind=dict[str, ControlsOfKind | None])]
    worlds: Annotated[dict[str, dict[str, Any] | None], describe(kind=dict[str, ControlsInWorld | None])]


@dataclass(frozen=True, kw_only=True)
class MetricOnTruth(Record):
    """A metric: its name, title and family, how well it agrees with the truth, by kind of input and by world, and how it ranks the
    controls.

    kinds     kind of input -> the agreement over its worlds; None if it was not measured on any
    worlds    name of a world -> the agreement there; None if it was not measured there
    controls  its ranks of the controls
    """

    name: str
    title: str
    family: str
    reads_marks: Annotated[bool, describe("Whether it is told the truth itself, as an outline or as marked words.")]
    kinds: Annotated[dict[str, TruthOfKind | None], describe("By the kind of input.")]
    worlds: dict[str, TruthInWorld | None]
    controls: MetricControls


def kendall(first: Numbers, second: Numbers) -> Numbers:
    """Return Kendall's tau-b (draws,) of each row of ``first`` (draws, M) with that of ``second``; NaN if one of them is constant."""
    above, below = np.triu_indices(first.shape[1], 1)
    signs = [np.nan_to_num(np.sign(values[:, above] - values[:, below])) for values in (first, second)]
    with np.errstate(invalid="ignore"):
        tau: Numbers = (signs[0] * signs[1]).sum(1) / np.sqrt((signs[0] ** 2).sum(1) * (signs[1] ** 2).sum(1))
    return tau


def agreement_with_truth(worlds: Sequence[World]) -> dict[str, Any]:
    """Compare every metric with the truth over some worlds, and return the results as plain data: ``worlds``, each a :class:`TruthWorld`,
    and ``metrics``, each a :class:`MetricOnTruth`.
    """
    drawn = [_WorldWithDraws(world, number) for number, world in enumerate(worlds)]
    names = list(dict.fromkeys(metric.name for world in worlds for metric in world.metrics))
    return {
        "format": FORMAT,
        "interval": Interval(LEVEL, BOOTSTRAP_DRAWS).to_json(),
        "worlds": [each.about().to_json() for each in drawn],
        "metrics": [_metric_about(METRICS[name], drawn).to_json() for name in names],
    }


class _WorldWithDraws:
    """A world of known truth (``world``) together with the random draws of its inputs, drawn by ``seed``."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.weights = weights_of_rows(world.rows, [*world.methods, *world.controls], seed)
        self.once = np.ones((1, self.weights.shape[1]))
        self.truth, self.truth_draws = (self.values(METRICS[world.truth], weights) for weights in (self.once, self.weights))
        by_truth = partial(world.values, METRICS[world.truth])
        self.of_controls = WorldControls(world.methods, world.controls, world.has_map, self.weights, by_truth)

    def values(self, metric: Metric, weights: Numbers) -> Numbers:
        """Return the values (draws, M) of ``metric`` for the M methods, under ``weights`` (draws, inputs), which say how often each input
        counts.
        """
        return self.world.values(metric, weights)[:, : len(self.world.methods)]

    def about(self) -> TruthWorld:
        """Return the description of the world for the document: methods and controls in the order of the truth."""
        world, report = self.world, self.world.report
        order = np.argsort(-self.truth[0], kind="stable")
        titles = {method["spec"]: method["title"] for method in report["methods"]}
        further = {name: self.values(METRICS[name], self.once)[0] for name in TRUTHS[world.kind][1:] if name in report["results"]}
        low, high = np.nanquantile(self.truth_draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        return TruthWorld(
            name=world.name,
            kind=world.kind,
            model=report["plan"]["model"],
            dataset=report["dataset"]["title"],
            marks_alone=world.marks_alone,
            inputs=int(world.has_truth.sum()),
            truth=WorldTruth(world.truth, METRICS[world.truth].title, METRICS[world.truth].unit),
            methods=[
                WorldMethod(
                    spec=world.methods[i],
                    title=titles[world.methods[i]],
                    value=_number(self.truth[0, i]),
                    low=_number(low[i]),
                    high=_number(high[i]),
                    further={name: _number(values[i]) for name, values in further.items()},
                )
                for i in order
            ],
            controls=[
                WorldControl(
                    name=control["name"],
                    title=CONTROLS[control["name"]].title,
                    place=control["place"],
                    **{key: _number(control[key]) for key in ("value", "low", "high")},
                )
                for control in self.of_controls.by_truth()
            ],
        )

    def taus(self, metric: Metric) -> tuple[float, Numbers, TruthInWorld] | None:
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
        agreement = _agreement(tau, draws, int(has_value.sum()), len(world.methods))
        return tau, draws, TruthInWorld(agreement, world.methods[first], 1 + int((self.truth[0] > self.truth[0, first]).sum()))

    def controls(self, metric: Metric) -> dict[str, Any] | None:
        """Return where a metric ranks the controls; None if it was not measured or has no value for them."""
        return self.of_controls.by_metric(partial(self.world.values, metric)) if metric in self.world.metrics else None


def _metric_about(metric: Metric, drawn: Sequence[_WorldWithDraws]) -> MetricOnTruth:
    """Return the description of ``metric`` for the document, from the worlds in ``drawn``: its agreement in each world and kind, and the
    controls.
    """
    by_world = {each.world.name: each.taus(metric) for each in drawn}
    controls = {each.world.name: each.controls(metric) for each in drawn}
    marks_alone = {each.world.name for each in drawn if each.world.marks_alone}
    by_kind, controls_by_kind = {}, {}
    for kind in TRUTHS:
        names = [each.world.name for each in drawn if each.world.kind == kind]
        of_kind = [taus for name in names if (taus := by_world[name]) is not None]
        by_kind[kind] = _mean_of(of_kind) if of_kind else None
        controls_by_kind[kind] = sum_of_worlds({name: controls[name] for name in names}, marks_alone)
    return MetricOnTruth(
        name=metric.name,
        title=metric.title,
        family=metric.family,
        reads_marks=bool(metric.needs & NEEDS_OF_MARKS),
        kinds=by_kind,
        worlds={name: None if taus is None else taus[2] for name, taus in by_world.items()},
        controls=MetricControls(controls_by_kind, controls),
    )


def _mean_of(taus: Sequence[tuple[float, Numbers, TruthInWorld]]) -> TruthOfKind:
    """Return the mean of the agreements ``taus`` of a metric over worlds (value, draws and description of each), with its interval. Its
    numbers of methods come from the world in which the smallest share of methods has a value.
    """
    mean, draws = np.mean([tau for tau, _, _ in taus]), np.mean([draws for _, draws, _ in taus], 0)
    fewest = min((about.agreement for _, _, about in taus), key=lambda agreement: agreement.methods / agreement.of)
    return TruthOfKind(_agreement(float(mean), draws, fewest.methods, fewest.of), len(taus))


def _agreement(tau: float, draws: Numbers, methods: int, of: int) -> TruthAgreement:
    """Return the agreement ``tau`` with the confidence interval of its ``draws`` (draws,); it compares ``methods`` out
    of ``of`` methods.
    """
    low, high = np.nanquantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return TruthAgreement(tau=_number(tau), low=_number(low), high=_number(high), methods=methods, of=of)


def _number(value: float) -> float | None:
    return round(float(value), DIGITS) if np.isfinite(value) else None


def write_truth(folders: Iterable[Path], out: Path) -> dict[str, Any]:
    """Read the finished runs in ``folders``, write the comparison of metrics with the truth into the folder ``out`` as
    JSON, and return it.
    """
    document = agreement_with_truth([read_world(folder) for folder in folders])
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / FILE, document)
    return document
