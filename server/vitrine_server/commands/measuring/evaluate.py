"""``vitrine evaluate``: which methods can be trusted, measured on a data set."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrine_server.commands import CommandError, Commands, Listed
from vitrine_server.commands.files import unread_in_words
from vitrine_server.commands.measuring.experiment import Experiment
from vitrine_server.commands.model import add_model, check_engine, open_model
from vitrine_server.commands.progress import InputsBar
from vitrine_server.commands.text_tables import text_table

if TYPE_CHECKING:
    from explainers.evaluation.run_engines import RunEngine


#: The options that say how is measured.
PROTOCOL = ("target", "explains", "resize", "how", "right", "steps")
#: The defaults of options that neither the command line nor an experiment sets.
DEFAULTS: dict[str, Any] = {
    "methods": ["default"],
    "metrics": ["mif", "lif", "srg"],
    "target": "predicted",
    "explains": "logit",
    "right": "any",
    "steps": 10,
    "seed": 0,
    "engine": "local",
    "no_examples": False,
    "skip_broken": False,
}


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine evaluate``."""
    parser = commands.add_parser(
        "evaluate",
        help="measure attribution methods on a data set: faithfulness, localisation, sanity",
        description="Measure attribution methods on a data set. To continue a stopped run, type the same command again.",
        epilog="Example:  vitrine evaluate --model scenes-vit --dataset scenes --metrics mif,lif,srg,ap --limit 20 --out runs/scenes",
    )
    parser.add_argument(
        "--experiment",
        metavar="FILE",
        type=Path,
        action=Experiment,
        help="options from a TOML file, by their long names, such as experiments/scenes-vit-on-scenes.toml; typed options have priority",
    )
    add_model(parser, "whose answers are explained: a model as `vitrine explain` takes it")
    parser.add_argument("--dataset", metavar="NAME", help="the inputs; --list shows the data sets")
    parser.add_argument("--data", metavar="DIR", type=Path, help="folder (or file) of the data set, in its publisher's layout")
    parser.add_argument(
        "--split",
        metavar="NAME",
        help="the part of the data set, if it has several, such as val2017 of coco (default: the first that exists)",
    )
    parser.add_argument(
        "--methods",
        metavar="SPEC",
        nargs="+",
        action=Listed,
        help="specs or sets: default, quick, all, ... (default: default)",
    )
    parser.add_argument("--metrics", metavar="NAME", nargs="+", action=Listed, help="names, or all (default: mif lif srg)")
    parser.add_argument(
        "--controls",
        metavar="NAME",
        nargs="+",
        action=Listed,
        help="maps whose place is known, measured besides the methods where the data set marks what answers come from: names, or all "
        "(default: none)",
    )
    parser.add_argument("--limit", metavar="N", type=int, help="measure N inputs, drawn with --seed (default: all)")
    add_protocol(parser)
    parser.add_argument(
        "--long-texts",
        choices=("windows", "cut"),
        help="texts that are too long for the model: read in windows, or cut, as metrics that remove words need (default: as they need)",
    )
    parser.add_argument("--seed", metavar="N", type=int, help="seed of the random choice of inputs (default: 0)")
    parser.add_argument("--device", metavar="DEVICE", help="where the model runs: cpu, cuda, ... (default: CUDA if available)")
    parser.add_argument("--engine", choices=("local", "ray"), help="measure in this process, or on a cluster with Ray (default: local)")
    parser.add_argument(
        "--workers", metavar="N", type=int, help="with --engine ray: maximum number of processes (default: as many as have room)"
    )
    parser.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="with --engine ray: address of the cluster (default: RAY_ADDRESS, else one started on this machine)",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder of the run: rows.parquet, report.json, report.html")
    parser.add_argument(
        "--no-examples",
        action="store_true",
        default=None,
        help="leave the best and worst inputs out of the reports, if the data may not be passed on",
    )
    parser.add_argument(
        "--skip-broken",
        action="store_true",
        default=None,
        help="leave out inputs that cannot be read, and name them in run.json and the reports (default: stop at the first)",
    )
    parser.add_argument("--list", action="store_true", help="list the data sets and the metrics, and do nothing else")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=run)


def add_protocol(parser: argparse._ActionsContainer) -> None:
    """Add the options that determine how to measure, such as ``--target`` and ``--how``, to ``parser``."""
    parser.add_argument(
        "--target",
        choices=("predicted", "second", "gold", "each", "together", "contrast"),
        help="which class is explained (default: predicted)",
    )
    parser.add_argument("--explains", choices=("logit", "probability"), help="which number of the class is explained (default: logit)")
    parser.add_argument(
        "--resize",
        choices=("squashed", "cropped"),
        help="pictures squashed whole into the model's size, or cropped to it around the centre (default: as the model was trained)",
    )
    parser.add_argument(
        "--how",
        metavar="WAY",
        help="how tokens are removed: removed, zeroed, painted or black; for texts removed, masked or unknown (the report has the default)",
    )
    parser.add_argument("--right", choices=("any", "first"), help="which labels of an input count as right (default: any)")
    parser.add_argument("--steps", metavar="N", type=int, help="number of equal steps in which tokens are removed (default: 10)")


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine evaluate`` with its parsed arguments: measure methods on a data set. The run and its reports go to the folder of
    ``--out``; the table is printed, or with ``--json`` the report as JSON.

    With ``--list`` only print the data sets and metrics.
    """
    args = apply_experiment(args)
    if args.list:
        print(json.dumps(listed(), indent=1, ensure_ascii=False) if args.json else listing())
        return
    if lacking := [f"--{name}" for name in ("model", "dataset", "out") if getattr(args, name) is None]:
        raise CommandError(f"say {', '.join(lacking)} (or --list)")
    if args.engine != "ray" and (args.workers is not None or args.ray_address is not None):
        raise CommandError("--workers and --ray-address go with --engine ray")
    from explainers.datasets import open_dataset
    from explainers.evaluation.measuring import EvaluationSetup
    from explainers.evaluation.plan import make_plan
    from explainers.evaluation.reporting import write_reports
    from explainers.evaluation.running import run as measure

    engine = _engine(args)
    data = open_dataset(args.dataset, args.data, args.split)
    if data.unread:
        print(unread_in_words(data.unread), file=sys.stderr)
    check_engine(args)
    model = open_model(args, args.model, args.device if args.engine == "local" else "cpu")  # elsewhere workers have the device
    plan = make_plan(
        model,
        data,
        args.methods,
        args.metrics,
        limit=args.limit,
        target=args.target,
        explains=args.explains,
        resize=args.resize,
        how=args.how,
        right=args.right,
        steps=args.steps,
        seed=args.seed,
        long_texts=args.long_texts,
        controls=args.controls or (),
    )
    fresh = not (args.out / "run.json").is_file()
    started = time.monotonic()
    with InputsBar(f"{plan.model} on {plan.dataset}") as bar:
        finished = measure(model, data, plan, args.out, engine=engine, progress=bar, skip_broken=args.skip_broken)
    assert finished is not None
    seconds = time.monotonic() - started if fresh else None
    report = write_reports(
        finished, EvaluationSetup(model, data, plan), command=command(args), seconds=seconds, with_examples=not args.no_examples
    )
    print(json.dumps(report, indent=1, ensure_ascii=False) if args.json else table(report))
    print(f"{args.out / 'report.html'} shows intervals, curves and examples", file=sys.stderr)


def apply_experiment(args: argparse.Namespace) -> argparse.Namespace:
    """Return the arguments completed by those of ``--experiment``, then by the defaults; options on the command line have priority."""
    given = vars(args)
    for level in (vars(args.experiment or argparse.Namespace()), DEFAULTS):
        given = {**level, **{name: value for name, value in given.items() if value is not None}}
    return argparse.Namespace(**vars(args) | given)


def _engine(args: argparse.Namespace) -> RunEngine:
    """Return the engine that measures inputs, as ``--engine`` in the arguments ``args`` says."""
    if args.engine == "local":
        from explainers.evaluation.run_engines import local

        return local
    from explainers.evaluation.distributed import Sources, ray_engine

    sources = Sources.with_absolute_paths(args.model, args.dataset, args.data, args.split)
    return ray_engine(sources, workers=args.workers, address=args.ray_address, device=args.device)


def command(args: argparse.Namespace) -> str:
    """Return the command line that repeats the run of the parsed arguments ``args``, without the folders of this machine."""
    words = ["vitrine", "evaluate"]
    for name in ("model", "dataset", "split", "methods", "metrics", "controls", "limit", *PROTOCOL, "seed", "long_texts"):
        value = getattr(args, name)
        value = ",".join(value) if isinstance(value, list) else value
        if value is not None and (name, value) not in DEFAULTS.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
    data = ["--data DIR"] if args.data else []
    flags = [f"--{name.replace('_', '-')}" for name in ("no_examples", "skip_broken") if getattr(args, name)]
    return " ".join([shlex.join(words), *data, *flags, "--out DIR"])


def table(report: dict[str, Any]) -> str:
    """Format ``report`` (JSON of a run) as a text table of mean values with standard errors, a row for each method and a column for each
    metric; a star marks values that are tied with the best.
    """
    from explainers.evaluation.html import (
        FEWER_INPUTS,
        NO_VALUE,
        count_in_words,
        format_value,
        has_counts,
        inputs_in_words,
        lacks_values,
    )
    from explainers.evaluation.statistics import rank_methods

    metrics = report["metrics"]
    first = rank_methods(report, metrics[0])
    rows = []
    for spec in [*first, *(method["spec"] for method in report["methods"] if method["spec"] not in first)]:
        cells = []
        for metric in metrics:
            value = report["results"][metric["name"]][spec]
            text = format_value(value["value"], metric["unit"])
            of = f" ({counts})" if (counts := count_in_words(report, metric, spec)) else ""
            error = f" ±{format_value(value['error'], metric['unit'])}{'*' if value['tied'] else ''}" if value["value"] is not None else ""
            cells.append(f"{text}{error}{of}")
        rows.append((spec, *cells))
    arrows = {"higher": " up", "lower": " down", None: ""}
    heads = ("method", *(f"{m['name']}{' %' if m['unit'] == 'share' else ''}{arrows[m['direction']]}" for m in metrics))
    dashes = f"\n{NO_VALUE}" if lacks_values(report) else ""
    dashes += f"\n{FEWER_INPUTS}" if has_counts(report) else ""
    return f"{text_table(heads, rows)}\n\n{inputs_in_words(report)}; * cannot be told from the best (paired bootstrap, Holm, 5 %){dashes}"


def listed() -> dict[str, Any]:
    """Return the data sets and the metrics that are known, with what each needs and gives, as JSON."""
    from explainers.datasets import DATASETS
    from explainers.metrics import METRICS

    plain = [
        {key: value for key, value in asdict(entry).items() if key != "opener"}
        | {"gives": list(entry.gives), "source": None if entry.source is None else entry.source.about().to_json()}
        for entry in DATASETS.values()
    ]
    return {"datasets": plain, "metrics": [metric.to_json() for metric in METRICS.values()]}


def listing() -> str:
    """Format the data sets and the metrics as two text tables."""
    from explainers.datasets import DATASETS
    from explainers.metrics import METRICS

    sets = [
        (dataset.name, dataset.kind, ", ".join(dataset.gives), "" if dataset.layout else "rendered on the spot", dataset.title)
        for dataset in DATASETS.values()
    ]
    figures = [(metric.name, metric.family, metric.direction or "", ", ".join(metric.kinds), metric.title) for metric in METRICS.values()]
    return "\n\n".join(
        (
            text_table(("data set", "kind", "gives", "", "title"), sets),
            text_table(("metric", "family", "better", "for", "title"), figures),
        )
    )
