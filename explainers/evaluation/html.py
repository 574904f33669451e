"""A report as one page of HTML that needs nothing else: tables, intervals, curves, best and worst cases."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from explainers.evaluation.examples import draw_example, unpack_scores
from explainers.evaluation.marks import best_methods, cannot_tell
from explainers.methods.registry import is_control

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1a15; --paper: #fffefb; --soft: #5f5a4e; --rule: #d8d2c2; --mark: #7a4a00; --line: #8a3ffc }
@media (prefers-color-scheme: dark) { :root { --ink: #efeae0; --paper: #191814; --soft: #b3ab9a; --rule: #45413a; --mark: #f0b95a } }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: var(--ink); background: var(--paper); font: 15px/1.5 Georgia, serif }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: 13px } th, td { padding: 3px 10px 3px 0; text-align: left }
th { border-bottom: 1px solid var(--rule); font-weight: 600 } td { font-family: ui-monospace, monospace; white-space: nowrap }
.tied { color: var(--mark); font-weight: 700 } .soft, small { color: var(--soft) } figure { display: inline-block; margin: 0 1rem 1rem 0 }
figcaption { font-size: 12px; max-width: 14rem } svg { overflow: visible } svg text { fill: var(--ink); font: 11px ui-monospace, monospace }
.words { max-width: 40rem; font-size: 13px }
"""
_CASES = 3  # metrics, at most, of which cases are shown, one of each family first
_CURVES_DRAWN = 8  # methods whose curves are drawn
_EXPLAINED = {
    "predicted": "the predicted class",
    "gold": "the class that the data set gives",
    "each": "each class that the data set gives",
}
_LONG_TEXTS = {
    "windows": "Texts longer than the model takes are read in windows. ",
    "cut": "Texts longer than the model takes are cut to what it reads. ",
}
_HUES = ("#8a3ffc", "#007d79", "#b28600", "#d12771", "#0f62fe", "#6f6f6f", "#24a148", "#ba4e00")


def page_of(report: dict[str, Any], examples: dict[str, Any] | None) -> str:
    """The page of a report with its examples, where it has any."""
    plan = report["plan"]
    title = f"{plan['model']} on {report['dataset']['title']}"
    facts = (
        f"{inputs_in_words(report)}. Drawn with seed {plan['seed']}. Explained: {_EXPLAINED[plan['target']]}. "
        f"Tokens are taken away: {plan['how'] or 'as suits the model'}. "
        f"{_LONG_TEXTS[plan.get('long_texts', 'windows')] if report['kind'] == 'text' else ''}"
        f"Intervals hold {report['interval']['level']:.0%} of {report['interval']['draws']} paired bootstrap draws of the inputs."
    )
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(facts)}</p>",
        f"<p><code>{escape(report['command'])}</code></p>" if report["command"] else "",
        "<h2>Figures</h2>",
        "<p>Value ± standard error. <b class=tied>Marked *</b>: cannot be told from the best (paired bootstrap, Holm, 5 %).</p>",
        f"<p class=soft>{escape(NO_VALUE)}.</p>" if lacks_values(report) else "",
        f"<p class=soft>{escape(FEWER)}.</p>" if has_counts(report) else "",
        _table(report),
        *_reasons_undecided(report),
        "<h2>Intervals</h2>",
        *(_intervals(report, metric) for metric in report["metrics"]),
        "<h2>Curves</h2>" if report["curves"] else "",
        *(_curve(report, name) for name in report["curves"]),
        *(["<h2>Best and worst cases</h2>", *_cases(report, examples)] if examples is not None else []),
        "<h2>What the metrics measure</h2>",
        _definitions(report["metrics"]),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(part for part in parts if part) + "\n</body></html>\n"
    )


def inputs_in_words(report: dict[str, Any]) -> str:
    """How many inputs a report is of and of which split, how many were left out, which labels of the others, and how many files."""
    left_out = report.get("left_out", 0)
    without = f", {left_out} more left out: the model knows no class that the data set gives them" if left_out else ""
    unknown = report.get("unknown") or {}
    labels = ", ".join(f"{label} (in {inputs})" for label, inputs in unknown.items())
    unexplained = f"; not explained, for the model has neither a class nor a group of the name: {labels}" if unknown else ""
    files = report["dataset"].get("unread", 0)
    unread = f"; {files} file{'' if files == 1 else 's'} in the folder of the data set not read" if files else ""
    split = f" of {report['dataset']['split']}" if report["dataset"].get("split") else ""
    return f"{report['inputs']} input{'' if report['inputs'] == 1 else 's'}{split}{without}{unexplained}{unread}"


#: Why a method has no value by a metric.
NO_VALUE = (
    "–: no value: the method promises no sum, its maps have no positive score, or no input shows what the metric needs (an outlined "
    "object, a marked word, a known class)"
)
#: What a count beside a value says.
FEWER = "n of m: so many of the explained inputs have a value by this metric and this method; the others are left out of the mean"


def count_in_words(report: dict[str, Any], metric: dict[str, Any], spec: str) -> str:
    """Of how many inputs a method's value is, where others have more: "48 of 60"; else nothing."""
    results = report["results"][metric["name"]]
    inputs, most = results[spec].get("inputs", 0), max(figure.get("inputs", 0) for figure in results.values())
    return f"{inputs} of {most}" if results[spec]["value"] is not None and inputs < most else ""


def has_counts(report: dict[str, Any]) -> bool:
    """Whether a method has values of fewer inputs than others."""
    return any(count_in_words(report, metric, method["spec"]) for metric in report["metrics"] for method in report["methods"])


def lacks_values(report: dict[str, Any]) -> bool:
    """Whether a method has no value by a metric."""
    return any(figure["value"] is None for figures in report["results"].values() for figure in figures.values())


def format_value(value: float | None, unit: str) -> str:
    """A value as it is printed: a share in per cent."""
    if value is None:
        return "–"
    return f"{100 * value:.1f}" if unit == "share" else f"{value:.3g}"


def rank_methods(report: dict[str, Any], metric: dict[str, Any]) -> list[str]:
    """The methods that have a value, best first; by falling value where neither end is better."""
    results = report["results"][metric["name"]]
    sign = 1 if metric["direction"] == "lower" else -1
    return sorted((spec for spec in results if results[spec]["value"] is not None), key=lambda spec: sign * results[spec]["value"])


def _arrow(metric: dict[str, Any]) -> str:
    return {"higher": " ↑", "lower": " ↓"}.get(metric["direction"] or "", "")


def _table(report: dict[str, Any]) -> str:
    metrics = report["metrics"]
    heads = ["<th scope=col>Method</th>", *(f"<th scope=col>{escape(m['title'] + (' %' if m['unit'] == 'share' else '') + _arrow(m))}</th>"
                                            for m in metrics)]  # fmt: skip
    best_of_metrics = {metric["name"]: best_methods(report, metric) for metric in metrics}
    undecided_metrics = {metric["name"] for metric in metrics if cannot_tell(report, metric)}
    first = rank_methods(report, metrics[0])
    order = [*first, *(method["spec"] for method in report["methods"] if method["spec"] not in first)]
    rows = []
    for spec in order:
        cells = []
        for metric in metrics:
            value = report["results"][metric["name"]][spec]
            text = format_value(value["value"], metric["unit"])
            error = f" <small>±{format_value(value['error'], metric['unit'])}</small>" if value["value"] is not None else ""
            error += f" <small>{of}</small>" if (of := count_in_words(report, metric, spec)) else ""
            is_best = spec in best_of_metrics[metric["name"]]
            style = " class=tied" if is_best else " class=soft" if metric["name"] in undecided_metrics else ""
            cells.append(f"<td{style}>{text}{'*' if is_best else ''}{error}</td>")
        rows.append(f"<tr><td>{escape(spec)}</td>{''.join(cells)}</tr>")
    return f"<div class=scroll><table><thead><tr>{''.join(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"


def _reasons_undecided(report: dict[str, Any]) -> list[str]:
    """Of each metric that cannot tell which method is good, why."""
    reasons = {metric["title"]: cannot_tell(report, metric) for metric in report["metrics"]}
    return [f"<p class=soft><b>{escape(title)}</b>, in grey: {escape(reason)}</p>" for title, reason in reasons.items() if reason]


def _intervals(report: dict[str, Any], metric: dict[str, Any]) -> str:
    results, order = report["results"][metric["name"]], rank_methods(report, metric)
    ends = [results[spec][end] for spec in order for end in ("low", "high")]
    if not ends:
        return ""
    low, high = float(min(ends)), float(max(ends))
    width, height = 420, 18
    scale = width / (high - low) if high > low else 0.0

    def at(value: float) -> float:
        return 230 + (value - low) * scale

    lines, best = [], best_methods(report, metric)
    for row, spec in enumerate(order):
        bar, y = results[spec], 14 + row * height
        colour = "var(--mark)" if spec in best else "currentColor"
        lines.append(
            f'<text x="0" y="{y + 4}">{escape(spec)}</text><line x1="{at(bar["low"]):.1f}" x2="{at(bar["high"]):.1f}" y1="{y}" y2="{y}" '
            f'stroke="{colour}"/><circle cx="{at(bar["value"]):.1f}" cy="{y}" r="3" fill="{colour}"/>'
            f'<text x="{at(high) + 10:.0f}" y="{y + 4}">{format_value(bar["value"], metric["unit"])}</text>'
        )
    name = metric["title"] + _arrow(metric)
    return (
        f'<h3>{escape(name)}</h3><div class=scroll><svg role="img" aria-label="{escape(name)}: intervals of the methods" '
        f'width="720" height="{14 + len(order) * height}">{"".join(lines)}</svg></div>'
    )


def _curve(report: dict[str, Any], name: str) -> str:
    curve = report["curves"][name]
    about = {
        "most": "Probability of the class while the most important tokens are gone",
        "left": "Probability of the class when only the most important tokens are left",
    }[name]
    steps = curve["fractions"]
    # the methods whose curves lie lowest, or highest where few tokens should be enough
    order = sorted(curve["methods"], key=lambda spec: sum(curve["methods"][spec]) * (1 if name == "most" else -1))
    specs = [*[spec for spec in order if spec != "random"][: _CURVES_DRAWN - 1], *(["random"] if "random" in order else [])]
    lines = []
    for number, spec in enumerate(specs):
        points = " ".join(f"{40 + 400 * x:.1f},{210 - 200 * y:.1f}" for x, y in zip(steps, curve["methods"][spec], strict=True))
        hue = _HUES[number % len(_HUES)]
        lines.append(
            f'<polyline fill="none" stroke="{hue}" stroke-width="2" points="{points}"/><line x1="460" x2="480" y1="{18 + 18 * number}" '
            f'y2="{18 + 18 * number}" stroke="{hue}" stroke-width="2"/><text x="486" y="{22 + 18 * number}">{escape(spec)}</text>'
        )
    axes = "".join(f'<text x="{34 + 400 * x:.0f}" y="228">{x:.0%}</text>' for x in (0.1, 0.5, 0.9))
    axes += "".join(f'<text x="0" y="{214 - 200 * y:.0f}">{y:.1f}</text>' for y in (0, 0.5, 1))
    lines.insert(0, axes)
    return f'<h3>{about}</h3><div class=scroll><svg role="img" aria-label="{about}" width="720" height="236">{"".join(lines)}</svg></div>'


def _cases(report: dict[str, Any], examples: dict[str, Any]) -> Iterable[str]:
    families: dict[str, dict[str, Any]] = {}
    for metric in report["metrics"]:
        families.setdefault(metric["family"], metric)
    signed = {method["spec"]: method["signed"] for method in report["methods"]}
    for metric in list(families.values())[:_CASES]:
        order = rank_methods(report, metric)
        if not order:
            continue
        spec = next((spec for spec in order if not is_control(spec)), order[0])
        yield f"<h3>{escape(metric['title'])}: {escape(spec)}</h3>"
        for end, cases in examples["chosen"][metric["name"]][spec].items():
            yield "".join(
                _case(examples, spec, index, signed[spec], f"{end}: {format_value(value, metric['unit'])}") for index, value in cases
            )


def _case(examples: dict[str, Any], spec: str, index: int, signed: bool, about: str) -> str:
    example_input = examples["inputs"][str(index)]
    name, target = escape(example_input["name"]), escape(example_input["target"])
    caption = f"<figcaption>{escape(about)}<br><span class=soft>{name}, {target}</span></figcaption>"
    if "words" in example_input:
        words = _words(example_input["words"], unpack_scores(examples["maps"][spec][str(index)]).tolist())
        return f"<figure><p class=words>{words}</p>{caption}</figure>"
    data = base64.b64encode(draw_example(examples, spec, index, signed)).decode("ascii")
    alt = f"map of {spec} on {example_input['name']}"
    return f'<figure><img alt="{escape(alt)}" width="160" src="data:image/png;base64,{data}">{caption}</figure>'


def _words(words: Sequence[str], scores: Sequence[float]) -> str:
    """Words on grounds of the strength of their scores, and underlined: dotted where they speak against."""
    parts = []
    for word, score in zip(words, scores, strict=True):
        hue = "205,62,38" if score > 0 else "46,104,178"
        line = "solid" if score > 0 else "dotted"
        parts.append(f'<span style="background:rgba({hue},{0.5 * abs(score):.2f});text-decoration:underline {line}">{escape(word)}</span>')
    return " ".join(parts)


def _definitions(metrics: list[dict[str, Any]]) -> str:
    rows = []
    for metric in metrics:
        source = metric["source"]
        citation = f"{source['authors']}, {source['year']}: {source['title']}" if source else ""
        heading = escape(metric["title"] + _arrow(metric))
        rows.append(f"<dt><b>{heading}</b></dt><dd>{escape(metric['description'])} <small>{escape(citation)}</small></dd>")
    return f"<dl>{''.join(rows)}</dl>"
