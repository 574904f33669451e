"""``vitrine registers``: find a model's register neurons, which make its outlier tokens."""

from __future__ import annotations

import argparse
from pathlib import Path

from vitrine_server.commands import Commands
from vitrine_server.commands.files import check_out_file, print_and_save
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.progress import Passes
from vitrine_server.pictures import read_sources


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine registers``."""
    parser = commands.add_parser(
        "registers",
        help="find once the neurons that make a model's outlier tokens",
        description="Find the neurons whose activations are large where tokens have outlying norms (test-time registers). With --out "
        "register_neurons.json next to its weights, 'vitrine explain --outlier-tokens move' explains the model without such tokens.",
        epilog="Example:  vitrine registers --model ./my-vit --pictures photos/ --out my-vit/register_neurons.json",
    )
    add_model(parser, "a model of images (default: %(default)s)", "photos-vit")
    parser.add_argument("--pictures", metavar="WHICH", nargs="+", required=True, help="folders of pictures, or data sets such as scenes")
    parser.add_argument(
        "--limit", type=int, default=100, help="maximum number of pictures from each, drawn with a seed (default %(default)s)"
    )
    parser.add_argument("--block", type=int, help="block at whose output outlier tokens are recognised, counted from 1 (default: the last)")
    parser.add_argument("--threshold", type=float, help="the norm above which a token is one (default: from the histogram of norms)")
    parser.add_argument("--highest-block", type=int, help="no neurons of later blocks, counted from 1 (default: the first half)")
    parser.add_argument("--count", type=int, default=10, help="how many neurons (default %(default)s)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write register_neurons.json: a file ending in .json")
    parser.add_argument("--json", action="store_true", help="print the result as JSON in place of a sentence")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine registers`` with its parsed arguments: find the register neurons of a model. Print them as a sentence, or with
    ``--json`` as JSON, and write them to the .json file of ``--out``, if any.
    """
    check_out_file(args.out, [".json"])
    import explainers

    sources, about = read_sources(args.pictures, args.limit)
    model = open_model(args, args.model, args.device)
    with Passes(model.name) as progress:
        register_neurons = explainers.find_register_neurons(
            model,
            (picture for source in sources for picture in source),
            block=-1 if args.block is None else args.block - 1,
            threshold=args.threshold,
            highest_block=None if args.highest_block is None else args.highest_block - 1,
            count=args.count,
            about=about,
            progress=progress,
        )
    print_and_save(args, register_neurons)
