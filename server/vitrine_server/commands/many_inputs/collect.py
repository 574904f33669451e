"""``vitrine collect``: a table of many inputs, with what a model answers to each and where it looks."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrine_server.commands import CommandError, Commands, Listed, count_of
from vitrine_server.commands.files import check_out_folder, unread_in_words
from vitrine_server.commands.model import add_model, check_engine, open_model
from vitrine_server.commands.progress import InputsBar
from vitrine_server.commands.text_tables import text_table

if TYPE_CHECKING:
    from explainers.collection.result import Collection
    from explainers.collection.running import CollectionEngine
    from explainers.collection.sources import Sources

BROKEN_NAMED = 5  # inputs that could not be read, at most; the others are counted


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine collect``."""
    parser = commands.add_parser(
        "collect",
        help="write a table of many inputs: answers, maps, and which of them to look at",
        description="Write a table with a row for each input: the answer, right or wrong, doubt, and for each method the map and what it "
        "says. To continue a stopped collection, type the same command again.",
        epilog="Example:  vitrine collect photos/ --model photos-vit --out collections/photos",
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help="a folder of pictures, a .csv or .parquet file with a column path, text or smiles, or a data set of `vitrine evaluate --list`",
    )
    add_model(parser, "that is asked: a model as `vitrine explain` takes it")
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder of the table: rows.parquet, thumbnails.parquet, run.json")
    parser.add_argument(
        "--methods",
        metavar="SPEC",
        nargs="+",
        action=Listed,
        help="specs of the maps (default: fullgrad_plus:libra, input_x_gradient:attnlrp, rollout)",
    )
    add_choice_of_inputs(parser, "--data", "collect")
    parser.add_argument(
        "--no-removal",
        action="store_true",
        help="do not ask the model again without the parts that matter most, which takes a pass for each method",
    )
    parser.add_argument(
        "--skip-broken",
        action="store_true",
        help="leave out inputs that cannot be read, and name them in run.json",
    )
    parser.add_argument("--device", metavar="DEVICE", help="where the model runs: cpu, cuda, ... (default: CUDA if available)")
    add_engine(parser)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(run=run)


def add_choice_of_inputs(parser: argparse.ArgumentParser, folder: str, does: str) -> None:
    """Add to ``parser`` the options of a command that ``does`` something with many inputs: which they are, and how they are read.
    ``folder`` is the option for the folder of a published data set.
    """
    parser.add_argument("--prompt", metavar="TEXT", action="append", help="of CLIP, one to choose from; repeat it (default: the classes)")
    parser.add_argument(folder, dest="folder", metavar="DIR", type=Path, help="folder of a published data set")
    parser.add_argument("--split", metavar="NAME", help="the part of a published data set, if it has several")
    parser.add_argument("--limit", metavar="N", type=int, help=f"{does} N inputs, drawn with --seed (default: all)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the random choice of inputs (default: 0)")
    parser.add_argument("--batch", metavar="N", type=int, help="inputs in one pass (default: as many as suit the device)")
    parser.add_argument("--no-labels", action="store_true", help="take labels as notes: nothing is right or wrong by them")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add to ``parser`` the options that say where inputs are collected."""
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="collect in this process, or on a cluster with Ray")
    parser.add_argument("--workers", metavar="N", type=int, help="with --engine ray: maximum number of processes")
    parser.add_argument("--ray-address", metavar="ADDRESS", help="with --engine ray: address of the cluster (default: RAY_ADDRESS)")


def check_engine_options(args: argparse.Namespace) -> None:
    """Raise CommandError for options of :func:`add_engine` that do not go together."""
    if args.engine != "ray" and (args.workers is not None or args.ray_address is not None):
        raise CommandError("--workers and --ray-address go with --engine ray")
    check_engine(args)


def run(args: argparse.Namespace) -> None:
    """Run the command with its parsed arguments: write the table, and print what is in it."""
    if lacking := [f"--{name}" for name in ("model", "out") if getattr(args, name) is None]:
        raise CommandError(f"say {' and '.join(lacking)}")
    check_engine_options(args)
    check_out_folder(args.out)
    from explainers.collection.collect import collect
    from explainers.collection.labels import unknown_labels_in_words
    from explainers.collection.sources import Sources

    model = open_model(args, args.model, args.device if args.engine == "local" else "cpu")  # elsewhere workers have the device
    sources = Sources(args.data, args.folder, args.split, model.kind == "clip" and args.prompt is None).absolute()
    data = sources.open()
    if data.unread:
        print(unread_in_words(data.unread), file=sys.stderr)
    with InputsBar(f"{model.name} on {data.name}") as bar:
        collection = collect(
            model,
            data,
            args.out,
            args.methods,
            prompts=args.prompt,
            limit=args.limit,
            labels=not args.no_labels,
            removal=not args.no_removal,
            seed=args.seed,
            batch=args.batch,
            skip_broken=args.skip_broken,
            engine=engine_for(args, args.model, sources),
            sources=sources,
            progress=bar,
        )
    assert collection is not None
    summary = summed_up(collection)
    print(json.dumps(summary, indent=1, ensure_ascii=False) if args.json else table(summary))
    if (sentence := unknown_labels_in_words(Counter(summary["unknown_labels"]), summary["inputs"])) is not None:
        print(sentence, file=sys.stderr)
    if collection.broken:
        print(broken_in_words(collection.broken), file=sys.stderr)
    print(f"{args.out / 'rows.parquet'} has the table: pandas, DuckDB and polars read it", file=sys.stderr)


def engine_for(args: argparse.Namespace, model: str, sources: Sources) -> CollectionEngine | None:
    """Return the engine that collects ``sources`` with the model of this name, as ``--engine`` says; None: this process."""
    if args.engine == "local":
        return None
    from explainers.collection.distributed import ray_engine

    return ray_engine(model, sources, workers=args.workers, address=args.ray_address, device=args.device)


def broken_in_words(broken: list[dict[str, Any]]) -> str:
    """Return a sentence on the inputs that were left out: their number, and the first of them with the reason."""
    shown = "; ".join(f"{row['input'] or row['index']}: {row['broken']}" for row in broken[:BROKEN_NAMED])
    return f"{count_of(len(broken), 'input')} left out, named in run.json: {shown}{'; ...' if len(broken) > BROKEN_NAMED else ''}"


class _Mean:
    """A mean of the values that are known, and how many these are."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, value: float | None) -> None:
        """Count a value; None counts nothing."""
        if value is not None:
            self.total, self.count = self.total + value, self.count + 1

    @property
    def value(self) -> float | None:
        """The mean; None of no values."""
        return self.total / self.count if self.count else None


#: The numbers of a map whose means are printed, by their names in the summary.
_OF_MAPS = ("share_on_object", "share_on_border", "agreement", "falls")


def summed_up(collection: Collection) -> dict[str, Any]:
    """Return the counts and means of a collection's rows, which are read one after the other: as plain data."""
    from explainers.collection.labels import has_unknown_label

    right, doubts, unknown, count = _Mean(), Counter[str](), Counter[str](), 0
    of_maps: dict[str, dict[str, _Mean]] = {}
    for row in collection:
        count += 1
        right.add(row.right)
        unknown.update(row.labels[:1] if has_unknown_label(collection.about, row.labels, row.right, row.probability) else [])
        doubts.update([] if row.doubt is None else [row.doubt])
        for each in row.maps:
            means = of_maps.setdefault(each.method, {name: _Mean() for name in _OF_MAPS})
            for name, mean in means.items():
                mean.add(getattr(each, name))
    return {
        "inputs": count,
        "judged": right.count,
        "right": right.value,
        "unknown_labels": dict(unknown.most_common()),
        "doubts": dict(doubts),
        "methods": [{"method": spec, **{name: mean.value for name, mean in means.items()}} for spec, means in of_maps.items()],
    }


def table(summary: dict[str, Any]) -> str:
    """Format a summary of a collection as text."""
    judged = "" if summary["right"] is None else f", {summary['right']:.1%} of {summary['judged']} with a label right"
    doubts = "".join(f", {count} {name}" for name, count in summary["doubts"].items())
    heads = ("method", "on the object %", "on the border %", "agreement", "falls without the top tenth %")
    rows = [
        (
            row["method"],
            _percent(row["share_on_object"]),
            _percent(row["share_on_border"]),
            "-" if row["agreement"] is None else f"{row['agreement']:.2f}",
            _percent(row["falls"]),
        )
        for row in summary["methods"]
    ]
    return f"{count_of(summary['inputs'], 'input')}{judged}{doubts}\n\n{text_table(heads, rows)}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"
