"""``vitrine tables``: one table over any number of runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vitrine_server.commands import CommandError, Commands, Listed

if TYPE_CHECKING:
    from explainers.evaluation.tables.figures import NamedReport
    from explainers.evaluation.tables.record import Table

#: The options that name a file: how the table is written there.
FORMATS = {"csv": "a line a cell, all digits", "markdown": "a table of Markdown", "latex": "a table for booktabs", "html": "one page"}


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine tables``."""
    parser = commands.add_parser(
        "tables",
        help="put runs of vitrine evaluate into one table: methods, models, data sets, metrics",
        description="One table over any number of runs of vitrine evaluate: figures with intervals, the best and what cannot be told from "
        "it, mean ranks over models and data sets with their tests, seconds and memory of a map, conservation by block. Without a file to "
        "write, the table is printed as Markdown.",
        epilog="Example:  vitrine tables runs/a runs/b --metrics mif,srg,seconds --latex table.tex",
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="the folder of a run, or a folder with some in it")
    parser.add_argument(
        "--metrics",
        metavar="NAME",
        nargs="+",
        action=Listed,
        help="names of metrics, seconds, memory, conservation_by_block, or families, such as faithfulness (default: all but blocks)",
    )
    parser.add_argument("--methods", metavar="SPEC", nargs="+", action=Listed, help="specs, * stands for anything (default: all)")
    parser.add_argument("--method-families", metavar="NAME", nargs="+", action=Listed, help="such as gradients or attention (default: all)")
    parser.add_argument("--models", metavar="NAME", nargs="+", action=Listed, help="those alone (default: all)")
    parser.add_argument("--datasets", metavar="NAME", nargs="+", action=Listed, help="those alone (default: all)")
    parser.add_argument(
        "--rows", metavar="AXIS", nargs="+", action=Listed, default=["method"], help="method, model, dataset, or several (default: method)"
    )
    parser.add_argument(
        "--columns", metavar="AXIS", nargs="+", action=Listed, help="the other axes, the outermost first (default: model dataset metric)"
    )
    parser.add_argument("--title", metavar="TEXT", default="Methods over runs", help="what stands above the table")
    for name, says in FORMATS.items():
        parser.add_argument(f"--{name}", metavar="FILE", type=Path, help=f"write it there: {says}")
    parser.add_argument(
        "--pairs",
        metavar="FILE",
        type=Path,
        help="write there, as CSV, the p of every two methods by each metric, with Holm's correction for all pairs of a column",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine tables`` with its parsed arguments: combine the results of runs in one table. Write it to the files of ``--csv``,
    ``--markdown``, ``--latex`` and ``--html`` and the tests of pairs to that of ``--pairs``, as far as they are given; if the table is
    written to none, print it as Markdown.
    """
    from explainers.evaluation.tables.over_runs import AXES, Selection, pairs_over_runs, table_over_runs
    from explainers.evaluation.tables.writing import to_csv, to_html, to_latex, to_markdown

    def several(name: str) -> tuple[str, ...] | None:
        values = getattr(args, name)
        return None if values is None else tuple(values)

    rows, columns = ([axis.removesuffix("s") for axis in axes or ()] for axes in (args.rows, args.columns))
    columns = columns or [axis for axis in AXES if axis not in rows]
    selection = Selection(
        methods=several("methods"),
        method_families=several("method_families"),
        metrics=several("metrics"),
        models=several("models"),
        datasets=several("datasets"),
        rows=tuple(rows),
        columns=tuple(columns),
    )
    runs = reports_of(args.runs)
    table = table_over_runs(runs, selection, args.title)
    writers: dict[str, Callable[[Table], str]] = {"csv": to_csv, "markdown": to_markdown, "latex": to_latex, "html": to_html}
    texts = {getattr(args, name): write(table) for name, write in writers.items() if getattr(args, name) is not None}
    if not texts:
        print(to_markdown(table), end="")
    if args.pairs is not None:
        texts[args.pairs] = to_csv(pairs_over_runs(runs, selection))
    for path, text in texts.items():
        try:
            path.write_text(text, "utf-8", newline="")
        except OSError as problem:
            raise CommandError(f"{path} cannot be written ({problem.strerror}): name another file") from None


def reports_of(folders: Sequence[Path]) -> list[NamedReport]:
    """Return the reports of the runs in these ``folders``, each once, with names. Raises CommandError for a folder without any,
    ExplainerError for a damaged one.
    """
    import json

    from explainers.errors import ExplainerError
    from explainers.evaluation.reporting import REPORT, check_report
    from explainers.evaluation.tables.figures import NamedReport

    reports: dict[Path, NamedReport] = {}
    for folder in folders:
        paths = sorted({*folder.glob(REPORT), *folder.glob(f"*/{REPORT}")})
        if not paths:
            raise CommandError(f"{folder} holds no {REPORT}, nor does a folder in it: vitrine evaluate writes one when a run has ended")
        for path in paths:
            try:
                report = json.loads(path.read_text("utf-8"))
            except (OSError, ValueError) as problem:
                raise ExplainerError(f"{path} cannot be read: {problem}.") from None
            reports[path.resolve()] = NamedReport(path.resolve().parent.name, check_report(report, path))
    return list(reports.values())
