"""``vitrine patches``: what a Vision Transformer finds alike in several pictures, and the foreground."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.files import check_out_file
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.text_tables import text_table


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine patches``."""
    parser = commands.add_parser(
        "patches",
        help="colour what a model finds alike in several pictures, and find the foreground",
        description="Compare the features of the patches of several pictures in one space: the first principal component of all parts "
        "foreground from background, three more colour the foreground, alike in all pictures (as DINOv2's paper shows them). For backbones "
        "such as DINOv2 and DINOv3, and for any model of pictures.",
        epilog="Example:  vitrine patches one.jpg two.jpg --model FOLDER --patch 4,7 --out patches.png",
    )
    parser.add_argument("images", metavar="IMAGE", nargs="+", type=Path, help="image files")
    add_model(parser, "a model of pictures (default: photos-vit)")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument(
        "--patch", metavar="ROW,COLUMN", type=_place, help="also draw how alike every patch is to this one of the first picture, from 0"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the numbers (.json) or a figure (.png, .pdf, .svg)")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON instead of the table")
    parser.set_defaults(run=run)


def _place(text: str) -> tuple[int, int]:
    """Parse "row,column" to two whole numbers. Raises ArgumentTypeError for a text of another form."""
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} names no patch: give its row and column, from 0, such as 4,7")
    row, column = map(int, parts)
    return row, column


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine patches`` with its parsed arguments: compare the patches of pictures. Print how much of each picture is foreground, or
    with ``--json`` all numbers, and write numbers or a figure to the file of ``--out``, if any.
    """
    check_out_file(args.out, [".json", ".png", ".pdf", ".svg"])
    for image in args.images:
        if not image.is_file():
            raise CommandError(f"there is no file {image}")
    import explainers

    model = open_model(args, args.model or "photos-vit", args.device)
    compared = explainers.picture_components(model, args.images)
    if args.json:
        print(json.dumps(compared.to_json()))
    else:
        rows = [
            (image.name, f"{mask.shape[0]} x {mask.shape[1]}", f"{float(mask.float().mean()):.0%}")
            for image, mask in zip(args.images, compared.foreground, strict=True)
        ]
        print(f"{compared.source}, of {model.name}")
        print(text_table(("picture", "patches", "foreground"), rows))
    if args.out is not None:
        compared.save(args.out, args.patch)
