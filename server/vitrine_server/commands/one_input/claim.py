"""``vitrine claim``: how far the answer falls without what each map puts first, with an error that holds."""

from __future__ import annotations

import argparse
import json

from vitrine_server.commands import Commands
from vitrine_server.commands.one_input.explain import add_question, make_explanation
from vitrine_server.commands.progress import Passes


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine claim``."""
    parser = commands.add_parser(
        "claim",
        help="say, with an exact error, how far the answer falls without what each map puts first",
        description="Replace the patches, words or atoms that each map puts first by several fillings, and as many drawn at random. Prints "
        "what can be claimed of each map, or why there is no such claim.",
        epilog="Examples:\n  vitrine claim photo.jpg --methods fullgrad_plus:libra rollout\n"
        "  vitrine claim --text-file review.txt --methods attcat --error 0.01",
    )
    add_question(parser)
    parser.add_argument(
        "--error", type=float, default=0.05, help="the largest probability that a claim is wrong, from 0.001 (default 0.05)"
    )
    parser.add_argument("--least", type=float, default=0.1, help="the smallest fall worth a claim, from 0 to 1 (default 0.1)")
    parser.add_argument("--json", action="store_true", help="print the claims as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine claim`` with its parsed arguments: explain one input, and print the claim of each map, or with ``--json`` all claims as
    one JSON list.
    """
    from explainers.analysis.claims.claim import check_errors, claim

    check_errors(args.error, args.least)
    model, result = make_explanation(args)
    claims = []
    for each in result.maps:
        with Passes(f"{each.method}, {each.target}") as progress:
            claims.append(claim(model, result, each.method, each.target, error=args.error, least=args.least, progress=progress))
    if args.json:
        print(json.dumps([{**each.to_json(), "notes": list(each.notes)} for each in claims], ensure_ascii=False))
    else:
        print("\n\n".join(map(str, claims)))
