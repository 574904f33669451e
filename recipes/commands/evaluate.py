"""``python -m recipes evaluate``: how good the embedded models and their maps are, each value next to its goal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from recipes.evaluation import EVALUATIONS, MODELS, Figure, Report, Setting, Table, format_value, measure
from vitrine_server.commands import CommandError, Commands, Listed
from vitrine_server.commands.text_tables import text_table


def add(commands: Commands) -> None:
    """Declare the command ``evaluate`` and its options on ``commands``, the parser's."""
    parser = commands.add_parser(
        "evaluate",
        help="measure the embedded models and their maps on data they never saw",
        description="Measure the embedded models and their maps on data they never saw, and compare the figures with their goals.",
        epilog="Example:  python -m recipes evaluate --only scenes-vit --limit 50",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder of the data sets that are not part of Vitrine; rows that need it are skipped without it",
    )
    parser.add_argument("--only", metavar="MODEL", choices=list(EVALUATIONS), action="append", help=f"{', '.join(EVALUATIONS)}; repeatable")
    parser.add_argument("--folder", metavar="DIR", type=Path, help="weights to measure in place of the embedded ones; needs one --only")
    parser.add_argument("--methods", metavar="SPEC", nargs="+", action=Listed, help="whose maps are measured (default: the page's)")
    parser.add_argument("--limit", metavar="N", type=int, help="at most N scenes or texts of each kind: a quick look")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the tables")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Measure the models that the arguments ``args`` choose and print their figures, as tables or as JSON."""
    names = list(dict.fromkeys(args.only or (name for name in EVALUATIONS if name == "all" or (MODELS / name).is_dir())))
    check(args, names)
    reports = {}
    with tqdm(names, unit="model", leave=False, disable=None) as bar:
        for name in bar:
            bar.set_description(name)
            reports[name] = measure(name, Setting(args.folder or MODELS / name, args.data, args.limit, args.methods))
    if args.json:
        print(json.dumps(as_json(reports), indent=1, ensure_ascii=False))
    else:
        print("\n\n".join(texts(reports)))
    if args.limit is not None:
        print(f"a quick look: at most {args.limit} scenes or texts of each kind", file=sys.stderr)


def check(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Raise CommandError if an option in ``args`` cannot be right for the models ``names``, before anything is measured."""
    if args.limit is not None and args.limit < 1:
        raise CommandError("--limit must be at least 1")
    if args.folder is not None and (len(names) != 1 or names == ["all"]):
        raise CommandError("--folder holds the weights of one model: say which with one --only MODEL")
    for folder in (args.data, args.folder):
        if folder is not None and not folder.is_dir():
            raise CommandError(f"there is no folder {folder}")


def as_json(reports: dict[str, Report]) -> dict[str, Any]:
    """Return ``reports`` (by model) as one dict for JSON: under "figures" a dict for each figure, with its verdict, and under "tables" the
    tables by method, by their titles.
    """
    figures = [
        {**asdict(figure), "short_by": figure.short_by, "verdict": figure.verdict}
        for report in reports.values()
        for figure in report.figures
    ]
    return {"figures": figures, "tables": {title: table for report in reports.values() for title, table in report.tables.items()}}


def texts(reports: dict[str, Report]) -> list[str]:
    """Return the tables that are printed, each as text: first the figures of all ``reports`` (by model), then each table by method under
    its title.
    """
    rows = [row(figure) for report in reports.values() for figure in report.figures]
    titled = [f"{title}\n\n{by_method(table)}" for report in reports.values() for title, table in report.tables.items()]
    return [text_table(("model", "figure", "measured", "bar", "", "of"), rows), *titled]


def row(figure: Figure) -> tuple[str, ...]:
    """Return the cells of the table row of ``figure``, a measured value, as six texts: model, what was measured, the value with its unit
    ("-" if it was not measured), the goal ("at least 45.0%", or empty), the verdict ("met", "short by 2.0 points", "skipped", or empty
    without a goal), and a note.
    """
    bar = "" if figure.bar is None else f"{'at most' if figure.at_most else 'at least'} {format_value(figure.bar, figure.form)}"
    return (
        figure.model,
        figure.what,
        "-" if figure.value is None else format_value(figure.value, figure.form),
        bar,
        figure.verdict,
        figure.note,
    )


def by_method(table: Table) -> str:
    """Format ``table``, a dict of figures by name for each method, as text with three digits; a dash stands where a method has no value."""
    columns = list(dict.fromkeys(column for values in table.values() for column in values))
    rows = [(name, *(f"{values[column]:.3f}" if column in values else "–" for column in columns)) for name, values in table.items()]
    return text_table(("method", *columns), rows)
