"""``vitrine depth``: how much of the work of a model its Transformer does, on inputs of one's own."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from vitrine_server.commands import CommandError, Commands, count_of
from vitrine_server.commands.files import check_out_file, pictures_in, print_and_save, read_text_file
from vitrine_server.commands.model import add_open_options, open_model
from vitrine_server.commands.progress import Passes

#: For each kind of model whose inputs are lines of a file, what to give it.
LINES = {"text": "reads text: give .txt files of a text a line", "molecule": "reads molecules: give .txt files of a SMILES a line"}
WARM_UP_SHARE = 0.01  # of the passes, after which the time that the rest takes is said


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine depth``."""
    parser = commands.add_parser(
        "depth",
        help="measure whether the Transformer matters: parts, heads, reading, agreement of methods",
        description="Replace each part of a model by its mean output and see what the loss does; compare its heads; keep patches or words "
        "from reading each other; compare methods. Each figure is of your inputs, has an interval, and says what it means for maps.",
        epilog="Examples:\n  vitrine depth ./my-vit photos/\n  vitrine depth reviews-bert reviews.txt --json\n"
        "  vitrine depth clip photos/ --prompt 'a cat' --prompt 'a dog'",
    )
    parser.add_argument("model", metavar="MODEL", help="see 'vitrine models'; also a folder, or a file of weights")
    parser.add_argument(
        "inputs", metavar="INPUTS", nargs="+", type=Path, help="pictures, folders of them, or .txt files of a text or SMILES a line"
    )
    parser.add_argument("--prompt", metavar="TEXT", action="append", help="of a CLIP model, what pictures are compared with; two or more")
    parser.add_argument("--limit", type=int, default=64, help="most inputs, taken evenly (default %(default)s)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the numbers: a file ending in .json")
    parser.add_argument("--json", action="store_true", help="print the result as JSON in place of the table")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda where there is one)")
    add_open_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine depth`` with its parsed arguments: measure on some inputs how much of a model's work its Transformer does. Print the
    figures as a table, or with ``--json`` as JSON, and write them to the .json file of ``--out``, if any.
    """
    check_out_file(args.out, [".json"])
    inputs = read_inputs(args.inputs)
    import explainers

    model = open_model(args, args.model, args.device)
    if (model.kind in LINES) != isinstance(inputs[0], str):
        raise CommandError(f"{model.name} {LINES.get(model.kind, 'looks at images: give image files')}")
    with Passes(model.name) as bar:
        measured = explainers.depth(model, inputs, prompts=args.prompt, limit=args.limit, progress=_Announced(bar))
    print_and_save(args, measured)


class _Announced:
    """A progress bar that first prints an estimate of the remaining time to stderr, once, and then moves."""

    def __init__(self, bar: Passes) -> None:
        self._bar = bar
        self._first: tuple[int, float] | None = None
        self._is_said = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._first is None and done:  # the first pass is slower than those that follow
            self._first = done, now
        elif self._first is not None and not self._is_said and done - self._first[0] >= max(1, WARM_UP_SHARE * total):
            seconds = (total - done) * (now - self._first[1]) / (done - self._first[0])
            print(f"about {max(1, round(seconds))} s: the model is asked {count_of(total, 'input')}", file=sys.stderr)
            self._is_said = True
        self._bar(done, total)


def read_inputs(paths: list[Path]) -> list[Any]:
    """Return the pictures in files and folders, or the texts in files. Raises CommandError for paths that are not there, and for both kinds
    together.
    """
    pictures, texts = list[Path](), list[str]()
    for path in paths:
        if not path.exists():
            raise CommandError(f"there is no file {path}")
        if path.suffix == ".txt":
            texts += [line.strip() for line in read_text_file(path).splitlines() if line.strip()]
        else:
            pictures += pictures_in(path) if path.is_dir() else [path]
    if bool(pictures) == bool(texts):
        raise CommandError(
            "give pictures or .txt files of texts, not both" if pictures else "there is no picture and no text to measure on"
        )
    return [*pictures, *texts]
