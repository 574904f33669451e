"""What a run found, as plain data: ``report.json``, from which ``report.html`` and the leaderboard are made."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from explainers.citation import Source
from explainers.datasets import DATASETS
from explainers.errors import ExplainerError
from explainers.evaluation.broken_inputs import BROKEN, BrokenRow
from explainers.evaluation.conservation import BLOCK_COLUMNS
from explainers.evaluation.examples import examples_of
from explainers.evaluation.html import page_of
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.plan import Plan
from explainers.evaluation.rows import ROWS, write_json, write_text
from explainers.evaluation.running import AT_ONCE_FIELD, CALIBRATION, DATA, FORMAT, REMOVAL, EvaluationRun
from explainers.evaluation.statistics import BOOTSTRAP_DRAWS, LEVEL, Estimates, columns_of, estimate, weights_of_rows
from explainers.json_records import Record, describe, optional
from explainers.methods import Request
from explainers.methods.specs import Spec
from explainers.metrics import METRICS, Metric
from explainers.metrics.faithfulness import LEFT, MOST
from explainers.metrics.registry import TENTHS_OF_ALL
from explainers.models.companion_files.calibration import ProbabilitySettings

REPORT, EXAMPLES, PAGE = "report.json", "examples.json", "report.html"
#: A field that the reports of earlier versions lack.
_LATER = describe(is_required=False)


@dataclass(frozen=True)
class RunDataset(Record):
    """The data set of a run: its name and title, what it is, its source, the split that was read, and how many files could not be."""

    name: str
    title: str
    description: Annotated[str, _LATER]
    source: Annotated[Source | None, _LATER]
    split: Annotated[str | None, _LATER]
    unread: Annotated[int, describe("Files in its folder that were not read.", is_required=False)]


@dataclass(frozen=True)
class RunMethod(Record):
    """A method that a run measured: its spec and title, its authors and year, and whether its scores have a sign.

    by      the authors, such as "Abnar & Zuidema"; ``year`` is the year of publication, None if unknown
    signed  whether its scores tell evidence for a class from evidence against it
    """

    spec: str
    title: str
    by: str
    year: int | None
    signed: bool


@dataclass(frozen=True)
class Interval(Record):
    """The confidence level of all intervals, and the number of bootstrap draws."""

    level: float
    draws: int


@dataclass(frozen=True)
class RunFigure(Record):
    """The mean value of a metric for a method, with its standard error (``error``) and the ends of its confidence interval (``low``,
    ``high``), the number of inputs, and whether it ties with the best.

    Values are None if no input has one. ``tied``: whether it cannot be told from the best method.
    """

    value: float | None
    error: float | None
    low: float | None
    high: float | None
    inputs: Annotated[int, _LATER]
    tied: bool


@dataclass(frozen=True)
class RunCurves(Record):
    """For each method, the mean probability of the explained class after each of the ``fractions`` of tokens was removed.

    fractions  shares of tokens removed, 0 to 1
    methods    spec of a method -> a probability for each fraction
    """

    fractions: list[float]
    methods: dict[str, list[float]]


@dataclass(frozen=True)
class BlockFigure(Record):
    """The conservation error at the input of one block: by how much the relevance there misses the explained number (``value``), with the
    ends of its confidence interval (``low``, ``high``).
    """

    value: float | None
    low: float | None
    high: float | None
    without_biases: Annotated[float | None, describe("The same, bias terms left out.")]


@dataclass(frozen=True)
class CostFigure(Record):
    """The median cost of a map over inputs (``value``), with its quartiles (``low``, ``high``)."""

    value: float | None
    low: float | None
    high: float | None
    inputs: int


@dataclass(frozen=True)
class RunCosts(Record):
    """The seconds and the memory that a map takes, for each method, and the devices on which they were measured."""

    devices: list[str]
    seconds: dict[str, CostFigure]
    memory: Annotated[dict[str, int | None], describe("Bytes, the most of a map made alone; null where the device does not count them.")]


@dataclass(frozen=True, kw_only=True)
class EvaluationReport(Record):
    """The plan of a run, how it was measured, and its results.

    format          number of the form of the report, which changes when its fields do
    weights_digest  SHA-256 of the model's weights
    versions        name of a library -> its version
    kind            kind of input: "image", "text" or "molecule"
    interval        confidence level and bootstrap draws of all intervals
    results         name of a metric -> spec of a method -> its figure
    apart           metric -> the p values of the paired tests of every two methods, as a table in the order of ``methods``
    curves          name of a removal curve -> the curves of all methods
    """

    format: int
    plan: Annotated[dict[str, Any], describe(kind=Plan)]
    weights_digest: Annotated[str, _LATER]
    calibration: Annotated[dict[str, float], describe(kind=ProbabilitySettings, is_required=False)]
    versions: Annotated[dict[str, str], _LATER]
    inputs: Annotated[int, describe("How many were measured.")]
    data_digest: Annotated[str, describe(key=DATA, is_required=False)]
    tokens_at_once: Annotated[int, describe(key=AT_ONCE_FIELD, is_required=False)]
    removal: Annotated[str | None, optional("In which way tokens were taken away, where the plan names none.", key=REMOVAL)]
    broken: Annotated[Any, optional("Inputs that could not be read and were left out.", key=BROKEN, kind=list[BrokenRow])]
    left_out: Annotated[int, describe("Inputs whose class the model does not know.", is_required=False)]
    unknown: Annotated[
        dict[str, int],
        describe("Of how many inputs each class was left out, as the model knows nothing of its name.", is_required=False),
    ]
    command: Annotated[str | None, describe("What was typed.")]
    seconds: Annotated[float | None, describe("How long it took where it ran in one go.", is_required=False)]
    date: Annotated[str | None, describe("The day on which the last input was measured (UTC), as 2026-11-29.", is_required=False)]
    kind: str
    dataset: RunDataset
    methods: list[RunMethod]
    metrics: list[Metric]
    interval: Interval
    results: Annotated[dict[str, dict[str, RunFigure]], describe("By metric, then by method.")]
    apart: dict[str, list[list[float | None]]]
    curves: dict[str, RunCurves]
    blocks: Annotated[
        dict[str, list[BlockFigure] | None],
        describe(
            "Of each method the conservation error by block, where it was measured; null where it follows no rule.", is_required=False
        ),
    ]
    costs: Annotated[RunCosts | None, describe("Null where nothing is known of it.", is_required=False)]


def write_reports(
    run: EvaluationRun, setup: EvaluationSetup, *, command: str | None = None, seconds: float | None = None, with_examples: bool = True
) -> dict[str, Any]:
    """Write ``report.json``, ``examples.json`` and ``report.html`` into the folder of ``run``, and return the report; ``setup`` holds its
    model and data.

    ``command`` is the command line; ``seconds`` the duration of a run that was not interrupted. Without examples the files contain no input
    of the data set, so they may be passed on even if the data may not.
    """
    report = report_of(run, setup, command=command, seconds=seconds)
    examples = examples_of(setup, run.rows) if with_examples else None
    if examples is None:
        (run.folder / EXAMPLES).unlink(missing_ok=True)
    else:
        write_json(run.folder / EXAMPLES, examples)
    page = page_of(report, examples)
    write_text(run.folder / PAGE, page)
    write_json(run.folder / REPORT, report)
    return report


def report_of(run: EvaluationRun, setup: EvaluationSetup, *, command: str | None = None, seconds: float | None = None) -> dict[str, Any]:
    """Return the report of ``run``, a finished one with the model and data of ``setup``, as plain data: an :class:`EvaluationReport`.
    ``command`` is the command line, ``seconds`` the duration of the run; None: unknown.
    """
    methods = list(setup.plan.methods)
    weights = weights_of_rows(run.rows, methods)
    entry = DATASETS[setup.data.name]
    results, apart = {}, {}
    for metric in setup.metrics:
        results[metric.name], apart[metric.name] = _results(metric, run, methods, weights)
    unknown_of = {row["index"]: row.get("unknown") or [] for row in run.rows}
    unknown = Counter(label for labels in unknown_of.values() for label in labels)
    about = run.about
    report = EvaluationReport(
        format=FORMAT,
        plan=about["plan"],
        weights_digest=about["weights_digest"],
        calibration=about[CALIBRATION],
        versions=about["versions"],
        inputs=len(unknown_of),
        data_digest=about[DATA],
        tokens_at_once=about[AT_ONCE_FIELD],
        removal=about.get(REMOVAL),
        broken=about.get(BROKEN),
        left_out=about["inputs"] - len(unknown_of) - len(about.get(BROKEN, [])),
        unknown=dict(unknown.most_common()),
        command=command,
        seconds=None if seconds is None else round(seconds, 1),
        date=_date_of(run.folder / ROWS),
        kind=setup.data.kind,
        dataset=RunDataset(
            name=entry.name,
            title=entry.title if setup.data.split is None else f"{entry.title}, {setup.data.split}",
            description=entry.description,
            source=None if entry.source is None else entry.source.about(),
            split=setup.data.split,
            unread=len(setup.data.unread),
        ),
        methods=[_method(request) for request in setup.plan.requests],
        metrics=setup.metrics,
        interval=Interval(LEVEL, BOOTSTRAP_DRAWS),
        results=results,
        apart=apart,
        curves=_curves(run, methods),
        blocks=_blocks(run, methods, weights),
        costs=_costs(run, methods),
    )
    return report.to_json()


def _date_of(rows: Path) -> str | None:
    """Return the day on which the file of the rows was written, in UTC; None if it is not there."""
    return datetime.fromtimestamp(rows.stat().st_mtime, UTC).date().isoformat() if rows.is_file() else None


def _method(request: Request) -> RunMethod:
    title = Spec.parse(request.spec).title(request.name.title)
    return RunMethod(request.spec, title, request.name.source.authors, request.name.source.year, request.method.signed)


def _results(metric: Metric, run: EvaluationRun, methods: list[str], weights: Any) -> tuple[dict[str, RunFigure], list[list[float | None]]]:
    estimates = estimate(metric, columns_of(metric, run.rows, methods), weights)
    tied = estimates.find_ties(metric.direction)
    results = {
        method: RunFigure(
            value=_number(estimates.values[i], None),
            error=_number(estimates.errors[i], None),
            low=_number(estimates.low[i], None),
            high=_number(estimates.high[i], None),
            inputs=int(estimates.counts[i]),
            tied=tied[i],
        )
        for i, method in enumerate(methods)
    }
    return results, [[_number(value, 4) for value in row] for row in estimates.p_of_pairs]


def _number(value: float, digits: int | None = 6) -> float | None:
    """Round ``value`` for the report to so many significant ``digits`` (None: all), and return it; None if it is not finite."""
    if not math.isfinite(value):
        return None
    return float(value if digits is None else f"{value:.{digits}g}")


def _curves(run: EvaluationRun, methods: list[str]) -> dict[str, RunCurves]:
    steps = run.about["plan"].get("steps", TENTHS_OF_ALL)
    fractions = {name: curve.in_steps(steps).fractions for name, curve in {"most": MOST, "left": LEFT}.items()}
    parts = {}
    for name, shares in fractions.items():
        if run.rows and f"curve.{name}" in run.rows[0]:
            values = np.array([row[f"curve.{name}"] for row in run.rows]).reshape(-1, len(methods), len(shares)).mean(0)
            rounded = {method: [float(f"{value:.5g}") for value in row] for method, row in zip(methods, values, strict=True)}
            parts[name] = RunCurves(list(shares), rounded)
    return parts


def _blocks(run: EvaluationRun, methods: list[str], weights: Any) -> dict[str, list[BlockFigure] | None]:
    if not run.rows or BLOCK_COLUMNS[0] not in run.rows[0]:
        return {}
    metric, blocks = METRICS["conservation"], max(len(row[BLOCK_COLUMNS[0]] or ()) for row in run.rows)
    nothing = [math.nan] * blocks
    sums = np.array([[row[column] or nothing for column in BLOCK_COLUMNS] for row in run.rows], np.float64)
    explained, tokens, biases = np.moveaxis(sums.reshape(-1, len(methods), len(BLOCK_COLUMNS), blocks), 2, 0)

    def estimate_block(arrived: Any, block: int) -> Estimates:
        missed = np.abs(arrived - explained)[..., block]
        return estimate(metric, np.stack([missed, np.abs(explained[..., block])], -1), weights)

    of_blocks = [(estimate_block(tokens + biases, block), estimate_block(tokens, block)) for block in range(blocks)]
    return {
        method: None
        if not math.isfinite(of_blocks[0][0].values[i])
        else [
            BlockFigure(_number(whole.values[i]), _number(whole.low[i]), _number(whole.high[i]), without_biases=_number(alone.values[i]))
            for whole, alone in of_blocks
        ]
        for i, method in enumerate(methods)
    }


def _costs(run: EvaluationRun, methods: list[str]) -> RunCosts | None:
    costs: dict[str, dict[str, list[float]]] = {name: {method: [] for method in methods} for name in ("seconds", "memory")}
    for row in run.costs:
        for name, of_methods in costs.items():
            if row[name] is not None:
                of_methods[row["method"]].append(row[name])
    if not any(costs["seconds"].values()):
        return None
    seconds = {}
    for method, values in costs["seconds"].items():
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]) if values else [math.nan] * 3
        seconds[method] = CostFigure(_number(middle, 4), _number(low, 4), _number(high, 4), len(values))
    memory = {method: int(max(values)) if values else None for method, values in costs["memory"].items()}
    devices = dict.fromkeys(row["device"] for row in run.costs if row["device"])
    return RunCosts(list(devices), seconds, memory)


def check_report(report: Any, path: Path) -> dict[str, Any]:
    """Check a report that was read from the file ``path``, and return it.

    Raises ExplainerError for a file that is no report, for one of another format, and for one without a value that pages show.
    """
    if not isinstance(report, dict) or not {"format", "plan", "results", "methods", "metrics"} <= set(report):
        raise ExplainerError(f"{path} is no report of vitrine evaluate.")
    if report["format"] != FORMAT:
        raise ExplainerError(f"{path} is a report of format {report['format']}; this version reads format {FORMAT}: run it again.")
    try:
        _check_keys(report)
    except (KeyError, TypeError, AttributeError) as problem:
        raise ExplainerError(f"{path} is damaged ({problem!r}): make it again with the same vitrine evaluate on its folder.") from None
    return report


def _check_keys(report: dict[str, Any]) -> None:
    """Raise KeyError, TypeError or AttributeError if a value of a report that pages show is missing or has the wrong type."""
    for name in ("methods", "metrics"):
        if not isinstance(report[name], list) or not report[name]:
            raise TypeError(f"{name} must be a list of one or more")
    keys_of_parts: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        (report, ("inputs", "kind", "command", "curves")),
        (report["plan"], ("model", "dataset", "target", "how", "seed")),
        (report["dataset"], ("name", "title")),
        (report["interval"], ("level", "draws")),
        *((method, ("spec", "title", "by", "year", "signed")) for method in report["methods"]),
        *((metric, ("name", "title", "description", "direction", "unit", "source")) for metric in report["metrics"]),
    ]
    results = [(metric["name"], method["spec"]) for metric in report["metrics"] for method in report["methods"]]
    keys_of_parts += [(report["results"][metric][spec], ("value", "error", "low", "high", "tied")) for metric, spec in results]
    for part, names in keys_of_parts:
        for name in names:
            part[name]
    for metric in report["metrics"]:  # a page puts these in order
        for spec, figures in report["results"][metric["name"]].items():
            if any(not isinstance(figures[name], int | float | None) for name in ("value", "error", "low", "high")):
                raise TypeError(f"a figure of {spec} by {metric['name']} is no number")
