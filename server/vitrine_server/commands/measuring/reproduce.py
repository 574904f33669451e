"""``vitrine reproduce``: a table or figure of a paper, measured under its own protocol."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from vitrine_server.commands import CommandError, Commands, Listed
from vitrine_server.commands.measuring.evaluate import PROTOCOL, add_protocol
from vitrine_server.commands.model import add_open_options, open_model
from vitrine_server.commands.text_tables import text_table

if TYPE_CHECKING:
    from explainers.evaluation.protocols.reproduction import Reproduction
    from explainers.models.model import Model

FIGURE = "figure.svg"
PICTURE = "pictures-{number}.{ending}"


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, the command ``vitrine reproduce``."""
    parser = commands.add_parser(
        "reproduce",
        help="measure a table of a paper under its own protocol",
        description="Measure a table or figure of a paper under its own protocol: on its models and data where they are at hand, else on "
        "those that ship. The table comes out as the paper prints it, with intervals, and the printed figures next to it. What was stopped "
        "goes on where it was.",
        epilog="Example:  vitrine reproduce chefer-table1 --models timm/vit_base_patch16_224.orig_in21k_ft_in1k --data DIR --limit 500",
    )
    parser.add_argument("protocol", metavar="NAME", nargs="?", help="which table; --list shows all")
    parser.add_argument("--list", action="store_true", help="list the tables and figures, and do nothing else")
    parser.add_argument("--models", metavar="NAME", nargs="+", action=Listed, default=[], help="in place of the paper's")
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder of the data set, or with a folder for each by its name, as imagenet (default: data that ship stand in)",
    )
    parser.add_argument(
        "--split", metavar="NAME", help="the part of the data set, such as val2017 (default: that which the paper measures)"
    )
    parser.add_argument(
        "--limit", metavar="N", type=int, help="measure N inputs of each data set (default: as many as the paper; 60 of what ships)"
    )
    parser.add_argument(
        "--metrics", metavar="NAME", nargs="+", action=Listed, default=[], help="in place of the table's own, in the same runs, as lif,srg"
    )
    parser.add_argument(
        "--pictures", metavar="N", type=int, help="draw the maps of N inputs, where the paper shows maps (default: 3 there)"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder of the tables and runs (default: reproduce/NAME)")
    parser.add_argument("--device", metavar="DEVICE", help="where models run: cpu, cuda, ... (default: CUDA where there is one)")
    add_protocol(parser.add_argument_group("in place of the protocol's"))
    add_open_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run ``vitrine reproduce`` with its parsed arguments: measure a table of a paper. Write the table (.html, .md, .csv, .tex), its figure
    if it has one, and the runs to the folder of ``--out`` (default: ``reproduce/<protocol>``), and print the table as Markdown.
    """
    if args.list:
        print(listing())
        return
    if args.protocol is None:
        raise CommandError("say which table (or --list)")
    from explainers.evaluation.protocols.protocol import find_protocol
    from explainers.evaluation.protocols.reproduction import reproduce
    from explainers.evaluation.tables.writing import to_markdown

    protocol = find_protocol(args.protocol)
    out = args.out or Path("reproduce") / protocol.name
    if out.is_file():
        raise CommandError(f"{out} is a file: name a folder with --out")
    models: dict[str, Model] = {}

    def open_once(name: str) -> Model:
        if name not in models:
            models[name] = open_model(args, name, args.device, check="none")
        return models[name]

    with tqdm(unit="input", leave=False, disable=None) as bar:

        def tell(title: str, done: int, total: int) -> None:
            bar.set_description(title, refresh=False)
            bar.total, bar.n = total, done
            bar.refresh()

        options = {name: value for name in PROTOCOL if (value := getattr(args, name)) is not None}
        reproduction = reproduce(
            protocol,
            out / "runs",
            open_model=open_once,
            models=args.models,
            data=args.data,
            split=args.split,
            limit=args.limit,
            options=options,
            metrics=args.metrics,
            pictures=args.pictures,
            tell=tell,
        )
    write_tables(reproduction, out)
    for table in tables_of(reproduction):
        print(to_markdown(table))
    for line in reproduction.missing:
        print(f"not at hand: {line}", file=sys.stderr)
    figure = "" if reproduction.drawing is None else f", and {out / FIGURE} its curves"
    figure += f", and {out / PICTURE.format(number=1, ending='svg')} and so on the maps" if reproduction.pictures else ""
    print(f"{out / 'table.html'}, .md, .csv and .tex have the table{figure}", file=sys.stderr)


def tables_of(reproduction: Reproduction) -> list[Any]:
    """Return the table of ``reproduction`` as measured here, then the table as printed in the paper if its figures are known."""
    return [table for table in (reproduction.table, reproduction.published) if table is not None]


def write_tables(reproduction: Reproduction, folder: Path) -> None:
    """Write the tables of ``reproduction`` into ``folder`` as HTML, Markdown, LaTeX and CSV, the curves, if any, as SVG, and the figures of
    maps, if any, as SVG and PDF; ``table.csv`` has the measured figures, ``printed.csv`` those of the paper.
    """
    from explainers.evaluation.tables.writing import to_csv, to_html, to_latex, to_markdown

    tables, drawing = tables_of(reproduction), reproduction.drawing
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.html").write_text(to_html(*tables, drawing=drawing or ""), "utf-8")
    texts = [*map(to_markdown, tables)]
    if drawing is not None:
        (folder / FIGURE).write_text(drawing, "utf-8")
        texts.insert(1, f"![{reproduction.protocol.heading}]({FIGURE})\n")
    for number, picture in enumerate(reproduction.pictures, 1):
        for ending in ("svg", "pdf"):
            picture.savefig(folder / PICTURE.format(number=number, ending=ending))
        texts.append(f"![Maps of input {number}]({PICTURE.format(number=number, ending='svg')})\n")
    (folder / "table.md").write_text("\n".join(texts), "utf-8")
    (folder / "table.tex").write_text("\n".join(map(to_latex, tables)), "utf-8")
    for name, table in zip(("table.csv", "printed.csv"), tables, strict=False):
        (folder / name).write_text(to_csv(table), "utf-8")


def listing() -> str:
    """Format the tables and figures of the papers as two text tables: those that a command measures, with what they need and how long they
    took here, and those that are missing, with the reason.
    """
    from explainers.evaluation.protocols.protocol import MINUTES_OF, find_protocol, missing_parts, protocol_names

    protocols = [find_protocol(name) for name in protocol_names()]
    rows = [(each.source, each.name, each.title, each.needs, each.duration or "not measured") for each in protocols]
    measured = text_table(("table or figure", "name", "what", "needs", "took"), rows)
    took = f"took: {MINUTES_OF}. Without --data, data and models that ship stand in for those that are needed."
    missing = text_table(
        ("missing", "what", "why, and what to do instead"),
        [(each.source, each.title, f"{each.reason} {each.instead}".strip()) for each in missing_parts()],
    )
    return f"{measured}\n\n{took}\n\n{missing}"
