"""``vitrine models`` and ``vitrine methods``: what there is, read from the registries."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from server.commands import Commands


def add(commands: Commands) -> None:
    """Declare ``vitrine models`` and ``vitrine methods``."""
    parser = commands.add_parser("models", help="list the models that ship with Vitrine and a few from the hub")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run_models)

    parser = commands.add_parser("methods", help="list the attribution methods and the rules each can be read with")
    parser.add_argument("--model", metavar="NAME", help="say which of them cannot run for this model, and why")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print the table of the README")
    parser.set_defaults(run=run_methods)


def run_models(args: argparse.Namespace) -> None:
    """Print the catalogue."""
    from explainers.models.catalogue import CATALOGUE

    if args.json:
        print(json.dumps([asdict(entry) for entry in CATALOGUE], indent=1, ensure_ascii=False))
        return
    rows = [(entry.name, entry.kind, "embedded" if entry.embedded else "hub", entry.description) for entry in CATALOGUE]
    print(text_table(("model", "kind", "from", "what it is"), rows))
    print("\nAny other model of timm or transformers: timm/<name>, hf/<organisation>/<name>, or a folder.")


def run_methods(args: argparse.Namespace) -> None:
    """Print every variant: a read-out and the rule it is read with."""
    import explainers
    from server.docs import methods_markdown

    if args.markdown:
        print(methods_markdown())
        return
    variants = explainers.variants(explainers.load(args.model) if args.model else None)
    if args.json:
        print(json.dumps([asdict(variant) for variant in variants], indent=1, ensure_ascii=False))
        return
    rows = [
        (
            variant.spec,
            f"{variant.title} ({source(variant.by, variant.year)})",
            "signed" if variant.signed else "",
            "" if variant.class_specific else "same for every class",
            "default" if variant.default else "",
            variant.reason or "",
        )
        for variant in variants
    ]
    print(text_table(("method", "title", "sign", "class", "", f"not for {args.model}" if args.model else ""), rows))


def source(by: str, year: int | None) -> str:
    """Who published it and when, as far as there is an answer."""
    return ", ".join(part for part in (by, str(year or "")) if part)


def text_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart, each as wide as its widest cell; columns with nothing in them are left out."""
    columns = [column for column in zip(headings, *rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    padded = [[cell.ljust(width) for cell in column] for column, width in zip(columns, widths, strict=True)]
    lines = ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
