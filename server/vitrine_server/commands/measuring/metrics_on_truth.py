"""``vitrine metrics-on-truth``: which metrics put methods in the order of the truth, in worlds where it is known."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from vitrine_server.commands import Commands
from vitrine_server.commands.text_tables import text_table


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine metrics-on-truth``."""
    parser = commands.add_parser(
        "metrics-on-truth",
        help="compare metrics with the truth, on runs where it is known what answers come from",
        description="Compare the order in which metrics put methods with their order by truth: Kendall's tau with an interval over inputs. "
        "Each RUN is a finished run of vitrine evaluate on scenes, marked-scenes, votes or subject-verb that measured patch_ap, or of "
        "sentences reciprocal_rank, and the metrics in question.",
        epilog="Example:  vitrine evaluate --experiment experiments/truth-votes.toml --out runs/truth-votes\n"
        "          vitrine metrics-on-truth runs/truth-votes --out runs/truth",
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="the folder of a finished run, with its rows")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder for truth.json")
    parser.add_argument("--json", action="store_true", help="print truth.json instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine metrics-on-truth`` with its parsed arguments: compare metrics with the known truth of the given runs. Write all figures
    as ``truth.json`` to the folder of ``--out``, and print tables and conclusions, or with ``--json`` that file.
    """
    from explainers.evaluation.known_truth.metrics_on_truth import FILE, write_truth
    from explainers.evaluation.known_truth.truth_in_words import advice, conclusions

    document = write_truth(args.runs, args.out)
    texts = [table(document), control_table(document), *conclusions(document), *advice(document)]
    print(json.dumps(document, indent=1, ensure_ascii=False) if args.json else "\n\n".join(filter(None, texts)))
    print(f"{args.out / FILE} has all figures", file=sys.stderr)


def table(document: dict[str, Any]) -> str:
    """Format the agreement of each metric with the truth, from the JSON ``document`` of a comparison, as a text table, by kind of input and
    by world.
    """
    from explainers.evaluation.known_truth.truth_in_words import KINDS, agreement_in_words

    kinds = [kind for kind in KINDS if any(world["kind"] == kind for world in document["worlds"])]
    rows = []
    for metric in document["metrics"]:
        figures = [*(metric["kinds"][kind] for kind in kinds), *(metric["worlds"][world["name"]] for world in document["worlds"])]
        marks = "yes" if metric["reads_marks"] else ""
        rows.append((metric["name"], marks, *("–" if figure is None else agreement_in_words(figure) for figure in figures)))
    heads = ("metric", "told the truth", *(KINDS[kind] for kind in kinds), *(world["name"] for world in document["worlds"]))
    return text_table(heads, rows)


def control_table(document: dict[str, Any]) -> str:
    """Format as a text table, from the JSON ``document`` of a comparison, where each metric ranks the truth itself and its inverse in each
    world; "" if no world has controls.
    """
    from explainers.evaluation.known_truth.truth_in_words import place_in_words

    worlds = [world["name"] for world in document["worlds"] if world["controls"]]
    rows = []
    for metric in document["metrics"]:
        of_worlds = [metric["controls"]["worlds"][name] for name in worlds]
        if any(of_worlds):
            places = [f"{place_in_words(about, 'truth')}; {place_in_words(about, 'truth_inverted')}" for about in of_worlds]
            rows.append((metric["name"], *places))
    return text_table(("the truth itself; its inverse", *worlds), rows) if rows else ""
