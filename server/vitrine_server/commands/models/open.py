"""``vitrine open``: what your own model is, how its output is read, what was guessed, and whether it passes its check."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.model import add_open_options, open_model


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine open``."""
    parser = commands.add_parser(
        "open",
        help="open your own model, say what it is, and check it",
        description="Open a model and print a report: what it is, how its output is read, what was guessed, and checks on a sample.",
        epilog="Examples:\n  vitrine open best.pth --architecture timm/deit_tiny_patch16_224 --labels names.txt\n"
        "  vitrine open runs/my-bert --check all\n  vitrine open adapter/ --base hf/google-bert/bert-base-uncased",
    )
    parser.add_argument("anything", metavar="MODEL", nargs="+", help="a folder, a file of weights (or a backbone and its head), or a name")
    add_open_options(parser)
    parser.add_argument("--weights", metavar="KEY", help="for a file with several sets of weights: the key of the one to read")
    parser.add_argument("--output", choices=("softmax", "sigmoid", "regression"), help="what the logits mean, if that is not found out")
    parser.add_argument("--head", metavar="NAME", help="for a model with several outputs: the one to explain")
    parser.add_argument("--check", choices=("quick", "all", "none"), default="quick", help="all: each method too (default: quick)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--failure", metavar="FILE", type=Path, help="if the model cannot be opened, write a report to this file, to send to others"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine open`` with its parsed arguments: open a model, check it, and print the report as text, or with ``--json`` as JSON.

    If the model cannot be opened, write a report of that to the file of ``--failure``, if any, and raise ExplainerError. If a check failed,
    raise CommandError after printing.
    """
    import explainers

    anything = args.anything[0] if len(args.anything) == 1 else args.anything
    try:
        model = open_model(args, anything, args.device, args.check, weights=args.weights, output=args.output, head=args.head)
    except explainers.ExplainerError as problem:
        if args.failure is None:
            print("vitrine: --failure FILE writes a report of this that can be sent to others", file=sys.stderr)
        else:
            args.failure.write_text(problem.report() + "\n", "utf-8")
            print(f"vitrine: wrote {args.failure}: no weights, paths or pictures are in it", file=sys.stderr)
        raise
    assert model.report is not None
    print(json.dumps(model.report.to_json(), ensure_ascii=False, indent=1) if args.json else model.report)
    if failures := model.report.failures:
        raise CommandError(f"{len(failures)} of {len(model.report.checks)} checks failed: do not trust its maps before that is understood")
