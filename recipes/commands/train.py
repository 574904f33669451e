"""``python -m recipes train``: train an embedded model again from its recipe, or fine-tune your own."""

from __future__ import annotations

import argparse
import importlib
import json

from recipes import RECIPES
from recipes.commands.evaluate import as_json, texts
from recipes.evaluation import Setting, measure
from vitrine_server.commands import Commands, Parser


def add(commands: Commands) -> None:
    """Declare the command ``train``. Each recipe brings its own arguments, so they are parsed once the recipe is known."""
    parser = commands.add_parser(
        "train",
        help="train one of the embedded models again, or an encoder on reviews",
        description="Train one of the embedded models again, or with 'reviews' an encoder on ERASER's movie reviews. The folder that is "
        "written can be given to --model.",
        epilog="'python -m recipes train NAME --help' lists the arguments of that recipe.",
    )
    parser.add_argument("name", metavar="NAME", choices=list(RECIPES), help=", ".join(RECIPES))
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="the recipe's own, --out DIR among them")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Hand the rest of the command line in ``args`` to the recipe that it names, train, measure, and write ``figures.json`` into the folder
    of the weights.
    """
    recipe = importlib.import_module(RECIPES[args.name])
    about = (recipe.__doc__ or "").partition("\n")[0].replace("`", "")
    parser = Parser(prog=f"python -m recipes train {args.name}", description=about)
    recipe.add_arguments(parser)
    recipe_args = parser.parse_args(args.arguments)
    recipe.train(recipe_args)
    report = {args.name: measure(args.name, Setting(recipe_args.out, getattr(recipe_args, "data", None), methods=()))}
    (recipe_args.out / "figures.json").write_text(json.dumps(as_json(report), indent=1, ensure_ascii=False) + "\n", "utf-8")
    print("\n\n".join(texts(report)))
