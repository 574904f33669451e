"""``vitrine slices``: what many wrong or doubtful rows of a collection have in common."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vitrine_server.commands import CommandError, Commands
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.progress import Passes

if TYPE_CHECKING:
    from explainers.collection.slices.records import Slice, Slices


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine slices``."""
    parser = commands.add_parser(
        "slices",
        help="say what many wrong or doubtful rows of a collection have in common",
        description="Find places in pictures, or words, on which many rows of a collection stand that are wrong, or right with most of "
        "the evidence off the object. With --model, ask the model again about such rows without what they have in common.",
        epilog="Example:  vitrine slices collections/photos --model photos-vit",
    )
    parser.add_argument("collection", metavar="COLLECTION", type=Path, help="the folder that `vitrine collect` made, of inputs with labels")
    add_model(parser, "that the collection was made of, which is asked again (default: slices are found but not tested)")
    parser.add_argument("--data", metavar="DATA", help="where the inputs lie now (default: where they were collected)")
    parser.add_argument("--method", metavar="SPEC", help="the maps to search (default: the first method of the collection)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the random choices (default: 0)")
    parser.add_argument("--device", metavar="DEVICE", help="where the model runs: cpu, cuda, ... (default: CUDA if available)")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, help="where slices.html and slices.json go (default: the collection's folder)"
    )
    parser.add_argument("--json", action="store_true", help="print the slices as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command with its parsed arguments: find, test and print the slices."""
    if args.data is not None and args.model is None:
        raise CommandError("--data goes with --model, which is asked about the inputs")
    from explainers.collection.result import open_collection
    from explainers.collection.slices.report import write_report
    from explainers.collection.slices.slices import slices

    collection = open_collection(args.collection)
    model = None if args.model is None else open_model(args, args.model, args.device)
    with Passes(args.collection.name) as passes:
        result = slices(collection, model, args.data, method=args.method, seed=args.seed, progress=passes)
    page = write_report(result, collection, args.out)
    print(json.dumps(result.to_json(), indent=1, ensure_ascii=False) if args.json else in_text(result))
    if model is None and result.slices:
        print("not tested: --model asks the model again without what a slice names", file=sys.stderr)
    print(f"report: {page}", file=sys.stderr)


def in_text(result: Slices) -> str:
    """Format slices as text: a paragraph each."""
    from explainers.collection.slices.words import in_words

    return "\n\n".join([" ".join(in_words(result)), *map(_paragraph, result.slices)])


def _paragraph(each: Slice) -> str:
    from explainers.collection.slices.words import figures_in_words, finding_of

    finding = finding_of(each)
    said = [f"It says: {finding.says}", f"It does not say: {finding.leaves_open}", f"What to do: {finding.next_step}"]
    examples = ", ".join(row.input for row in each.examples)
    return "\n".join([each.sentence, *(f"  {line}" for line in (*said, *figures_in_words(each), examples))])
