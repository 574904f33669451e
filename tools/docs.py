"""The tables of ``docs``, made from the registries: ``python -m tools.docs`` writes them, a test keeps them fresh.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools import api_reference
from vitrine_server.commands.models.listing import methods_markdown
from vitrine_server.commands.text_tables import markdown_table
from vitrine_server.settings import Settings, environment_name

if TYPE_CHECKING:
    from explainers.metrics import Metric

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: The modules from which packages of others, and scripts, import next to those that the reference of the library describes.
EXTENSION_MODULES = (
    "explainers.autograd.rules.choices",
    "explainers.autograd.rules.operands",
    "explainers.models.structure.block_kinds",
    "explainers.models.tasks",
    "explainers.models.libraries.molecule_architectures",
    "explainers.evaluation.protocols.protocol",
    "explainers.evaluation.protocols.reproduction",
    "explainers.embedded.text_bank",
)
#: The pattern of an arXiv number in a citation.
ARXIV = re.compile(r"arXiv (\d{4}\.\d{4,5})")


def rules_markdown() -> str:
    """Return a Markdown table with one row for each backward rule: its choice at each kind of operator."""
    import explainers

    def chosen(value: str | bool) -> str:
        return value.replace("_", " ") if isinstance(value, str) else "counted" if value else "left out"

    rows = [
        (f"`{rule.name}`", rule.source.short, *(chosen(value) for value in rule.choices.values())) for rule in explainers.RULES.values()
    ]
    return markdown_table(("rule", "source", *(kind.title.lower() for kind in explainers.OPERATOR_KINDS.values())), rows)


def models_markdown() -> str:
    """Return a table with one row for each model of the catalogue."""
    from explainers.models.catalogue import CATALOGUE

    rows = [(f"`{model.name}`", model.kind, "inside" if model.embedded else "hub", model.description) for model in CATALOGUE]
    return markdown_table(("model", "kind", "from", "what it is"), rows)


def references_markdown() -> str:
    """Return one line for each publication that a method or a rule comes from, in the order of the methods."""
    import explainers

    named = (variant.source for variant in explainers.variants())
    cited = [replace(one, note="") for one in (*named, *(rule.source for rule in explainers.RULES.values())) if one.year]
    lines: dict[str, str] = {}
    for one in cited:
        lines.setdefault(one.arxiv or one.title, f"- {one}.")
    return ARXIV.sub(r"[arXiv \1](https://arxiv.org/abs/\1)", "\n".join(lines.values()))


def metrics_markdown() -> str:
    """Return a table with one row for each metric: what it measures, which values are better, what it is for, where it comes from."""
    from explainers.metrics import METRICS

    def ends(metric: Metric) -> str:
        low, high = ("" if end is None else f"{end:g}" for end in (metric.lowest, metric.highest))
        return f"{low or 'no bound'} to {high or 'no bound'}"

    on_truth = {metric["name"]: metric for folder in TRUTH_FOLDERS for metric in _read_truth(folder)["metrics"]}
    rows = [
        (
            f"`{metric.name}`",
            metric.title,
            metric.family,
            metric.direction or "neither",
            ends(metric),
            ", ".join(metric.kinds),
            metric.description,
            _truth_in_words(on_truth.get(metric.name)),
            str(metric.source or ""),
        )
        for metric in METRICS.values()
    ]
    return markdown_table(
        ("metric", "title", "question", "better", "range", "for", "what it measures", "agrees with known truth", "source"), rows
    )


def _truth_in_words(metric: dict[str, Any] | None) -> str:
    """Return what worlds of known truth say of a ``metric`` of a comparison: for each kind of input its agreement with the order of methods
    by truth, and whether it ranks the truth first and its inverse last; empty if it was not compared.
    """
    from explainers.evaluation.known_truth.truth_in_words import KINDS

    if metric is None:
        return ""
    parts = []
    for kind, words in KINDS.items():
        agreement, controls = metric["kinds"][kind], metric["controls"]["kinds"][kind]
        if agreement is None:
            continue
        place = ", in doubt" if metric["doubts"][kind] else ", truth first" if controls is not None and controls["first"] else ""
        told = ", told the truth" if metric["reads_marks"] else ""
        parts.append(f"{words} {agreement['tau']:.2f}{told or place}")
    return "; ".join(parts)


def datasets_markdown() -> str:
    """Return Markdown with a section for each data set: what it is, the layout of its folder, its annotations, where it comes from."""
    from explainers.datasets import DATASETS

    parts = []
    for dataset in DATASETS.values():
        layout = f"\n\n```\n{dataset.layout}\n```" if dataset.layout else "\n\nNeeds no files."
        facts = [
            f"Gives: {', '.join(dataset.gives) or 'inputs alone'}.",
            *([f"Source: {dataset.source}."] if dataset.source else []),
            dataset.where,
        ]
        parts.append(f"## {dataset.title}: `{dataset.name}`\n\n{dataset.description}{layout}\n\n{' '.join(fact for fact in facts if fact)}")
    return "\n\n".join(parts)


def protocols_markdown() -> str:
    """Return a table with one row for each table of a paper: the command that measures it, on which models and data."""
    from explainers.evaluation.protocols.protocol import find_protocol, protocol_names

    protocols = [find_protocol(name) for name in protocol_names()]
    rows = [
        (
            protocol.source,
            f"`vitrine reproduce {protocol.name}`",
            protocol.title,
            ", ".join(model.title for model in protocol.models),
            ", ".join(f"`{dataset}`" for dataset in protocol.datasets),
            str(protocol.inputs or "all"),
            "yes" if protocol.published else "",
            protocol.duration or "not measured",
        )
        for protocol in protocols
    ]
    heads = ("table", "command", "what", "models of the paper", "data sets", "inputs", "printed figures next to it", "took here")
    return markdown_table(heads, rows)


def missing_parts_markdown() -> str:
    """Return a table with one row for each table or figure of a paper that no command measures: the reason, and what to do instead."""
    from explainers.evaluation.protocols.protocol import missing_parts

    return markdown_table(
        ("table", "what", "why it is missing", "instead"),
        [(each.source, each.title, each.reason, each.instead) for each in missing_parts()],
    )


def settings_markdown() -> str:
    """Return a Markdown table with one row for each setting of the server: its environment variable, its default, what it does."""
    lines = ["| environment | default | what it does |", "|---|---|---|"]
    for name, setting in Settings.model_fields.items():
        default = ",".join(setting.default) if isinstance(setting.default, tuple) else setting.default
        shown = "`~/.local/share/vitrine`" if name == "home" else f"`{default}`" if setting.default != () else "none"
        lines.append(f"| `{environment_name(name)}` | {shown} | {setting.description} |")
    return "\n".join(lines)


def names_markdown() -> str:
    """Return the public names of ``explainers``, in one line for each first letter."""
    import explainers

    by_letter: dict[str, list[str]] = {}
    for name in sorted(explainers.__all__, key=str.lower):
        by_letter.setdefault(name[0].lower(), []).append(f"`{name}`")
    return "\n".join(f"- {', '.join(names)}" for names in by_letter.values())


def commands_markdown() -> str:
    """Return a Markdown table with one row for each command of ``vitrine``: its name and what it does."""
    from vitrine_server.cli import build_parser

    actions = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    rows = [(f"`vitrine {choice.dest}`", choice.help) for action in actions for choice in action._choices_actions]
    return markdown_table(("command", "what it does"), [(name, help_text or "") for name, help_text in rows])


def modules_markdown() -> str:
    """Return a Markdown table with one row for each public module below ``explainers``: its name, and its public names."""
    rows = []
    for name in (*api_reference.PUBLIC[1:], *EXTENSION_MODULES):
        names = sorted(importlib.import_module(name).__all__, key=str.lower)
        rows.append((f"`{name}`", ", ".join(f"`{each}`" for each in names)))
    return markdown_table(("module", "names"), rows)


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring as one line of Markdown."""
    return re.split(r"(?<=\.) (?=[A-Z`])", " ".join(text.split()), maxsplit=1)[0].replace("``", "`")


def routes_markdown() -> str:
    """Return a Markdown table with one row for each call over HTTP: its method and URL path, and the first sentence of its description."""
    from tools.script_types import openapi

    rows = [
        (f"`{verb.upper()} {path}`", first_sentence(call["description"]))
        for path, calls in openapi()["paths"].items()
        for verb, call in calls.items()
    ]
    return markdown_table(("call", "what it does"), rows)


def pages_markdown() -> str:
    """Return a sentence with the URL path of each page for people."""
    from fastapi.responses import HTMLResponse
    from fastapi.routing import APIRoute

    from tools.script_types import app

    pages = {route.path_format for route in app().routes if isinstance(route, APIRoute) and route.response_class is HTMLResponse}
    return f"The pages are {', '.join(f'`{path}`' for path in sorted(pages))}."


def entry_points_markdown() -> str:
    """Return a list of the groups of entry points that a package may use."""
    from explainers.plugins import ENTRY_POINT_GROUPS

    return "\n".join(f"- `{group}`" for group in ENTRY_POINT_GROUPS)


TRUTH_FOLDERS = ("metrics-on-truth", "metrics-by-name")


def _read_truth(folder: str = TRUTH_FOLDERS[0]) -> dict[str, Any]:
    """Return the comparison of metrics with the truth that ships in ``folder`` of the results."""
    from vitrine_server.metric_truth import metric_truth

    document = metric_truth(folder)
    assert document is not None
    return document


def truth_by_name_markdown() -> str:
    """Return what worlds of known truth say of the metrics that people know by name: how many inputs each world had, the agreement of each
    metric with the truth, and where it ranks the truth and its inverse.
    """
    document = _read_truth(TRUTH_FOLDERS[1])
    inputs = "; ".join(f"{world['dataset']}: {world['inputs']}" for world in document["worlds"])
    return f"Inputs: {inputs}.\n\n{_truth_metrics(document)}\n\n{_truth_controls(document)}"


def truth_sentences_markdown() -> str:
    """Return a Markdown list of the sentences that sum up how metrics agree with the truth."""
    return "\n".join(f"* {sentence}" for sentence in _read_truth()["sentences"])


def truth_advice_markdown() -> str:
    """Return the advice on which metric to use, a paragraph for each sentence."""
    return "\n\n".join(_read_truth()["advice"])


def truth_controls_markdown() -> str:
    """Return a table with one row for each metric: where it ranks the truth and its inverse in each world, and how many other controls it
    orders correctly.
    """
    return _truth_controls(_read_truth())


def _truth_controls(document: dict[str, Any]) -> str:
    """Return the table of :func:`truth_controls_markdown` for another comparison of metrics with the truth, ``document``."""
    from explainers.evaluation.known_truth.truth_in_words import INPUT_CONTROLS, place_in_words

    def figures(metric: dict[str, Any], names: tuple[str, ...]) -> str:
        kinds = [about for about in metric["controls"]["kinds"].values() if about is not None]
        of_names = [about["controls"][name] for about in kinds for name in names if name in about["controls"]]
        return f"{sum(each['right'] for each in of_names)} of {sum(each['of'] for each in of_names)}" if of_names else "–"

    rows = []
    for metric in document["metrics"]:
        of_worlds = [metric["controls"]["worlds"][world["name"]] for world in document["worlds"]]
        if any(of_worlds):
            places = [f"{place_in_words(about, 'truth')}; {place_in_words(about, 'truth_inverted')}" for about in of_worlds]
            known = [about for about in of_worlds if about is not None]
            pairs = f"{sum(about['pairs_right'] for about in known)} of {sum(about['pairs'] for about in known)}"
            in_doubt = "in doubt" if any(metric["doubts"].values()) else ""
            blind = figures(metric, tuple(name for name, _ in INPUT_CONTROLS.values()))
            rows.append((metric["title"], in_doubt, *places, pairs, blind, figures(metric, ("centre",))))
    heads = ("metric", "", *(world["dataset"] for world in document["worlds"]), "known pairs", "edges, length of words", "centre")
    return markdown_table(heads, rows)


def truth_metrics_markdown() -> str:
    """Return a table with one row for each metric: its agreement with the truth on each kind of input and in each world, the closest
    first.
    """
    return _truth_metrics(_read_truth())


def _truth_metrics(document: dict[str, Any]) -> str:
    """Return the table of :func:`truth_metrics_markdown` for another comparison of metrics with the truth, ``document``."""
    from explainers.evaluation.known_truth.truth_in_words import KINDS, agreement_in_words

    def cell(figure: dict[str, Any] | None) -> str:
        return "–" if figure is None else agreement_in_words(figure)

    def best(metric: dict[str, Any]) -> float:
        return max((figure["tau"] for figure in metric["kinds"].values() if figure is not None), default=-2.0)

    rows = [
        (
            metric["title"],
            "told" if metric["reads_marks"] else "",
            *(cell(metric["kinds"][kind]) for kind in KINDS),
            *(cell(metric["worlds"][world["name"]]) for world in document["worlds"]),
        )
        for metric in sorted(document["metrics"], key=best, reverse=True)
    ]
    return markdown_table(
        ("metric", "", *(f"on {kind}" for kind in KINDS.values()), *(world["dataset"] for world in document["worlds"])), rows
    )


def truth_methods_markdown() -> str:
    """Return a Markdown table of how well maps find what is known to decide answers: one row for each method with its value and rank in
    each world; below them the controls.
    """
    worlds = _read_truth()["worlds"]
    of_worlds = [{method["spec"]: (place, method) for place, method in enumerate(world["methods"], 1)} for world in worlds]
    specs = dict.fromkeys(spec for of_world in of_worlds for spec in of_world)

    def cell(entry: tuple[int, dict[str, Any]] | None) -> str:
        return "–" if entry is None else f"{entry[1]['value']:.2f} ({entry[1]['low']:.2f} to {entry[1]['high']:.2f}), {entry[0]}."

    rows = [(f"`{spec}`", *(cell(of_world.get(spec)) for of_world in of_worlds)) for spec in specs]
    controls = [{control["name"]: (control["place"], control) for control in world["controls"]} for world in worlds]
    titles = {control["name"]: control["title"] for world in worlds for control in world["controls"]}
    rows += [(f"*{title}*", *(cell(of_world.get(name)) for of_world in controls)) for name, title in titles.items()]
    return markdown_table(("method", *(f"{world['dataset']}: {world['truth']['title']}" for world in worlds)), rows)


def collection_markdown(record: Any) -> str:
    """Return a table with one row for each field of ``record``, a record of `explainers.collection.records`."""
    from explainers.json_records import written_fields

    return markdown_table(("column", "what it is"), [(f"`{key}`", mark.text) for _, key, mark in written_fields(record)])


def collection_row_markdown() -> str:
    """Return a table with one row for each column of a collection."""
    from explainers import CollectedRow

    return collection_markdown(CollectedRow)


def collection_map_markdown() -> str:
    """Return a table with one row for each field of a map in a collection."""
    from explainers import CollectedMap

    return collection_markdown(CollectedMap)


TABLES: dict[str, Callable[[], str]] = {
    "methods": methods_markdown,
    "rules": rules_markdown,
    "models": models_markdown,
    "references": references_markdown,
    "settings": settings_markdown,
    "names": names_markdown,
    "commands": commands_markdown,
    "modules": modules_markdown,
    "routes": routes_markdown,
    "pages": pages_markdown,
    "entry_points": entry_points_markdown,
    "metrics": metrics_markdown,
    "datasets": datasets_markdown,
    "protocols": protocols_markdown,
    "missing_parts": missing_parts_markdown,
    "collection_row": collection_row_markdown,
    "collection_map": collection_map_markdown,
    "truth_sentences": truth_sentences_markdown,
    "truth_advice": truth_advice_markdown,
    "truth_controls": truth_controls_markdown,
    "truth_metrics": truth_metrics_markdown,
    "truth_methods": truth_methods_markdown,
    "truth_by_name": truth_by_name_markdown,
}
#: The files that hold generated tables, with the names of these.
GENERATED_PAGES = {
    "docs/methods.md": ("methods", "references"),
    "docs/rules.md": ("rules",),
    "docs/model_tables.md": ("models",),
    "docs/settings.md": ("settings",),
    "docs/public.md": ("names", "modules", "commands", "routes", "pages", "entry_points"),
    "docs/metrics.md": ("metrics",),
    "docs/datasets.md": ("datasets",),
    "docs/reproduce.md": ("protocols", "missing_parts"),
    "docs/collection.md": ("collection_row", "collection_map"),
    "docs/metrics_on_truth.md": ("truth_sentences", "truth_controls", "truth_metrics", "truth_methods", "truth_by_name", "truth_advice"),
}


def render(text: str) -> str:
    """Return ``text`` with every table in it generated again; raises KeyError for a table that does not exist."""
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


def main() -> None:
    """Write all generated tables."""
    for name in GENERATED_PAGES:
        page = ROOT / name
        page.write_text(render(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
