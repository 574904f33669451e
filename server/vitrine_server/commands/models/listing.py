"""``vitrine models`` and ``vitrine methods``: what there is, read from the registries."""

from __future__ import annotations

import argparse
import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from vitrine_server.commands import Commands
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.text_tables import markdown_table, text_table

TEXT_WIDTH = 120  # columns of a text for reading


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the commands ``vitrine models`` and ``vitrine methods``."""
    parser = commands.add_parser("models", help="list the models that ship with Vitrine and a few from the hub")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run_models)

    parser = commands.add_parser("methods", help="list the attribution methods and the rules that each can be combined with")
    add_model(parser, "say which of them cannot run for this model, and why")
    parser.add_argument("--all", action="store_true", help="show everything about each: paper, rules, options, needs, costs")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print the table of docs/methods.md")
    parser.set_defaults(run=run_methods)


def run_models(args: argparse.Namespace) -> None:
    """Run ``vitrine models`` with its parsed arguments: print the catalogue of models as a table, with the thresholds beyond which each
    says that it does not know; or with ``--json`` as JSON.
    """
    from explainers.models.catalogue import CATALOGUE
    from explainers.models.loading import calibration_of

    calibrations = {entry.name: calibration_of(entry.name) for entry in CATALOGUE if entry.embedded}
    lines = {name: calibration.to_json() for name, calibration in calibrations.items() if calibration.thresholds}
    if args.json:
        listed = [asdict(entry) | ({"calibration": lines[entry.name]} if entry.name in lines else {}) for entry in CATALOGUE]
        print(json.dumps(listed, indent=1, ensure_ascii=False))
        return
    rows = [
        (entry.name, entry.kind, "embedded" if entry.embedded else "hub", entry.description, "yes" if entry.recommended else "")
        for entry in CATALOGUE
    ]
    print(text_table(("model", "kind", "from", "what it is", "recommended"), rows))
    for name, calibration in lines.items():
        print(f"\n{name} says that it does not know:")
        for line in calibration["lines"]:
            side = "below" if line["below"] else "above"
            print(f"  “{line['says']}” where {line['score']} is {side} {line['line']:g}. {line['measured']}")
    print("\nAny other of timm, transformers, OpenCLIP: timm/<name>, hf/<organisation>/<name>, openclip/<model>/<pretrained>, or a folder.")


def run_methods(args: argparse.Namespace) -> None:
    """Run ``vitrine methods`` with its parsed arguments: print each method with each of its rules as a table, or with ``--json`` as JSON.
    With ``--model`` the table says which cannot run for that model. With ``--all`` print everything about each method, with ``--markdown``
    the table of docs/methods.md.
    """
    import explainers
    from explainers.methods import count_methods

    if args.markdown:
        print(methods_markdown())
        return
    model = open_model(args, args.model) if args.model else None
    if args.all:
        from vitrine_server.registries import methods

        listed = methods(model)
        print(json.dumps(listed, indent=1, ensure_ascii=False) if args.json else f"{sheets(listed)}\n\n{rules_and_interactions()}")
        return
    variants = explainers.variants(model)
    if args.json:
        print(json.dumps([variant.to_json() for variant in variants], indent=1, ensure_ascii=False))
        return
    rows = [
        (
            variant.spec,
            f"{variant.title} ({variant.source.short})" if variant.source.short else variant.title,
            "signed" if variant.signed else "",
            "" if variant.class_specific else "same for every class",
            variant.adds_up_to or "",
            "default" if variant.default else "",
            variant.reason or "",
        )
        for variant in variants
    ]
    print(text_table(("method", "title", "sign", "class", "adds up to", "", f"not for {args.model}" if args.model else ""), rows))
    count = count_methods(explainers.all_variants(model))
    print(
        f"\n{count.readouts} methods, {count.methods} with their rules{' for this model' if model else ''}: {count.listed} with "
        f"rules of their own, listed here, and {count.parts} with other rules, which --all lists."
    )


def methods_markdown() -> str:
    """Format the methods as a Markdown table: title, publication, rules (the default one first), kind of scores, and what each computes."""
    import explainers
    from explainers.rendering.drawable import SAME_FOR_EVERY_CLASS

    rows = []
    for method in explainers.METHODS.values():
        scores = "signed" if method.signed else "unsigned"
        if not method.class_specific:
            scores += f", {SAME_FOR_EVERY_CLASS}"
        rules = ", ".join(f"`{rule}`" for rule in method.rules)
        rows.append(
            (
                f"`{method.name}`",
                method.title,
                method.source.short,
                rules or "none",
                scores,
                method.description,
            )
        )
    return markdown_table(("method", "title", "source", "rules", "scores", "what it computes"), rows)


def sheets(methods: Sequence[dict[str, Any]]) -> str:
    """Return everything that is known about each of ``methods`` as text, as wide as the terminal."""
    width = min(TEXT_WIDTH, shutil.get_terminal_size().columns)
    return "\n\n".join("\n".join(sheet(method, width)) for method in methods)


def rules_and_interactions() -> str:
    """Format every backward rule, and the functions whose results are no maps of methods, each with its source."""
    import explainers
    from explainers.analysis.flow_routes.routes import INFORMATION_FLOW
    from explainers.analysis.interactions.faithful import FIXLIP
    from explainers.analysis.interactions.pairs import SOURCE
    from explainers.analysis.interactions.sparse import PROXYSPEX, SPEX

    width = min(TEXT_WIDTH, shutil.get_terminal_size().columns)

    def listed(name: str, text: str) -> str:
        return textwrap.fill(f"{name}  {text}", width, initial_indent="  ", subsequent_indent=" " * 4, break_on_hyphens=False)

    rules = []
    for rule in explainers.RULES.values():
        says = f"{rule.title}; carries {'relevance' if rule.is_relevance else 'gradients'}."
        rules.append(listed(rule.name, f"{says} {rule.source}" if rule.source.authors else says))
    functions = (
        ("explainers.interaction", "which part of one input goes with which part of another, in a model that compares two.", SOURCE),
        (
            "explainers.input_interaction",
            "why a model finds two inputs alike: both maps of their cosine, and the pairs that matter.",
            SOURCE,
        ),
        ("explainers.faithful_interaction", "which words go with which patches, fitted to answers with parts left out.", FIXLIP),
    )
    pairs = [listed(name, f"{says} {source}") for name, says, source in functions]
    others = [
        listed("explainers.information_flow", f"by which heads, MLPs and tokens a decoder came to its answer. {INFORMATION_FLOW}"),
        listed("explainers.sparse_interactions", f"which patches, words or atoms make an answer together. {SPEX} {PROXYSPEX}"),
    ]
    return "\n\n".join("\n".join(section) for section in (["Rules", *rules], ["Of two inputs", *pairs], ["Of one input", *others]))


def sheet(method: dict[str, Any], width: int) -> Iterator[str]:
    """Yield the lines of text about one ``method``, a dict from ``vitrine_server.registries.methods``, at most ``width`` characters
    wide.
    """

    def wrapped(text: str, first: str, rest: str) -> list[str]:
        return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False)

    yield from wrapped(f"{method['name']}  {method['title']}", "", "  ")
    yield from wrapped(method["description"], "  ", "  ")
    for name, text in facts_of(method):
        yield from wrapped(text, f"  {name:9}", " " * 11)
    for option in method["options"]:
        yield from wrapped(about_option(option), f"  {'option':9}", " " * 13)


def facts_of(method: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a heading and a text for each fact about a method, except its options."""
    from explainers import METHODS, RULES
    from explainers.citation import Citation
    from explainers.rendering.drawable import SAME_FOR_EVERY_CLASS

    pairs = [pair for pair in method["pairs"] if pair["rule"] is not None]
    yield "paper", str(Citation.from_json(method)) or "none"
    cannot = next(pair["reason"] for pair in method["pairs"] if pair["rule"] == method["rule"])
    if cannot is not None:
        yield "cannot", f"run here: {cannot}"
    able = [pair["rule"] for pair in pairs if pair["reason"] is None] if cannot is None else method["rules"]
    yield "rules", ", ".join(able) or "none: it reads no backward signal"
    for pair in pairs:
        if pair["title"] != method["title"] and not pair["title"].startswith(f"{method['title']} ·"):
            yield "", f"with {pair['rule']} it is {pair['title']} ({Citation.from_json(pair).short})"
    refused: dict[str, list[str]] = {}
    for rule in RULES.values() if method["rules"] and cannot is None else ():
        if (senseless := METHODS[method["name"]].why_senseless(rule)) is not None:
            refused.setdefault(senseless, []).append(rule.name)
    for why, rules in refused.items():
        yield "not with", f"{', '.join(rules)}: {why}"
    yield (
        "scores",
        f"{'signed' if method['signed'] else 'unsigned'}, {'class-specific' if method['class_specific'] else SAME_FOR_EVERY_CLASS}",
    )
    if (promise := method["promise"]) is not None:
        yield "sum", f"adds up to {promise['total']}, with {' and '.join(promise['rules'])} alone"
    yield "needs", ", ".join(method["needs"].values()) or "nothing special of the model"
    yield "costs", method["passes"] + (" (slow)" if method["slow"] else "")


def about_option(option: dict[str, Any]) -> str:
    """Return one line on ``option``, an option of a method: name, default, meaning, allowed values."""
    default = "" if option["default"] is None else f"={str(option['default']).lower() if option['kind'] == 'bool' else option['default']}"
    return f"{option['name']}{default}  {option['help']} ({option['allowed']})"
