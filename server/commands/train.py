"""``vitrine train``: make an embedded model anew from its recipe."""

from __future__ import annotations

import argparse
import importlib

from embedded.recipes import RECIPES
from server.commands import Commands, Parser


def add(commands: Commands) -> None:
    """Declare ``vitrine train``. Each recipe brings its own arguments, so they are parsed once the recipe is known."""
    parser = commands.add_parser(
        "train",
        help="train one of the embedded models anew",
        description="Train one of the embedded models anew; the folder written can be given to --model.",
        epilog="'vitrine train NAME --help' lists the arguments of that recipe. The weights of photos-vit do not ship yet.",
    )
    parser.add_argument("name", metavar="NAME", choices=list(RECIPES), help=", ".join(RECIPES))
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="the recipe's own, --out DIR among them")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Hand the rest of the command line to the recipe and train."""
    recipe = importlib.import_module(RECIPES[args.name])
    about = (recipe.__doc__ or "").partition("\n")[0].replace("`", "")
    parser = Parser(prog=f"vitrine train {args.name}", description=about)
    recipe.add_arguments(parser)
    recipe.train(parser.parse_args(args.arguments))
