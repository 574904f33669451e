"""``vitrine regions``: which prompt, or class, wins each patch of a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.files import check_out_file, print_and_save
from vitrine_server.commands.one_input.explain import add_question, make_explanation

ENDINGS = (".png", ".json")
REGIONS_METHOD = "fullgrad_plus:libra"  # unless another is asked for


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine regions``."""
    parser = commands.add_parser(
        "regions",
        help="paint a picture by the prompt, or class, that wins each patch",
        description="Compare the maps of several prompts, or classes, patch by patch. Prints shares and boxes; --out writes the mask.",
        epilog="Example:  vitrine regions photo.jpg --prompt 'a zebra' --prompt 'an elephant' --out mask.png",
    )
    add_question(parser, takes_texts=False, methods=REGIONS_METHOD)
    parser.add_argument("--threshold", type=float, help="share of the largest score that a patch needs (default 0.05)")
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"write the mask or the numbers: a file ending in {' or '.join(ENDINGS)}")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine regions`` with its parsed arguments: explain one picture for several prompts or classes, and find which of them wins
    each patch. Print the shares as a table, or with ``--json`` as JSON, and write the mask or the numbers to the file of ``--out``, if any.
    """
    check_out_file(args.out, ENDINGS)
    if args.methods is not None and len(args.methods) > 1:
        raise CommandError("give one method: the regions are those of its maps")
    args.methods = args.methods or [REGIONS_METHOD]
    labels = args.prompt or args.target or []
    from explainers.analysis.regions import THRESHOLD, refuse_without_winner, regions
    from explainers.methods import parse

    refuse_without_winner(args.methods[0], labels, parse(args.methods[0]).method.class_specific)
    _, result = make_explanation(args)
    outcome = regions(result, result.methods[0], THRESHOLD if args.threshold is None else args.threshold)
    print_and_save(args, outcome)
