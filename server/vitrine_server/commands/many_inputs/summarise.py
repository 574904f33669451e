"""``vitrine summarise``: what a model looks at in a whole class, one method over many inputs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from vitrine_server.commands import CommandError, Commands, PartialFailure, count_of
from vitrine_server.commands.files import check_out_folder, pictures_in, read_text_file
from vitrine_server.commands.model import add_model, default_model, open_model
from vitrine_server.commands.text_tables import text_table

if TYPE_CHECKING:
    from explainers import Summary
    from explainers.analysis.word_ranking import WordTotal

WORDS_SHOWN = 20  # words in the table


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine summarise``."""
    parser = commands.add_parser(
        "summarise",
        help="sum up what a model looks at over many pictures or texts",
        description="Explain many pictures or texts by one method: the mean map or the words by their total relevance, and the inputs on "
        "which the method can be trusted most and least. A run that was stopped goes on where it was when it is typed again.",
        epilog="Examples:\n  vitrine summarise photos/ --target zebra --out runs/zebra\n"
        "  vitrine summarise --texts reviews.txt --target positive --out runs/positive",
    )
    parser.add_argument("pictures", metavar="IMAGE", nargs="*", type=Path, help="image files, or folders of them")
    parser.add_argument("--texts", metavar="FILE", type=Path, help="a file of texts, one a line, in place of pictures")
    parser.add_argument("--names", action="store_true", help="of texts, rank the names alone: words with a capital inside a sentence")
    add_model(parser, "see 'vitrine models' (default: the embedded one for such an input)")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--target", metavar="CLASS", help="name or number of a class, or any:GROUP (default: each input's own top class)")
    target.add_argument("--prompt", metavar="TEXT", help="what to look for, for a CLIP model")
    parser.add_argument("--method", metavar="SPEC", default="fullgrad_plus:libra", help="see 'vitrine methods' (default: %(default)s)")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="folder of the run: rows.jsonl, summary.json and .html, mean.npy, mean.png"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON in place of the tables")
    parser.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: cuda if available)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the methods that draw random numbers (default 0)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine summarise`` with its parsed arguments: explain many inputs by one method. Write rows, summary and mean map to the
    folder of ``--out``, and print the summary as tables, or with ``--json`` as JSON. Raises PartialFailure (exit code 1) after that if some
    inputs could not be explained.
    """
    check_out_folder(args.out)
    inputs = read_inputs(args)
    import numpy as np

    import explainers
    from explainers.records.targets import parse_target

    model = open_model(args, args.model or default_model(args.texts is None, args.prompt), args.device)
    if (model.kind == "text") != (args.texts is not None):
        raise CommandError(f"{model.name} {'reads text: give --texts' if model.kind == 'text' else 'looks at images: give image files'}")
    target: Any = args.prompt if args.target is None else parse_target(args.target, model.labels)
    args.out.mkdir(parents=True, exist_ok=True)
    with tqdm(total=len(inputs), unit="input", leave=False, disable=None) as bar:
        summary = explainers.summarise(
            model, inputs, target, args.method, rows=args.out / "rows.jsonl", seed=args.seed, progress=lambda row: advance(bar)
        )
    (args.out / "summary.json").write_text(json.dumps(summary.to_json(), ensure_ascii=False, indent=1) + "\n", "utf-8")
    (args.out / "summary.html").write_text(summary.page(), "utf-8")
    if summary.mean is not None:
        np.save(args.out / "mean.npy", summary.mean.numpy())
        summary.picture().save(args.out / "mean.png")
    print(json.dumps(summary.to_json(), ensure_ascii=False) if args.json else table(summary, names=args.names))
    if summary.problems:
        raise PartialFailure(f"{len(summary.problems)} of {count_of(len(inputs), 'input')} could not be explained; the rest is summed up")


def advance(bar: Any) -> None:
    """Advance the progress ``bar`` by one input."""
    bar.update()


def read_inputs(args: argparse.Namespace) -> list[Any]:
    """Return the paths of the pictures in order, or the texts, that the arguments name."""
    if bool(args.pictures) == bool(args.texts):
        raise CommandError("give image files (or folders of them), or --texts FILE")
    if args.texts:
        texts = [line.strip() for line in read_text_file(args.texts).splitlines() if line.strip()]
        if not texts:
            raise CommandError(f"{args.texts} holds no text: write one a line")
        return list(texts)
    if args.names:
        raise CommandError("--names ranks words: give --texts FILE in place of pictures")
    files: list[Path] = []
    for path in args.pictures:
        if not path.exists():
            raise CommandError(f"there is no file {path}")
        files += pictures_in(path) if path.is_dir() else [path]
    if not files:
        from explainers.models.inputs.images import FORMATS, join_with_or

        raise CommandError(f"there is no picture in {', '.join(map(str, args.pictures))}: {join_with_or(FORMATS)} files are read")
    return list(files)


def word_table(title: str, words: Sequence[WordTotal]) -> list[str]:
    """Format ``title`` and a table with a row for each of ``words``: how often it occurs, and its total and mean relevance. Return both
    texts.
    """
    rows = [(word.word, str(word.count), f"{word.total:+.3g}", f"{word.mean:+.3g}") for word in words]
    return [f"\n{title}", text_table(("word", "times", "total", "mean"), rows)]


NO_NAMES = "no names: no word has a capital inside a sentence more often than in lower case, and no text without capitals a first name"


def name_tables(names: Sequence[WordTotal]) -> list[str]:
    """Format ``names`` as tables: those that speak most for the target and, if there are many, those that speak least for it. Return
    texts.
    """
    if not names:
        return [f"\n{NO_NAMES}"]
    parts = word_table("names by their total relevance", names[:WORDS_SHOWN])
    return [*parts, *word_table("and the last of them", names[WORDS_SHOWN:][-WORDS_SHOWN:])] if len(names) > WORDS_SHOWN else parts


def table(summary: Summary, names: bool = False) -> str:
    """Format ``summary`` as text: method, target, largest place of the mean map, words, and the inputs trusted most and least. ``names``
    lists only the names among the words.
    """
    parts = [f"{summary.method} for {summary.target}, {count_of(len(summary.rows), 'input')} of {summary.model}"]
    if summary.mean is not None:
        peak = divmod(int(summary.mean.argmax()), summary.mean.shape[1])
        parts.append(
            f"\nthe mean map is largest at row {peak[0] + 1}, column {peak[1] + 1} of {summary.mean.shape[0]} x {summary.mean.shape[1]}"
        )
    if summary.words:
        parts += name_tables(summary.names()) if names else word_table("words by their total relevance", summary.words[:WORDS_SHOWN])
    for title, rows_of in (("trusted most", summary.most_trusted()), ("trusted least", summary.least_trusted())):
        shown = [(row.name, row.label, f"{row.value:+.3g}", f"{row.trust:+.3g}") for row in rows_of]
        parts += [f"\n{title}", text_table(("input", "target", "value", "gain"), shown)]
    parts += [f"note: {row.name}: {row.problem}" for row in summary.problems]
    return "\n".join(parts)
