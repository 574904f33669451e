"""``vitrine sparse-interactions``: the few sets of patches, words or atoms that make an answer together."""

from __future__ import annotations

import argparse
from pathlib import Path

from vitrine_server.commands import Commands
from vitrine_server.commands.files import check_out_file, print_and_save
from vitrine_server.commands.one_input.explain import add_question, make_explanation
from vitrine_server.commands.progress import Passes


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine sparse-interactions``."""
    parser = commands.add_parser(
        "sparse-interactions",
        help="which patches, words or atoms make an answer together, by SPEX or ProxySPEX",
        description="Ask the model with parts left out, and print the few sets of parts, of any size, that explain its answers. Needs the "
        "extra spex.",
        epilog="Examples:\n  vitrine sparse-interactions --text 'Not bad at all, but no good film either.'\n"
        "  vitrine sparse-interactions photo.jpg --budget 4000 --by spex",
    )
    add_question(parser, methods="random alone, as no map is read")
    parser.set_defaults(methods=["random"])  # no map is read
    parser.add_argument("--by", choices=("proxyspex", "spex"), default="proxyspex", help="how they are found (default: %(default)s)")
    parser.add_argument(
        "--index", choices=("FBII", "FSII"), default="FBII", help="faithful Banzhaf or Shapley interactions (default: %(default)s)"
    )
    parser.add_argument("--max-order", type=int, metavar="N", help="how many parts a set has, at most (default: as many as there are)")
    parser.add_argument("--budget", type=int, metavar="N", default=1000, help="how many coalitions are asked, at most (default: 1000)")
    parser.add_argument("--parts", type=int, metavar="N", default=49, help="maximum number of parts of a picture (default: 49)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the numbers: a file ending in .json")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine sparse-interactions`` with its parsed arguments: explain one input, and find the interactions of its parts for the
    first target. Print them as a table, or with ``--json`` as JSON, and write them to the .json file of ``--out``, if any.
    """
    check_out_file(args.out, [".json"])
    from explainers.analysis.interactions.sparse import sparse_interactions

    model, result = make_explanation(args)
    with Passes(result.targets[0].label) as progress:
        outcome = sparse_interactions(
            model,
            result,
            method=args.by,
            index=args.index,
            max_order=args.max_order,
            budget=args.budget,
            parts=args.parts,
            seed=args.seed,
            progress=progress,
        )
    print_and_save(args, outcome)
