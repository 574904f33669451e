"""What a run found, as plain data: ``report.json``, from which ``report.html`` and the leaderboard are made."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from explainers.datasets import DATASETS
from explainers.errors import ExplainerError
from explainers.evaluation.broken_inputs import BROKEN
from explainers.evaluation.conservation import BLOCK_COLUMNS
from explainers.evaluation.examples import examples_of
from explainers.evaluation.html import page_of
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.rows import write_json, write_whole
from explainers.evaluation.running import FORMAT, EvaluationRun
from explainers.evaluation.statistics import BOOTSTRAP_DRAWS, LEVEL, Estimates, columns_of, estimate, weights_of_rows
from explainers.methods.specs import Spec
from explainers.metrics import METRICS, Metric
from explainers.metrics.faithfulness import LEFT, MOST
from explainers.metrics.registry import TENTHS_OF_ALL

REPORT, EXAMPLES, PAGE = "report.json", "examples.json", "report.html"


def write_reports(
    run: EvaluationRun, setup: EvaluationSetup, *, command: str | None = None, seconds: float | None = None, with_examples: bool = True
) -> dict[str, Any]:
    """Write ``report.json``, ``examples.json`` and ``report.html`` into the folder of a run, and return the report.

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
    write_whole(run.folder / PAGE, lambda half: _write(half, page))
    write_json(run.folder / REPORT, report)
    return report


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def report_of(run: EvaluationRun, setup: EvaluationSetup, *, command: str | None = None, seconds: float | None = None) -> dict[str, Any]:
    """Return the report of a run as plain data.

    inputs   number of measured inputs
    left_out  number of inputs that were not measured because the model knows none of their classes
    broken   the inputs that could not be read: number, name and reason of each; absent if there are none
    unknown  if every class is explained: label -> in how many measured inputs it was left out because the model does not know the name
    results  metric -> method -> value, standard error, ends of the interval, how many explained classes of inputs count, whether it is tied
             with the best
    apart    metric -> p that two methods are alike, for every pair, in the order of ``methods``
    curves   curve -> method -> mean probability of the explained class at each of ``fractions``
    blocks   method -> conservation error at the input of each block, its interval, and what it is without bias terms; None if the method
             follows no rule; without methods where it was not measured
    costs    cost of a map: ``seconds``, method -> median and quartiles over inputs; ``memory``, method -> the most bytes of a map, None if
             the device does not count them; ``devices``. None if nothing is known of it
    """
    methods = list(setup.plan.methods)
    weights = weights_of_rows(run.rows, methods)
    entry = DATASETS[setup.data.name]
    results, apart = {}, {}
    for metric in setup.metrics:
        results[metric.name], apart[metric.name] = _results(metric, run, methods, weights)
    unknown_of = {row["index"]: row.get("unknown") or [] for row in run.rows}
    unknown = Counter(label for labels in unknown_of.values() for label in labels)
    requests = [(request.spec, request) for request in setup.plan.requests]
    return {
        **run.about,
        "format": FORMAT,
        "inputs": len(unknown_of),
        "left_out": run.about["inputs"] - len(unknown_of) - len(run.about.get(BROKEN, [])),
        "unknown": dict(unknown.most_common()),
        "command": command,
        "seconds": None if seconds is None else round(seconds, 1),
        "kind": setup.data.kind,
        "dataset": {
            "name": entry.name,
            "title": entry.title if setup.data.split is None else f"{entry.title}, {setup.data.split}",
            "description": entry.description,
            "source": entry.source and entry.source.about(),
            "split": setup.data.split,
            "unread": len(setup.data.unread),
        },
        "methods": [
            {
                "spec": spec,
                "title": Spec.parse(spec).title(entry.name.title),
                "by": entry.name.source.authors,
                "year": entry.name.source.year,
                "signed": entry.method.signed,
            }
            for spec, entry in requests
        ],
        "metrics": [metric.about() for metric in setup.metrics],
        "interval": {"level": LEVEL, "draws": BOOTSTRAP_DRAWS},
        "results": results,
        "apart": apart,
        "curves": _curves(run, methods),
        "blocks": _blocks(run, methods, weights),
        "costs": _costs(run, methods),
    }


def _results(metric: Metric, run: EvaluationRun, methods: list[str], weights: Any) -> tuple[dict[str, Any], list[list[float | None]]]:
    estimates = estimate(metric, columns_of(metric, run.rows, methods), weights)
    tied = estimates.find_ties(metric.direction)
    results = {
        method: {
            "value": _number(estimates.values[i], None),
            "error": _number(estimates.errors[i], None),
            "low": _number(estimates.low[i], None),
            "high": _number(estimates.high[i], None),
            "inputs": int(estimates.counts[i]),
            "tied": tied[i],
        }
        for i, method in enumerate(methods)
    }
    return results, [[_number(value, 4) for value in row] for row in estimates.p_of_pairs]


def _number(value: float, digits: int | None = 6) -> float | None:
    """Round a number for the report; ``digits`` None keeps all digits, and what is not finite becomes None."""
    if not math.isfinite(value):
        return None
    return float(value if digits is None else f"{value:.{digits}g}")


def _curves(run: EvaluationRun, methods: list[str]) -> dict[str, Any]:
    steps = run.about["plan"].get("steps", TENTHS_OF_ALL)
    fractions = {name: curve.in_steps(steps).fractions for name, curve in {"most": MOST, "left": LEFT}.items()}
    parts = {}
    for name, shares in fractions.items():
        if run.rows and f"curve.{name}" in run.rows[0]:
            values = np.array([row[f"curve.{name}"] for row in run.rows]).reshape(-1, len(methods), len(shares)).mean(0)
            parts[name] = {
                "fractions": list(shares),
                "methods": {method: [float(f"{value:.5g}") for value in row] for method, row in zip(methods, values, strict=True)},
            }
    return parts


def _blocks(run: EvaluationRun, methods: list[str], weights: Any) -> dict[str, Any]:
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
            {
                "value": _number(whole.values[i]),
                "low": _number(whole.low[i]),
                "high": _number(whole.high[i]),
                "without_biases": _number(alone.values[i]),
            }
            for whole, alone in of_blocks
        ]
        for i, method in enumerate(methods)
    }


def _costs(run: EvaluationRun, methods: list[str]) -> dict[str, Any] | None:
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
        seconds[method] = {"value": _number(middle, 4), "low": _number(low, 4), "high": _number(high, 4), "inputs": len(values)}
    memory = {method: int(max(values)) if values else None for method, values in costs["memory"].items()}
    devices = dict.fromkeys(row["device"] for row in run.costs if row["device"])
    return {"devices": list(devices), "seconds": seconds, "memory": memory}


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
    """Raise KeyError, TypeError or AttributeError where something that pages show is missing or has the wrong type."""
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
