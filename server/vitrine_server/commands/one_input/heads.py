"""``vitrine heads`` and ``vitrine head-words``: the cosine with a prompt as a sum over heads, and what each head looks for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.files import check_out_file, print_and_save, read_text_file
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.progress import Passes
from vitrine_server.pictures import read_sources

MOST = 300  # pictures of each of --pictures


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the commands ``vitrine heads`` and ``vitrine head-words``."""
    parser = commands.add_parser(
        "heads",
        help="what each head adds to the cosine of a picture and a prompt",
        description="The cosine of a picture and a prompt as an exact sum over heads and MLPs, with what each head looks for in words.",
        epilog="Examples:\n  vitrine heads photo.jpg --prompt 'a zebra'\n  vitrine heads photo.jpg --prompt 'a zebra' --without 3.2",
    )
    parser.add_argument("image", metavar="IMAGE", type=Path, help="an image file")
    parser.add_argument("--prompt", metavar="TEXT", action="append", required=True, help="what the picture is compared with; repeatable")
    parser.add_argument("--against", metavar="TEXT", help="subtract the cosine with this prompt")
    parser.add_argument("--without", metavar="BLOCK.HEAD", type=_head, help="ask the model again without this head, counted from 1")
    _add_rest(parser, "write the numbers: a file ending in .json")
    parser.set_defaults(run=run_heads)
    parser = commands.add_parser(
        "head-words",
        help="find once what each head of a model looks for, in words",
        description="Choose for each head the texts along which what it adds differs most from picture to picture (TextSpan). With --out "
        "head_words.json next to its weights, every later answer about the model's heads has them.",
        epilog="Example:  vitrine head-words --model ./my-clip --pictures photos/ scenes --out my-clip/head_words.json",
    )
    parser.add_argument("--pictures", metavar="WHICH", nargs="+", required=True, help="folders of pictures, or data sets such as scenes")
    parser.add_argument(
        "--limit", type=int, default=MOST, help="maximum number of pictures from each, drawn with a seed (default %(default)s)"
    )
    parser.add_argument(
        "--texts",
        metavar="FILE",
        type=Path,
        help="file of texts to choose from, one on each line (default: a bank that comes with Vitrine)",
    )
    _add_rest(parser, "write head_words.json: a file ending in .json")
    parser.set_defaults(run=run_words)


def _add_rest(parser: argparse.ArgumentParser, out: str) -> None:
    add_model(parser, "a CLIP model (default: %(default)s)", "clip")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--out", metavar="FILE", type=Path, help=out)
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")


def _head(text: str) -> tuple[int, int]:
    """Parse ``text``, ``BLOCK.HEAD``, both counted from 1, to (block, head) counted from 0. Raises ArgumentTypeError for a text of another
    form.
    """
    block, dot, head = text.partition(".")
    if not (dot and block.isdigit() and head.isdigit() and int(block) and int(head)):
        raise argparse.ArgumentTypeError(f"{text!r} is no head: write BLOCK.HEAD, such as 3.2")
    return int(block) - 1, int(head) - 1


def run_heads(args: argparse.Namespace) -> None:
    """Run ``vitrine heads`` with its parsed arguments: compute what each head adds to the cosine of a picture and a prompt; with
    ``--without`` the cosine with and without one head. Print the result as a table, or with ``--json`` as JSON, and write it to the .json
    file of ``--out``, if any.
    """
    check_out_file(args.out, [".json"])
    if not args.image.is_file():
        raise CommandError(f"there is no file {args.image}")
    import explainers

    model = open_model(args, args.model, args.device)
    first = args.prompt[0]
    target: Any = first if args.against is None else explainers.Contrast(first, args.against)
    prompts = list(dict.fromkeys([*args.prompt, *([args.against] if args.against else [])]))
    session = explainers.Session(model, args.image, target, prompts=prompts)
    outcome: Any = explainers.decompose_similarity(session)
    if args.without is not None:
        outcome = explainers.similarity_without_head(session, *args.without)
    print_and_save(args, outcome)


def run_words(args: argparse.Namespace) -> None:
    """Run ``vitrine head-words`` with its parsed arguments: choose the words that describe each head of a model. Print them as a table, or
    with ``--json`` as JSON, and write them to the .json file of ``--out``, if any.
    """
    check_out_file(args.out, [".json"])
    texts = None if args.texts is None else [line.strip() for line in read_text_file(args.texts).splitlines() if line.strip()]
    import explainers
    from explainers.embedded.text_bank import texts as shipped_texts

    sources, about = read_sources(args.pictures, args.limit)
    model = open_model(args, args.model, args.device)
    total = sum(map(len, sources))
    with Passes(model.name) as progress:
        pictures = (picture for source in sources for picture in source)
        words = explainers.head_words(model, pictures, texts or shipped_texts(), about=about, progress=lambda done: progress(done, total))
    print_and_save(args, words)
