"""A protocol measured: on the models and data of the paper where they are at hand, else on those that ship; one table comes out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explainers.analysis.summary import summarise
from explainers.datasets import DATASETS, Dataset, open_dataset
from explainers.errors import ExplainerError
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.plan import make_plan
from explainers.evaluation.protocol_in_words import protocol_in_words
from explainers.evaluation.protocols.protocol import Measure, Protocol, ProtocolRow
from explainers.evaluation.reporting import report_of
from explainers.evaluation.running import run
from explainers.evaluation.tables.record import Cell, Column, Row, Table
from explainers.methods import parse
from explainers.methods.requirements import for_probability, missing_requirements, reason_against
from explainers.metrics import METRICS
from explainers.models.model import Model

__all__ = ["Reproduction", "reproduce"]

STAND_IN_INPUTS = 60  # of each data set that ships, where nobody says how many
LEVELS = ("model", "data set", "measure")
NAMES_SHOWN = 10  # at each end of a ranking
#: Given a name, the model; raises ExplainerError where it is not at hand.
OpenModel = Callable[[str], Model]
#: Told what is measured, and how many inputs of how many are done.
TellRun = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Reproduction:
    """What came of a protocol: the ``table`` as measured here, whose notes say how, the figures that the paper prints, and what was not at
    hand, with how to get it, a sentence or two each.
    """

    protocol: Protocol
    table: Table
    published: Table | None
    missing: tuple[str, ...]


@dataclass(frozen=True)
class _Source:
    """A model with a data set, as they are at hand; ``titles`` are those of the table's heads."""

    model: Model
    data: Dataset
    dataset: str
    titles: tuple[str, str]


@dataclass(frozen=True)
class _Batch:
    """What one run measures: the rows and measures of a source that have the same options. Where it has all rows that can be measured,
    they can be told apart by it.
    """

    source: _Source
    options: Mapping[str, Any]
    rows: list[ProtocolRow] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    has_all_rows: bool = False


def reproduce(
    protocol: Protocol,
    folder: Path,
    *,
    open_model: OpenModel,
    models: Sequence[str] = (),
    data: Path | None = None,
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
    tell: TellRun | None = None,
) -> Reproduction:
    """Measure what is at hand of a protocol, and make its table.

    folder   of the runs, one below it for each model, data set and set of options: each goes on where it was stopped
    models   names in place of the paper's
    data     the folder of the one data set, or of a folder for each by its name; None: data sets that ship stand for the paper's, and
             models that ship for its models where none is named
    limit    inputs of each data set; None: as many as the paper, of what stands for it :data:`STAND_IN_INPUTS`
    options  in place of the protocol's, as ``vitrine evaluate`` takes them

    Raises ExplainerError where nothing is at hand, with how to get it.
    """
    missing: list[str] = []
    sources = _sources(protocol, open_model, models, data, missing)
    if not sources:
        raise ExplainerError(f"Nothing of {protocol.name} is at hand. {' '.join(missing)}")
    statements: list[str] = []
    count = limit or (protocol.inputs if data is not None else STAND_IN_INPUTS)
    if protocol.kind == "names":
        table = _ranked_names(protocol, sources, count, tell)
    else:
        table, statements = _measured(protocol, sources, folder, count, options or {}, tell)
    if data is None:
        places = ", ".join(dict.fromkeys(" on ".join(source.titles) for source in sources))
        statements.insert(0, f"Stands in for the paper's models and data: {places}.")
    table = replace(table, notes=(*statements, *table.notes, *protocol.notes))
    return Reproduction(protocol, table, published_table(protocol), tuple(missing))


def _sources(protocol: Protocol, open_model: OpenModel, models: Sequence[str], data: Path | None, missing: list[str]) -> list[_Source]:
    """Every model at hand with every data set at hand; what is not is said in ``missing``."""
    named: list[tuple[str, str]] = [(name, name) for name in models]
    if not named and data is None:
        named = [(name, name) for name in protocol.inside]
    if not named:
        named = [(model.title, model.name) for model in protocol.models if model.name]
        missing += [f"{model.title}: {model.get}." for model in protocol.models if not model.name]
    opened: list[tuple[str, Model]] = []
    for title, name in named:
        try:
            opened.append((title, open_model(name)))
        except ExplainerError as problem:
            missing.append(f"{title} ({name}) is not at hand: {problem}")
    sources = []
    for dataset in protocol.datasets:
        for title, model in opened:
            try:
                sources.append(_source(protocol, dataset, title, model, data))
            except ExplainerError as problem:
                missing.append(f"{DATASETS[dataset].title} for {title}: {problem}")
    missing[:] = list(dict.fromkeys(missing))
    return sources


def _source(protocol: Protocol, dataset: str, title: str, model: Model, data: Path | None) -> _Source:
    if data is not None:
        below = data / dataset
        opened = open_dataset(dataset, below if below.is_dir() or len(protocol.datasets) > 1 else data)
        return _Source(model, opened, dataset, (title, DATASETS[dataset].title))
    if (name := protocol.stand_ins.get(dataset)) is None:
        raise ExplainerError(f"no data set that ships stands for it. {DATASETS[dataset].where}")
    return _Source(model, open_dataset(name), dataset, (title, DATASETS[name].title))


def _measured(
    protocol: Protocol, sources: Sequence[_Source], folder: Path, count: int | None, options: Mapping[str, Any], tell: TellRun | None
) -> tuple[Table, list[str]]:
    """The table of a protocol whose cells are values of metrics, and how was measured."""
    cells: dict[tuple[int, str, str], Cell] = {}
    statements: list[str] = []
    for place, source in enumerate(sources):
        for batch in _batches(protocol, source, options, cells, place):
            report = _report(batch, folder, count, tell)
            for measure in batch.measures:
                figures = report["results"][measure.metric]
                for row in batch.rows:
                    figure = figures[_spec(row, source.model)]
                    cells[place, row.title, measure.head] = replace(_cell(figure), tied=figure["tied"] and batch.has_all_rows)
            words = protocol_in_words(report["plan"], report["kind"], report.get("removal"))
            what = ", ".join(measure.head for measure in batch.measures) + _rows_in_words(batch, protocol)
            statements.append(f"{' on '.join(source.titles)}, {report['inputs']} inputs ({what}): {' '.join(words)}")
    heads = [
        (place, source, measure)
        for place, source in enumerate(sources)
        for measure in protocol.measures
        if measure.dataset == source.dataset
    ]
    columns = tuple(
        Column((*source.titles, measure.head), METRICS[measure.metric].unit, METRICS[measure.metric].direction)
        for _, source, measure in heads
    )
    rows = [Row(row.title, row.spec, tuple(cells[place, row.title, measure.head] for place, _, measure in heads)) for row in protocol.rows]
    table = Table(f"{protocol.title} ({protocol.place} of {protocol.paper.short})", (), columns, tuple(rows), levels=LEVELS)
    return _with_best(table), list(dict.fromkeys(statements))


def _rows_in_words(batch: _Batch, protocol: Protocol) -> str:
    """Of which rows a batch is, where others of the table have other options."""
    if batch.has_all_rows:
        return ""
    titles = [row.title for row in batch.rows]
    return f"; {', '.join(titles)}" if len(titles) <= len(protocol.rows) / 2 else "; all other rows"


def _batches(
    protocol: Protocol, source: _Source, given: Mapping[str, Any], cells: dict[tuple[int, str, str], Cell], place: int
) -> list[_Batch]:
    """The runs that a source needs. A cell of a method that the model does not allow says why, and is in none."""
    lacks = missing_requirements(source.model)
    batches: dict[str, _Batch] = {}
    for row in protocol.rows:
        request = parse(row.spec, None, len(source.model.blocks))
        reason = reason_against(request.method, lacks, request.options)
        for measure in protocol.measures:
            if measure.dataset != source.dataset:
                continue
            options = {**protocol.options, **measure.options, **row.options, **given}
            if options.get("explains") == "probability" and for_probability([row.spec])[1]:
                options["explains"] = "logit"  # rules of relevance start from a score
            if reason is not None:
                cells[place, row.title, measure.head] = Cell(value=None, note=reason)
                continue
            batch = batches.setdefault(json.dumps(options, sort_keys=True), _Batch(source, options))
            batch.rows.extend([row] if row not in batch.rows else [])
            batch.measures.extend([measure] if measure not in batch.measures else [])
    count = len({row.title for batch in batches.values() for row in batch.rows})
    return [replace(batch, has_all_rows=len(batch.rows) == count) for batch in batches.values()]


def _report(batch: _Batch, folder: Path, count: int | None, tell: TellRun | None) -> dict[str, Any]:
    """The report of a run, which goes on where it was stopped."""
    source = batch.source
    methods = list(dict.fromkeys(_spec(row, source.model) for row in batch.rows))
    metrics = list(dict.fromkeys(measure.metric for measure in batch.measures))
    plan = make_plan(source.model, source.data, methods, metrics, limit=count, **batch.options)
    title = f"{plan.model} on {plan.dataset}"
    digest = hashlib.sha256(json.dumps(plan.to_json(), sort_keys=True).encode()).hexdigest()[:8]
    place = folder / f"{plan.model.replace('/', '_')}-{plan.dataset}-{digest}"
    place.parent.mkdir(parents=True, exist_ok=True)
    finished = run(source.model, source.data, plan, place, progress=None if tell is None else lambda done, total: tell(title, done, total))
    assert finished is not None
    return report_of(finished, EvaluationSetup(source.model, source.data, plan))


def _spec(row: ProtocolRow, model: Model) -> str:
    """The spec of a row as a run of this model has it."""
    return parse(row.spec, None, len(model.blocks)).spec


def _cell(figure: Mapping[str, Any]) -> Cell:
    return Cell(
        value=figure["value"],
        low=figure["low"],
        high=figure["high"],
        error=figure["error"],
        inputs=figure["inputs"],
        note="" if figure["value"] is not None else "No input gives this method a value by this measure.",
    )


def _with_best(table: Table) -> Table:
    """The table with the best of each column marked."""
    rows = [list(row.cells) for row in table.rows]
    for place, column in enumerate(table.columns):
        values = [cells[place].value for cells in rows if cells[place].value is not None]
        if column.direction is None or not values:
            continue
        best = max(values) if column.direction == "higher" else min(values)  # type: ignore[type-var]
        for cells in rows:
            cells[place] = replace(cells[place], best=cells[place].value == best)
    return replace(table, rows=tuple(replace(row, cells=tuple(cells)) for row, cells in zip(table.rows, rows, strict=True)))


def _ranked_names(protocol: Protocol, sources: Sequence[_Source], count: int | None, tell: TellRun | None) -> Table:
    """The names of texts by their relevance: those that speak most for the class, and those that speak most against it."""
    row, source, measure = protocol.rows[0], sources[0], protocol.measures[0]
    indices = source.data.choose(count, 0)
    texts = [source.data[index].text for index in indices]
    done = 0

    def progress(_: object) -> None:
        nonlocal done
        done += 1
        if tell is not None:
            tell(" on ".join(source.titles), done, len(texts))

    names = summarise(source.model, texts, measure.metric, row.spec, progress=progress).names()
    shown = names if len(names) <= 2 * NAMES_SHOWN else [*names[:NAMES_SHOWN], *names[-NAMES_SHOWN:]]
    columns = tuple(Column((*source.titles, head), "number") for head in ("times", "relevance in all", "relevance each"))
    rows = tuple(Row(name.word, "", tuple(Cell(value=value) for value in (name.count, name.total, name.mean))) for name in shown)
    title = f"{protocol.title} ({protocol.place} of {protocol.paper.short})"
    note = f"{len(names)} names in {len(texts)} texts; relevance for {measure.metric!r} by {row.title} ({row.spec})."
    return Table(title, (note,), columns, rows, rows_are="name", levels=LEVELS)


def published_table(protocol: Protocol) -> Table | None:
    """The figures that the paper prints, as it prints them; None where none are known."""
    if (published := protocol.published) is None:
        return None
    columns = tuple(Column((head,)) for head in published.heads)
    rows = tuple(Row(title, "", tuple(_printed(text) for text in texts)) for title, texts in published.rows.items())
    return Table(f"As printed: {protocol.place} of {protocol.paper}", (published.source,), columns, rows, levels=("measure",))


def _printed(text: str) -> Cell:
    return Cell(value=float(text.partition("±")[0]), printed=text) if text else Cell(value=None)
