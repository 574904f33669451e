"""``vitrine prior-or-pixels``: how much of each word of an answer came from the picture, the prompt and the words before it."""

from __future__ import annotations

import argparse
from pathlib import Path

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.files import check_out_file, print_and_save
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.one_input.explain import check_pictures


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine prior-or-pixels``."""
    parser = commands.add_parser(
        "prior-or-pixels",
        help="say how much of each word of an answer came from the picture, the prompt and the words before it",
        description="A model that writes about pictures answers, always the likeliest token. The logit of each word is divided among the "
        "picture, the prompt, what was written before it, and constants (Libra); next to it the same with the picture painted grey.",
        epilog="Example:  vitrine prior-or-pixels 'What is in this picture?' --image photo.jpg --model FOLDER",
    )
    parser.add_argument("prompt", metavar="PROMPT", help="what the model is asked about the picture")
    parser.add_argument("--image", metavar="FILE", type=Path, action="append", required=True, help="the picture; repeatable")
    add_model(parser, "a model that writes about pictures: a name of the hub, or a folder")
    parser.add_argument("--chat", action="store_true", help="put the model's chat template around the prompt")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the numbers (.json) or the figure (.png, .pdf, .svg)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine prior-or-pixels`` with its parsed arguments: divide the logit of each word of a model's answer among its sources. Print
    a table, or with ``--json`` its JSON, and write it to the file of ``--out``, if any: as numbers (.json) or a figure (.png, .pdf, .svg).
    """
    check_out_file(args.out, [".json", ".png", ".pdf", ".svg"])
    if args.model is None:
        raise CommandError("name a model that writes about pictures: --model")
    check_pictures(args.image)
    import explainers

    model = open_model(args, args.model, args.device)
    print_and_save(args, explainers.prior_or_pixels(model, explainers.PicturePrompt(args.image, args.prompt), chat=args.chat))
