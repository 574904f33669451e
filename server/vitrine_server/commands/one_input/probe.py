"""``vitrine probe``: what swapping one word of a sentence does."""

from __future__ import annotations

import argparse
from pathlib import Path

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.files import check_out_file, print_and_save
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.progress import Passes


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine probe``."""
    parser = commands.add_parser(
        "probe",
        help="swap one word of a sentence and compare the answers",
        description="Fill the slot {} of a sentence with the words of each group. Prints each answer and how relevant the word was.",
        epilog="Example:  vitrine probe '{} is a fine actor.' --group her=Anna,Maria --group him=Paul,Peter --target positive",
    )
    parser.add_argument("template", metavar="TEXT", help="a sentence with one {} in the place of the words")
    parser.add_argument(
        "--group",
        metavar="NAME=WORD,...",
        type=parse_group,
        action="append",
        required=True,
        help="words that stand for one group; repeatable",
    )
    parser.add_argument("--target", metavar="CLASS", required=True, help="name or number of a class, or any:GROUP for all of a group")
    parser.add_argument("--method", metavar="SPEC", help="method whose map says how relevant the word is (default: that of the page)")
    add_model(parser, "a model that reads texts (default: %(default)s)", "reviews-bert")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the numbers: a file ending in .json")
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of the table")
    parser.set_defaults(run=run)


def parse_group(text: str) -> tuple[str, list[str]]:
    """Parse ``text``, ``NAME=WORD,WORD``, to (name, words). Raises ArgumentTypeError for a text of another form."""
    name, equals, words = text.partition("=")
    listed = [word.strip() for word in words.split(",") if word.strip()]
    if not (name.strip() and equals and listed):
        raise argparse.ArgumentTypeError(f"{text!r} is no group of words: write NAME=WORD,WORD")
    return name.strip(), listed


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine probe`` with its parsed arguments: put the words of each group into the sentence, and ask the model about each. Print
    its answers as a table, or with ``--json`` as JSON, and write them to the .json file of ``--out``, if any.
    """
    groups = dict(args.group)
    if len(groups) < len(args.group):
        raise CommandError("two groups have the same name: give each group a name of its own")
    check_out_file(args.out, [".json"])
    import explainers
    from explainers.analysis.word_probe import PROBE_METHOD
    from explainers.records.targets import parse_target

    model = open_model(args, args.model, args.device)
    target = parse_target(args.target, model.labels)
    with Passes(args.template) as progress:
        outcome = explainers.word_probe(model, args.template, groups, target, args.method or PROBE_METHOD, progress=progress)
    print_and_save(args, outcome)
