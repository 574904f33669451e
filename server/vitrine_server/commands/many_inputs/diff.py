"""``vitrine diff``: what changed between two models on the same inputs."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrine_server.commands import CommandError, Commands, Listed, PartialFailure
from vitrine_server.commands.files import check_out_folder
from vitrine_server.commands.many_inputs.collect import add_choice_of_inputs, add_engine, check_engine_options, engine_for
from vitrine_server.commands.model import add_open_options, open_model
from vitrine_server.commands.progress import InputsBar
from vitrine_server.commands.text_tables import text_table

if TYPE_CHECKING:
    from explainers.collection.diff.diff import DiffSide, EngineOf
    from explainers.collection.diff.difference import Difference
    from explainers.collection.running import CollectionEngine

_PLACE_HEADS = ("method", "where", "before %", "after %", "difference", "inputs")
_WORD_HEADS = ("word", "before %", "after %", "difference", "texts")
_BARS = {"old": "old model", "new": "new model", "null": "to compare with"}


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine diff``."""
    parser = commands.add_parser(
        "diff",
        help="say what changed between two models: answers, and the same answers for another reason",
        description="Ask two models, such as two checkpoints, about the same inputs, and say which answers changed, which stayed the same "
        "for another reason, and how much of the maps lies on the object, at the border and on words before and after. "
        "To continue a stopped comparison, type the same command again.",
        epilog="Example:  vitrine diff runs/step-100 runs/step-200 --data photos/ --out diffs/100-200 --fail-above 0.1\n"
        "Exit code 1: more rows than --fail-above says have to be looked at.",
    )
    parser.add_argument("old", metavar="OLD", help="the model before: a name, folder or file of weights, or the folder of its collection")
    parser.add_argument("new", metavar="NEW", help="the model after, in the same forms")
    parser.add_argument("--data", metavar="DATA", help="inputs, as `vitrine collect` takes them (not needed for two collections)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder of report.html, report.json, differences.parquet, the collections")
    parser.add_argument(
        "--methods",
        metavar="SPEC",
        nargs="+",
        action=Listed,
        help="specs of the maps; the first decides whether the reason changed (default: fullgrad_plus:libra, ...)",
    )
    parser.add_argument(
        "--reference",
        metavar="MODEL",
        help="a third model that is as good as OLD, such as one of another seed: how unlike its maps are counts as chance "
        "(default: how unlike the maps of OLD for mirrored pictures are)",
    )
    parser.add_argument(
        "--fail-above",
        metavar="SHARE",
        type=float,
        help="exit with code 1 if more than this share of the inputs has another answer that is not right now, or the same answer for "
        "another reason; chance takes up to 0.05 for the latter",
    )
    add_choice_of_inputs(parser, "--data-folder", "compare")
    parser.add_argument("--skip-broken", action="store_true", help="leave out inputs that cannot be read, or whose label a model lacks")
    parser.add_argument("--device", metavar="DEVICE", help="where the models run: cpu, cuda, ... (default: CUDA if available)")
    add_engine(parser)
    parser.add_argument("--json", action="store_true", help="print report.json")
    add_open_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command with its parsed arguments: write the report and print what is in it. Raises PartialFailure, which is exit code 1, if
    more rows than ``--fail-above`` says have to be looked at.
    """
    if args.out is None:
        raise CommandError("say --out")
    if args.fail_above is not None and not 0 <= args.fail_above <= 1:
        raise CommandError(f"--fail-above {args.fail_above}: it is a share of the inputs, from 0 to 1")
    check_engine_options(args)
    check_out_folder(args.out)
    from explainers.collection.diff.diff import diff

    old = _opened(args, args.old)
    with _Bars() as bars:
        difference = diff(
            old,
            _opened(args, args.new),
            args.data,
            args.out,
            args.methods,
            reference=None if args.reference is None else _opened(args, args.reference),
            folder=args.folder,
            split=args.split,
            prompts=args.prompt,
            limit=args.limit,
            labels=not args.no_labels,
            seed=args.seed,
            batch=args.batch,
            skip_broken=args.skip_broken,
            engine_of=_engine_of(args, old),
            progress=bars,
        )
    assert difference is not None
    print(json.dumps(difference.to_json(), indent=1, ensure_ascii=False) if args.json else in_text(difference))
    print(f"{args.out / 'report.html'} shows the rows to look at first", file=sys.stderr)
    if args.fail_above is not None and (difference.to_check.value or 0.0) > args.fail_above:
        checked = difference.to_check
        raise PartialFailure(f"{checked.count} of {checked.of} inputs have to be looked at, more than --fail-above {args.fail_above:g}")


def _opened(args: argparse.Namespace, name: str) -> Any:
    """Return the model ``name``, or the path of a folder with a collection."""
    from explainers.evaluation.rows import RUN

    # with --engine ray workers have the device
    return Path(name) if (Path(name) / RUN).is_file() else open_model(args, name, args.device if args.engine == "local" else "cpu")


def _engine_of(args: argparse.Namespace, old: Any) -> EngineOf | None:
    """Return the engine for each collection, as ``--engine`` in the arguments says, with ``old`` as it was opened; None: this process."""
    if args.engine == "local" or args.data is None:
        return None
    from explainers.collection.sources import Sources

    names = {"old": args.old, "new": args.new, "null": args.reference}
    names_classes = not isinstance(old, Path) and old.kind == "clip" and args.prompt is None
    sources = Sources(args.data, args.folder, args.split, names_classes).absolute()

    def engine_of(side: DiffSide) -> CollectionEngine:
        engine = engine_for(args, names[side], sources)
        assert engine is not None
        return engine

    return engine_of


class _Bars:
    """A progress bar for each collection, one after the other."""

    def __init__(self) -> None:
        self._name, self._bars = "", ExitStack()

    def __enter__(self) -> _Bars:
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.close()

    def __call__(self, name: str, done: int, total: int) -> None:
        """Show that ``done`` of the ``total`` inputs of the collection ``name`` are done."""
        if name != self._name:
            self._bars.close()
            self._name, self._bar = name, self._bars.enter_context(InputsBar(_BARS[name]))
        self._bar(done, total)


def in_text(difference: Difference) -> str:
    """Format a difference as text: sentences, and tables of places and words."""
    from explainers.collection.diff.report import in_words, place_rows, word_rows

    parts = ["\n".join(in_words(difference))]
    if places := place_rows(difference):
        parts.append(text_table(_PLACE_HEADS, places))
    if words := word_rows(difference):
        parts.append(text_table(_WORD_HEADS, words))
    return "\n\n".join(parts)
