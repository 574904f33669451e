"""``vitrine token-maps``: where in a picture each token of a vision-language model's answer was, from logits alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vitrine_server.commands import CommandError, Commands, in_flags
from vitrine_server.commands.files import check_out_file
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.text_tables import text_table


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine token-maps``."""
    parser = commands.add_parser(
        "token-maps",
        help="say where in a picture each token of a vision-language model's answer was",
        description="A model that writes about pictures answers, always the likeliest token; a map for each token of the answer says where "
        "in the picture it was. From logits alone (TAM), without a backward pass, so also for large models.",
        epilog="Example:  vitrine token-maps photo.jpg 'What is in this picture?' --model FOLDER --out maps.png",
    )
    parser.add_argument("image", metavar="IMAGE", type=Path, help="an image file")
    parser.add_argument("prompt", metavar="PROMPT", help="what the model is asked about it")
    parser.add_argument("--chat", action="store_true", help="put the model's chat template around the prompt")
    add_model(parser, "a model that writes about pictures: a name of the hub, or a folder")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the numbers (.json) or the maps as a figure (.png, .pdf, .svg)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine token-maps`` with its parsed arguments: have a model answer a question about a picture, and make a map of the picture
    for each token of the answer. Print the largest score of each map and where it lies, or with ``--json`` all maps as JSON, and write the
    maps to the file of ``--out``, if any: as numbers (.json) or a figure (.png, .pdf, .svg).
    """
    check_out_file(args.out, [".json", ".png", ".pdf", ".svg"])
    if args.model is None:
        raise CommandError("name a model that writes about pictures: --model")
    if not args.image.is_file():
        raise CommandError(f"there is no file {args.image}")
    import explainers

    model = open_model(args, args.model, args.device)
    if not model.reads_pictures:
        raise CommandError(f"{model.name} writes nothing about pictures: name a model that does")
    prepared = model.prepare(explainers.PicturePrompt(args.image, args.prompt), chat=args.chat)
    activation = explainers.token_activation_maps(model, prepared)
    if args.json:
        print(json.dumps(activation.to_json(), ensure_ascii=False))
    else:
        columns = activation.maps.shape[2]
        best = [divmod(int(scores.argmax()), columns) for scores in activation.maps.flatten(1)]
        rows = [
            (token.strip() or repr(token), f"{float(scores.max()):.2f}", f"row {row + 1}, column {column + 1}")
            for token, scores, (row, column) in zip(activation.tokens, activation.maps, best, strict=True)
        ]
        print(f"{model.name} writes {activation.answer.strip()!r}")
        print(text_table(("token", "at most", "where"), rows))
        for note in activation.notes:
            print(f"note: {in_flags(note, ('chat',))}")
    if args.out is not None:
        picture = getattr(prepared.inputs[0], "picture", None)
        activation.save(args.out, getattr(picture, "pixels", None))
