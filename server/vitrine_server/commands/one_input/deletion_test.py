"""``vitrine deletion-test``: which methods name what a model needs, on one input."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vitrine_server.commands import Commands
from vitrine_server.commands.files import check_out_file
from vitrine_server.commands.one_input.explain import add_question, make_explanation
from vitrine_server.commands.progress import Passes
from vitrine_server.export.file_names import folder_names

FIGURES = (".png", ".svg", ".pdf", ".json")


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine deletion-test``."""
    parser = commands.add_parser(
        "deletion-test",
        help="rank methods by the deletion test on an image or a text",
        description="Remove tokens in the order of each map and ask the model again. Prints a ranking; --out writes the figure.",
        epilog="Examples:\n  vitrine deletion-test photo.jpg --out curves.png\n"
        "  vitrine deletion-test --text 'A dull film.' --methods rollout attcat",
    )
    add_question(parser)
    parser.add_argument("--steps", type=int, default=10, help="steps of a curve, at most 1000 (default 10, as in the papers)")
    parser.add_argument("--draws", type=int, default=5, help="number of random orders whose mean is the random baseline (default 5)")
    parser.add_argument(
        "--how",
        metavar="HOW",
        help="how tokens are removed, such as removed or painted (default: removed if the model allows it)",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"write the figure or the numbers: a file ending in {', '.join(FIGURES)}")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine deletion-test`` with its parsed arguments: explain one input and test its maps by deletion. Print the ranking of
    methods for each target, or with ``--json`` all tests as one JSON list, and write numbers or a figure to the file of ``--out``, if any;
    with several targets to one file each, named after the target.
    """
    check_out_file(args.out, FIGURES)
    from explainers.analysis.deletion_test import check_draws, deletion_test, even_shares
    from explainers.models.removal.ways import REMOVAL_WAYS, check_how

    if args.how is not None:
        check_how(args.how, tuple(REMOVAL_WAYS), "tokens")
    shares = even_shares(args.steps)
    check_draws(args.draws)
    model, result = make_explanation(args)
    labels = [target.label for target in result.targets]
    tests = []
    for label in labels:
        with Passes(label) as progress:
            how = {"draws": args.draws, "how": args.how, "progress": progress}
            tests.append(deletion_test(model, result, label, fractions=shares, **how))
    if args.json:
        print(json.dumps([{**test.to_json(), "notes": list(test.notes)} for test in tests], ensure_ascii=False))
    else:
        print("\n\n".join(map(str, tests)))
    if args.out is not None:
        names = [args.out.stem] if len(tests) == 1 else [f"{args.out.stem}-{name}" for name in folder_names(labels)]
        for name, test in zip(names, tests, strict=True):
            test.save(args.out.with_name(name + args.out.suffix))
