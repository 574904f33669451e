"""A report as one page of HTML that needs nothing else: tables, intervals, curves, best and worst cases."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from explainers.evaluation.examples import draw_example, unpack_scores
from explainers.evaluation.marks import best_methods, cannot_tell
from explainers.evaluation.protocol_in_words import protocol_in_words
from explainers.evaluation.statistics import rank_methods
from explainers.methods.registry import is_control

_MAX_CASE_METRICS = 3  # most metrics with best and worst cases, one of each family first
_MAX_NAMED_BROKEN = 5  # most broken inputs that are named; run.json and report.json list all
_MAX_CURVES = 8  # most methods whose curves are drawn
_CURVE_TITLES = {
    "most": "Probability of the class while the most important tokens are gone",
    "left": "Probability of the class when only the most important tokens are left",
}
_HUES = ("#8a3ffc", "#007d79", "#b28600", "#d12771", "#0f62fe", "#6f6f6f", "#24a148", "#ba4e00")


def page_of(report: dict[str, Any], examples: dict[str, Any] | None) -> str:
    """Return the HTML page of ``report``, the JSON of a finished run, with its ``examples`` if it has any."""
    plan, metrics = report["plan"], report["metrics"]
    first = rank_methods(report, metrics[0])
    return (
        page_templates()
        .get_template("report.html.jinja")
        .render(
            report=report,
            plan=plan,
            examples=examples,
            title=f"{plan['model']} on {report['dataset']['title']}",
            inputs=inputs_in_words(report),
            protocol=" ".join(protocol_in_words(plan, report["kind"], report.get("removal"))),
            notes=[*([NO_VALUE] if lacks_values(report) else []), *([FEWER_INPUTS] if has_counts(report) else [])],
            order=[*first, *(method["spec"] for method in report["methods"] if method["spec"] not in first)],
            marked={metric["name"]: best_methods(report, metric) for metric in metrics},
            undecided={metric["name"]: cannot_tell(report, metric) for metric in metrics},
            about_curves=_CURVE_TITLES,
            arrow=lambda metric: {"higher": " ↑", "lower": " ↓"}.get(metric["direction"] or "", ""),
            shown=format_value,
            counted=count_in_words,
            bars_of=_bars,
            lines_of=_lines,
            cases=_cases,
        )
    )


def page_templates(folder: Path | None = None) -> Environment:
    """Return the templates of pages in this folder, and of those in ``folder`` that include them."""
    folders = [*([] if folder is None else [folder]), Path(__file__).parent]
    return Environment(loader=FileSystemLoader(folders), autoescape=True, trim_blocks=True, lstrip_blocks=True)


def inputs_in_words(report: dict[str, Any]) -> str:
    """Return a sentence on the inputs of a report.

    It says how many were measured and of which split, how many were left out, which were broken, which labels have no class, and how many
    files were not read.
    """
    left_out = report.get("left_out", 0)
    without = f", {left_out} more left out: the model knows no class that the data set gives them" if left_out else ""
    unknown = report.get("unknown") or {}
    labels = ", ".join(f"{label} (in {inputs})" for label, inputs in unknown.items())
    unexplained = f"; not explained, for the model has neither a class nor a group of the name: {labels}" if unknown else ""
    files = report["dataset"].get("unread", 0)
    unread = f"; {files} file{'' if files == 1 else 's'} in the folder of the data set not read" if files else ""
    broken = broken_in_words(report["broken"]) if report.get("broken") else ""
    split = f" of {report['dataset']['split']}" if report["dataset"].get("split") else ""
    return f"{report['inputs']} input{'' if report['inputs'] == 1 else 's'}{split}{without}{broken}{unexplained}{unread}"


def broken_in_words(broken: list[dict[str, Any]]) -> str:
    """Return a sentence part on the inputs that could not be read, from ``broken``, one row of a run for each: how many, which, and the
    reason for the first few.
    """
    reasons = [row["broken"].partition("\n")[0].rstrip(".") for row in broken[:_MAX_NAMED_BROKEN]]
    named = "; ".join(f"{row['input'] or 'number'} ({row['index']}): {reason}" for row, reason in zip(broken, reasons, strict=False))
    more = "; ..." if len(broken) > _MAX_NAMED_BROKEN else ""
    return f"; {len(broken)} broken and left out ({named}{more})"


#: The note on a method without a value by a metric.
NO_VALUE = (
    "–: no value: the method promises no sum or follows no rule, its maps have no positive score, or no input shows what the metric needs "
    "(an outlined object, a marked word, a known class)"
)
#: The note on a count next to a value.
FEWER_INPUTS = "n of m: n of the m explained inputs have a value by this metric and this method; the others are left out of the mean"


def count_in_words(report: dict[str, Any], metric: dict[str, Any], spec: str) -> str:
    """Return on how many inputs the value of the method ``spec`` by a metric of a report is based, such as "48 of 60"; an empty text if no
    other method's value is based on more.
    """
    results = report["results"][metric["name"]]
    inputs, most = results[spec].get("inputs", 0), max(figure.get("inputs", 0) for figure in results.values())
    return f"{inputs} of {most}" if results[spec]["value"] is not None and inputs < most else ""


def has_counts(report: dict[str, Any]) -> bool:
    """Return whether some method of a report has values of fewer inputs than others."""
    return any(count_in_words(report, metric, method["spec"]) for metric in report["metrics"] for method in report["methods"])


def lacks_values(report: dict[str, Any]) -> bool:
    """Return whether some method of a report has no value by some metric."""
    return any(figure["value"] is None for figures in report["results"].values() for figure in figures.values())


def format_value(value: float | None, unit: str, decimals: int | None = None) -> str:
    """Format ``value``, measured in ``unit``, for people: a share as a number of per cent, None as a dash. ``decimals`` None: a share gets
    one decimal, another number three significant digits.
    """
    if value is None:
        return "–"
    if unit == "share":
        return f"{100 * value:.{1 if decimals is None else decimals}f}"
    return f"{value:.3g}" if decimals is None else f"{value:.{decimals}f}"


def _bars(report: dict[str, Any], metric: dict[str, Any]) -> list[dict[str, str]]:
    """Return the bar of each method of a report that has a value of a metric, best first: the ends of its interval and the value, in pixels
    from 230 to 650.
    """
    results, order = report["results"][metric["name"]], rank_methods(report, metric)
    low = min((results[spec]["low"] for spec in order), default=0)
    high = max((results[spec]["high"] for spec in order), default=0)
    scale = 420 / (high - low) if high > low else 0.0
    return [
        {
            "spec": spec,
            "shown": format_value(results[spec]["value"], metric["unit"]),
            **{name: f"{230 + (results[spec][name] - low) * scale:.1f}" for name in ("low", "value", "high")},
        }
        for spec in order
    ]


def _lines(report: dict[str, Any], name: str) -> list[dict[str, str]]:
    """Return the curves of ``report`` to draw for the metric ``name``, each a dict of spec, colour and points of an SVG: those of the best
    methods and that of random scores. The best have the lowest curves, or the highest if the metric asks whether few tokens are enough.
    """
    curve = report["curves"][name]
    order = sorted(curve["methods"], key=lambda spec: sum(curve["methods"][spec]) * (1 if name == "most" else -1))
    picked = [*[spec for spec in order if spec != "random"][: _MAX_CURVES - 1], *(["random"] if "random" in order else [])]
    return [
        {
            "spec": spec,
            "hue": hue,
            "points": " ".join(
                f"{40 + 400 * x:.1f},{210 - 200 * y:.1f}" for x, y in zip(curve["fractions"], curve["methods"][spec], strict=True)
            ),
        }
        for spec, hue in zip(picked, _HUES, strict=False)
    ]


def _cases(report: dict[str, Any], examples: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, list[dict[str, Any]]]]:
    """Yield metrics of a report, each with its best method and the example inputs on which that method is best and worst."""
    families: dict[str, dict[str, Any]] = {}
    for metric in report["metrics"]:
        families.setdefault(metric["family"], metric)
    signed = {method["spec"]: method["signed"] for method in report["methods"]}
    for metric in list(families.values())[:_MAX_CASE_METRICS]:
        order = rank_methods(report, metric)
        if not order:
            continue
        spec = next((spec for spec in order if not is_control(spec)), order[0])
        chosen = examples["chosen"][metric["name"]][spec]
        yield (
            metric,
            spec,
            [
                {"end": end, "value": value, **_case(examples, spec, index, signed[spec])}
                for end, cases in chosen.items()
                for index, value in cases
            ],
        )


def _case(examples: dict[str, Any], spec: str, index: int, signed: bool) -> dict[str, Any]:
    """Return the example input ``index`` of ``examples`` with the map of the method ``spec``, ``signed`` or not: its words with their
    scores, or a picture with the map over it as base64.
    """
    case = examples["inputs"][str(index)]
    if "words" in case:
        scores = unpack_scores(examples["maps"][spec][str(index)]).tolist()
        return {**case, "words": list(zip(case["words"], scores, strict=True))}
    return {**case, "picture": base64.b64encode(draw_example(examples, spec, index, signed)).decode("ascii")}
