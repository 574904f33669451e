"""``vitrine slices``: what many wrong or doubtful rows of a collection have in common."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from vitrine_server.commands import CommandError, Commands, count_of
from vitrine_server.commands.model import add_model, open_model
from vitrine_server.commands.progress import Passes

if TYPE_CHECKING:
    from explainers.collection.intervals import Share
    from explainers.collection.slices.records import HidingTest, Slice, Slices


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
    parser.add_argument("--json", action="store_true", help="print the slices as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command with its parsed arguments: find, test and print the slices."""
    if args.data is not None and args.model is None:
        raise CommandError("--data goes with --model, which is asked about the inputs")
    from explainers.collection.result import open_collection
    from explainers.collection.slices.slices import slices

    collection = open_collection(args.collection)
    model = None if args.model is None else open_model(args, args.model, args.device)
    with Passes(args.collection.name) as passes:
        result = slices(collection, model, args.data, method=args.method, seed=args.seed, progress=passes)
    print(json.dumps(result.to_json(), indent=1, ensure_ascii=False) if args.json else in_text(result))
    if model is None and result.slices:
        print("not tested: --model asks the model again without what a slice names", file=sys.stderr)


def in_text(result: Slices) -> str:
    """Format slices as text: a paragraph each."""
    head = (
        f"{count_of(len(result.slices), 'slice')} in {count_of(result.inputs, 'row')}: "
        f"{result.wrong} wrong and {result.doubtful} right rows searched, {result.tried} slices tried"
    )
    return "\n\n".join([head, *map(_paragraph, result.slices)])


def _paragraph(each: Slice) -> str:
    lines = [
        each.sentence,
        f"  in the half that was not searched: {_share(each.share)}; of the rows to compare with: {_share(each.others)}; p = {each.p:.2g}",
    ]
    if each.test is not None:
        lines += _test_lines(each.test)
    return "\n".join([*lines, f"  {', '.join(row.input for row in each.examples)}"])


def _test_lines(test: HidingTest) -> list[str]:
    """Return what became of the answers of the rows that were asked again, as lines; none if no row was."""
    if test.fall.value is None or test.elsewhere.value is None or test.difference.value is None:
        return []
    between = ""
    if test.difference.low is not None and test.difference.high is not None:
        between = f" ({100 * test.difference.low:.1f} to {100 * test.difference.high:.1f})"
    return [
        f"  without it the probability of the answer falls by {100 * test.fall.value:.1f} points, with as much hidden elsewhere by "
        f"{100 * test.elsewhere.value:.1f}: {100 * test.difference.value:.1f} points more{between}",
        f"  another answer without it: {_share(test.changed)}; with as much hidden elsewhere: {_share(test.changed_elsewhere)}",
    ]


def _share(each: Share) -> str:
    if each.value is None or each.low is None or each.high is None:
        return "-"
    return f"{each.count} of {each.of} ({100 * each.low:.0f} to {100 * each.high:.0f} %)"
