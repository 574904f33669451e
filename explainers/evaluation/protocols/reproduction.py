"""A protocol measured: on the models and data of the paper where they are at hand, else on those that ship; one table comes out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explainers.analysis.first_names import Gender, gender_of
from explainers.analysis.summary import summarise
from explainers.analysis.word_ranking import WordTotal
from explainers.datasets import DATASETS, Dataset, open_dataset
from explainers.errors import ExplainerError
from explainers.evaluation.explained_classes import ClassLookup, labels_of
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.plan import make_plan
from explainers.evaluation.protocol_in_words import protocol_in_words
from explainers.evaluation.protocols.pictures import draw_pictures
from explainers.evaluation.protocols.protocol import Measure, Protocol, ProtocolModel, ProtocolRow
from explainers.evaluation.reporting import report_of
from explainers.evaluation.running import run
from explainers.evaluation.statistics import without_rounding
from explainers.evaluation.tables.curves import curves_of
from explainers.evaluation.tables.record import Cell, Column, Row, Table
from explainers.methods import parse
from explainers.methods.requirements import missing_requirements, reason_against, remedies
from explainers.metrics import METRICS, find_metrics
from explainers.metrics.registry import warn_across_models
from explainers.models.model import Model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Reproduction", "reproduce"]

STAND_IN_INPUTS = 60  # inputs of each data set that ships, where no number is given
LEVELS = ("model", "data set", "measure")
FIRST_LABELS = 20  # inputs whose labels are compared with the classes of a model
CLASS_TOKEN = "row=class_token"
#: The note on a figure whose method is read at the classification token.
POOLED_HEAD_NOTE = "The head pools all tokens; the method is still read at the classification token, as in the published code."
#: The note on a table in which rows of one column come from runs that explain different numbers.
DIFFERENT_NUMBERS_NOTE = "The rows explain two different numbers, each in a run of its own, so none is told from the best."
NAMES_SHOWN = 10  # names at each end of a ranking
#: The title of the names of each gender.
GENDERS: dict[Gender | None, str] = {"female": "names of women", "male": "names of men", None: "names of both or unknown"}
#: A function from a name to the model; raises ExplainerError where it is not available.
OpenModel = Callable[[str], Model]
#: A callback that gets the title of what is measured, how many inputs are done, and of how many.
TellRun = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Reproduction:
    """The result of a protocol: its table as measured here, and the values that the paper prints.

    table      the table as measured here, with notes on how it was measured
    published  the values that the paper prints
    missing    models and data that were not available, each with a sentence or two on how to get it
    drawing    the table as curves (SVG), if the paper has a figure
    pictures   figures of maps, one for each of a few inputs, if the paper shows maps
    """

    protocol: Protocol
    table: Table
    published: Table | None
    missing: tuple[str, ...]
    drawing: str | None = None
    pictures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class _Source:
    """An available model with an available data set.

    model     the opened model
    data      the opened data set; ``dataset`` is the name that it has in the protocol
    titles    the two heads of its columns in the table: model and data set
    options   options of its runs that differ from the protocol's
    measures  the columns that are measured on it
    """

    model: Model
    data: Dataset
    dataset: str
    titles: tuple[str, str]
    options: Mapping[str, Any]
    measures: tuple[Measure, ...]


@dataclass(frozen=True)
class _Batch:
    """The cells of a table that one run measures: pairs of a row and a measure of one source that have the same options.

    If it has all rows that can be measured, these can be compared with each other.
    """

    source: _Source
    options: Mapping[str, Any]
    cells: list[tuple[ProtocolRow, Measure]] = field(default_factory=list)
    has_all_rows: bool = False

    @property
    def rows(self) -> list[ProtocolRow]:
        """The rows of the table to which the cells of this run belong, each once."""
        return [row for number, (row, _) in enumerate(self.cells) if row not in [each for each, _ in self.cells[:number]]]

    @property
    def measures(self) -> list[Measure]:
        """The columns of the table (:class:`Measure`) to which the cells of this run belong, each once."""
        return [measure for number, (_, measure) in enumerate(self.cells) if measure not in [each for _, each in self.cells[:number]]]


def reproduce(
    protocol: Protocol,
    folder: Path,
    *,
    open_model: OpenModel,
    models: Sequence[str] = (),
    data: Path | None = None,
    split: str | None = None,
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
    metrics: Sequence[str] = (),
    pictures: int | None = None,
    tell: TellRun | None = None,
) -> Reproduction:
    """Measure every part of a protocol whose model and data are available, and return its table.

    folder   the folder of the runs, with a subfolder for each model, data set and set of options; a stopped run is continued
    models   names that replace the paper's
    data     the folder of the one data set, or a folder with a subfolder for each data set by name; None: embedded data sets replace the
             paper's, and embedded models replace its models unless ``models`` names some
    split    the part of the data set that is read, if it has several; None: the part that the paper measures
    limit    number of inputs of each data set; None: as many as in the paper, and :data:`STAND_IN_INPUTS` of an embedded data set
    options  options that replace the protocol's (those of ``vitrine evaluate``)
    metrics  metrics that replace the protocol's; each is measured on every data set, with every set of options
    pictures number of inputs of the first model and data set whose maps are drawn; None: as many as the protocol says; 0: none

    Raises ExplainerError, with advice on how to get them, if no model or no data is available; and, before anything is measured, for
    pictures of a protocol without maps, or of data without an input whose classes the model knows.
    """
    if metrics and protocol.kind == "runs":
        protocol = _with_metrics(protocol, metrics)
    if split is not None:
        protocol = _with_split(protocol, split, data)
    missing: list[str] = []
    sources = _sources(protocol, open_model, models, data, missing)
    if not sources:
        raise ExplainerError(f"Nothing of {protocol.name} is at hand. {' '.join(missing)}")
    drawn = _pictures(protocol, sources[0], protocol.pictures if pictures is None else pictures, options or {})
    statements: list[str] = []
    count = limit or (protocol.inputs if data is not None else STAND_IN_INPUTS)
    if protocol.kind == "names":
        table = _rank_names(protocol, sources, count, tell)
    else:
        table, statements = _measure(protocol, sources, folder, count, options or {}, tell)
    if data is None:
        places = ", ".join(dict.fromkeys(" on ".join(source.titles) for source in sources))
        statements.insert(0, f"Stands in for the paper's models and data: {places}.")
    table = replace(table, notes=(*statements, *table.notes, *protocol.notes), differences=protocol.differences)
    drawing = None if protocol.figure is None else curves_of(table, protocol.figure.x, protocol.figure.y)
    return Reproduction(protocol, table, published_table(protocol), tuple(missing), drawing, drawn)


def _pictures(protocol: Protocol, source: _Source, count: int, given: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Draw the maps of the methods of ``protocol`` that the model of ``source`` allows, for ``count`` inputs, with the options of the
    protocol and ``given`` ones. Raises ExplainerError if the protocol shows no maps.
    """
    if not count:
        return ()
    if count < 0:
        raise ExplainerError(f"The maps of {count} inputs cannot be drawn: pass 0 or more pictures.")
    if not protocol.pictures:
        raise ExplainerError(f"{protocol.name} is no figure of maps: leave pictures= out.")
    lacks = missing_requirements(source.model)
    requests = {spec: parse(spec) for spec in (spec_of(row, source.model) for row in protocol.rows)}
    specs = [spec for spec, request in requests.items() if reason_against(request.method, lacks, request.options) is None]
    metrics = list(dict.fromkeys(measure.metric for measure in source.measures))
    return tuple(draw_pictures(source.model, source.data, specs, metrics, {**protocol.options, **source.options, **given}, count))


def _with_split(protocol: Protocol, split: str, data: Path | None) -> Protocol:
    """Return the protocol with ``split`` as the part of its data sets that is read. Raises ExplainerError if none of them has it."""
    of_datasets = {name: DATASETS[name].splits for name in protocol.datasets}
    if data is None:
        raise ExplainerError(f"What ships has no parts to choose from: leave out --split, or name the folder of {', '.join(of_datasets)}.")
    with_it = [name for name, splits in of_datasets.items() if split in splits]
    if not with_it:
        known = " or ".join(dict.fromkeys(each for splits in of_datasets.values() for each in splits))
        raise ExplainerError(f"No data set of {protocol.name} has a part {split!r}: {f'choose {known}' if known else 'leave out --split'}.")
    return replace(protocol, splits={**protocol.splits, **dict.fromkeys(with_it, split)})


def _with_metrics(protocol: Protocol, metrics: Sequence[str]) -> Protocol:
    """Return the protocol with other metrics, measured in the same runs, and without the paper's values."""
    places = {repr((measure.dataset, sorted(measure.options.items()))): measure for measure in protocol.measures}
    several = len({measure.dataset for measure in places.values()}) < len(places)
    measures = [
        replace(
            measure,
            metric=metric.name,
            head=f"{metric.title}, {measure.head}" if several or len(protocol.datasets) > 1 else metric.title,
            has_best=True,
            unit="",
        )
        for measure in places.values()
        for metric in find_metrics(metrics)
    ]
    return replace(protocol, measures=tuple(measures), published=None, figure=None)


def _sources(protocol: Protocol, open_model: OpenModel, models: Sequence[str], data: Path | None, missing: list[str]) -> list[_Source]:
    """Return every available model of ``protocol`` (or of ``models``, if any are named), opened by ``open_model``, with every available
    data set in the folder ``data``; sentences on what is not available are added to ``missing``.
    """
    named = [ProtocolModel(title=name, name=name) for name in models or (protocol.inside if data is None else ())]
    if not named:
        named = [model for model in protocol.models if model.name]
        missing += [f"{model.title}: {model.get}." for model in protocol.models if not model.name]
    opened: list[tuple[ProtocolModel, Model]] = []
    for wanted in named:
        try:
            opened.append((wanted, open_model(wanted.name)))
        except ExplainerError as problem:
            missing.append(f"{wanted.title} ({wanted.name}) is not at hand: {problem}")
    sources = []
    for dataset in protocol.datasets:
        for wanted, model in opened:
            is_of_paper = wanted in protocol.models
            measures = tuple(
                measure
                for measure in protocol.measures
                if measure.dataset == dataset and (not is_of_paper or not measure.models or wanted.title in measure.models)
            )
            if not measures:
                continue
            try:
                sources.append(_source(protocol, measures, wanted, model, data))
            except ExplainerError as problem:
                missing.append(f"{DATASETS[dataset].title} for {wanted.title}: {problem}")
    missing[:] = list(dict.fromkeys(missing))
    return sources


def _source(protocol: Protocol, measures: tuple[Measure, ...], wanted: ProtocolModel, model: Model, data: Path | None) -> _Source:
    dataset = measures[0].dataset
    if data is not None:
        below = data / dataset
        place = below if below.is_dir() or len(protocol.datasets) > 1 else data
        opened = open_dataset(dataset, place, protocol.splits.get(dataset))
        _check_classes(model, opened)
        return _Source(model, opened, dataset, (wanted.title, DATASETS[dataset].title), wanted.options, measures)
    if (name := protocol.stand_ins.get(dataset)) is None:
        raise ExplainerError(f"no data set that ships stands for it. {DATASETS[dataset].where}")
    return _Source(model, open_dataset(name), dataset, (wanted.title, DATASETS[name].title), wanted.options, measures)


def _check_classes(model: Model, data: Dataset) -> None:
    """Raise ExplainerError if ``model`` knows none of the classes that the first inputs of ``data``, a data set, are labelled with.

    None of its answers could be right.
    """
    if "class" not in data.gives or model.prompt_inputs is not None:
        return
    samples = [data[index] for index in data.choose(FIRST_LABELS, 0)]
    labels = [label for sample in samples for label in labels_of(sample)]
    classes = ClassLookup(model, data, None)
    if labels and all(classes.class_of(label) is None for label in labels):
        raise ExplainerError(f"{model.name} knows none of its classes (the first: {labels[0]}): name a model of them with --models.")


def _measure(
    protocol: Protocol, sources: Sequence[_Source], folder: Path, count: int | None, options: Mapping[str, Any], tell: TellRun | None
) -> tuple[Table, list[str]]:
    """Measure a protocol whose cells are values of metrics, on each model and data set in ``sources``; return its table and sentences on
    how it was measured. Runs are kept in ``folder``; ``count`` limits the inputs, ``options`` override the protocol's, and ``tell`` is
    called with the progress.
    """
    cells: dict[tuple[int, str, str], Cell] = {}
    statements: list[str] = []
    has_halves = False
    for place, source in enumerate(sources):
        for batch in _batches(protocol, source, options, cells, place):
            report = _report(batch, folder, count, tell)
            has_halves = has_halves or not batch.has_all_rows
            for row, measure in batch.cells:
                spec = spec_of(row, source.model)
                figure = report["results"][measure.metric][spec]
                cell = _cell(figure)
                cells[place, row.title, measure.head] = replace(
                    cell,
                    tied=figure["tied"] and batch.has_all_rows and measure.has_best,
                    note=cell.note or (POOLED_HEAD_NOTE if spec != _plain_spec(row, source.model) else ""),
                )
            words = protocol_in_words(report["plan"], report["kind"], report.get("removal"))
            what = ", ".join(measure.head for measure in batch.measures) + _rows_in_words(batch, protocol)
            statements.append(f"{' on '.join(source.titles)}, {report['inputs']} inputs ({what}): {' '.join(words)}")
    heads = [(place, source, measure) for place, source in enumerate(sources) for measure in source.measures]
    columns = tuple(
        Column(
            (*source.titles, measure.head),
            measure.unit or METRICS[measure.metric].unit,
            METRICS[measure.metric].direction if measure.has_best else None,
            protocol.decimals,
        )
        for _, source, measure in heads
    )
    rows = [Row(row.title, row.spec, tuple(cells[place, row.title, measure.head] for place, _, measure in heads)) for row in protocol.rows]
    table = Table(protocol.heading, (), columns, tuple(rows), levels=LEVELS)
    warnings = warn_across_models([measure.metric for _, _, measure in heads], [source.model.name for _, source, _ in heads])
    return _mark_best(table), [*dict.fromkeys(statements), *([DIFFERENT_NUMBERS_NOTE] if has_halves else []), *warnings]


def _rows_in_words(batch: _Batch, protocol: Protocol) -> str:
    """Return the titles of the rows of the run ``batch`` as the end of a sentence, if other rows of the table of ``protocol`` are measured
    with other options; else an empty text.
    """
    if batch.has_all_rows:
        return ""
    titles = [row.title for row in batch.rows]
    return f"; {', '.join(titles)}" if len(titles) <= len(protocol.rows) / 2 else "; all other rows"


def _batches(
    protocol: Protocol, source: _Source, given: Mapping[str, Any], cells: dict[tuple[int, str, str], Cell], place: int
) -> list[_Batch]:
    """Group the cells of the table for one model and data set (``source``, the ``place``-th of the table) into runs with the same options,
    and return these runs. ``given`` options override the options of the protocol. If the model does not allow the method of a cell, the
    cell is put into ``cells`` with the reason and is in no run.
    """
    lacks = missing_requirements(source.model)
    batches: dict[str, _Batch] = {}
    for row in protocol.rows:
        request = parse(spec_of(row, source.model))
        reason = reason_against(request.method, lacks, request.options)
        for measure in source.measures:
            if reason is not None:
                cells[place, row.title, measure.head] = Cell(value=None, note=reason)
                continue
            options = protocol.options_of(row, measure, source.options, given)
            batches.setdefault(json.dumps(options, sort_keys=True), _Batch(source, options)).cells.append((row, measure))
    count = len({row.title for batch in batches.values() for row in batch.rows})
    return [replace(batch, has_all_rows=len(batch.rows) == count) for batch in batches.values()]


def _report(batch: _Batch, folder: Path, count: int | None, tell: TellRun | None) -> dict[str, Any]:
    """Measure the cells of a batch in one run, kept in ``folder``, on at most ``count`` inputs, and return the report of the run. A run
    that was stopped is continued.
    """
    source = batch.source
    methods = list(dict.fromkeys(spec_of(row, source.model) for row in batch.rows))
    metrics = list(dict.fromkeys(measure.metric for measure in batch.measures))
    plan = make_plan(source.model, source.data, methods, metrics, limit=count, **batch.options)
    title = f"{plan.model} on {plan.dataset}"
    digest = hashlib.sha256(json.dumps(plan.to_json(), sort_keys=True).encode()).hexdigest()[:8]
    place = folder / f"{plan.model.replace('/', '_')}-{plan.dataset}-{digest}"
    place.parent.mkdir(parents=True, exist_ok=True)
    finished = run(source.model, source.data, plan, place, progress=None if tell is None else lambda done, total: tell(title, done, total))
    assert finished is not None
    return report_of(finished, EvaluationSetup(source.model, source.data, plan))


def _plain_spec(row: ProtocolRow, model: Model) -> str:
    """Return the spec of a row in the standard spelling, in which a run of this model stores it."""
    return parse(row.spec, None, len(model.blocks)).spec


def spec_of(row: ProtocolRow, model: Model) -> str:
    """Return the spec of a row for this model.

    If the model's head pools all tokens, for which the method would be refused, the spec reads it at the classification token, as
    LibraGrad's code does.
    """
    method = parse(row.spec).method
    if CLASS_TOKEN not in remedies(model, method) or "row=" in row.spec:
        return _plain_spec(row, model)
    return parse(f"{row.spec}{'&' if '?' in row.spec else '?'}{CLASS_TOKEN}", None, len(model.blocks)).spec


def _cell(figure: Mapping[str, Any]) -> Cell:
    return Cell(
        value=figure["value"],
        low=figure["low"],
        high=figure["high"],
        error=figure["error"],
        inputs=figure["inputs"],
        note="" if figure["value"] is not None else "No input gives this method a value by this measure.",
    )


def _mark_best(table: Table) -> Table:
    """Return ``table`` with the best of each column marked."""
    rows = [list(row.cells) for row in table.rows]
    for place, column in enumerate(table.columns):
        if column.direction is None or all(cells[place].value is None for cells in rows):
            continue
        values = without_rounding(np.array([np.nan if cells[place].value is None else cells[place].value for cells in rows], np.float64))
        is_best = values == (np.nanmax if column.direction == "higher" else np.nanmin)(values)
        for cells, best in zip(rows, is_best.tolist(), strict=True):
            cells[place] = replace(cells[place], best=best)
    return replace(table, rows=tuple(replace(row, cells=tuple(cells)) for row, cells in zip(table.rows, rows, strict=True)))


def _rank_names(protocol: Protocol, sources: Sequence[_Source], count: int | None, tell: TellRun | None) -> Table:
    """Rank the first names in at most ``count`` texts of the data set of ``protocol`` by relevance for its class, for the first of
    ``sources``, separately for each gender; return a table of those most for the class and those most against it.

    ``tell`` is called with the numbers of done and of all texts. Raises ExplainerError if the texts have no name.
    """
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
    if not names:
        raise ExplainerError(
            f"There is no name in {len(texts)} text{'' if len(texts) == 1 else 's'}: no word has a capital inside a sentence more often "
            "than it is in lower case, and no text without capitals has a known first name. Name other texts with --data, or measure "
            "more of them with --limit."
        )
    columns = tuple(Column((*source.titles, head), "number") for head in ("times", "relevance in all", "relevance each"))
    of_genders = [([name for name in names if gender_of(name.word) == gender], title) for gender, title in GENDERS.items()]
    rows = tuple(each for of_gender, title in of_genders for each in _rows_of_names(of_gender, title))
    note = f"{len(names)} names in {len(texts)} texts; relevance for {measure.metric!r} by {row.title} ({row.spec})."
    return Table(protocol.heading, (note,), columns, rows, rows_are="name", levels=LEVELS)


def _rows_of_names(names: Sequence[WordTotal], title: str) -> Iterator[Row]:
    """Yield the table rows for ``names``, the first names of one gender with how often each occurs and its total score: first a row for all
    of them together, under ``title``, then a row for each of the names with the largest totals and each of those with the smallest,
    `NAMES_SHOWN` of either. Yields nothing if ``names`` is empty.
    """
    if not names:
        return
    yield _row_of_names(f"all {title} ({len(names)})", sum(name.count for name in names), sum(name.total for name in names))
    for name in names if len(names) <= 2 * NAMES_SHOWN else [*names[:NAMES_SHOWN], *names[-NAMES_SHOWN:]]:
        yield _row_of_names(name.word, name.count, name.total)


def _row_of_names(title: str, count: int, total: float) -> Row:
    return Row(title, "", tuple(Cell(value=value) for value in (count, total, total / count)))


def published_table(protocol: Protocol) -> Table | None:
    """Return the table of the values that the paper of ``protocol`` prints; None if these are unknown."""
    if (published := protocol.published) is None:
        return None
    columns = tuple(Column((head,)) for head in published.heads)
    rows = tuple(Row(title, "", tuple(_printed_cell(text) for text in texts)) for title, texts in published.rows.items())
    title = f"As printed: {protocol.place}, in the version of {protocol.version}, of {protocol.paper}"
    return Table(title, (published.source,), columns, rows, levels=("measure",))


def _printed_cell(text: str) -> Cell:
    return Cell(value=float(text.partition("±")[0]), printed=text) if text else Cell(value=None)
