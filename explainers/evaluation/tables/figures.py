"""The figures of reports as cells, each with its model, data set, method and metric; costs and single blocks are metrics here too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import numpy as np

from explainers.evaluation.marks import cannot_tell
from explainers.evaluation.plan import Plan
from explainers.evaluation.statistics import find_ties, without_rounding
from explainers.evaluation.tables.record import Cell, Column
from explainers.methods.registry import is_control

#: The costs that a run may record: name -> (title, unit).
COSTS = {"seconds": ("Seconds a map", "s"), "memory": ("Memory of a map", "GiB")}
CONSERVATION_BY_BLOCK = "conservation_by_block"
COST_FAMILY = "costs"
_NO_VALUE_NOTE = (
    "No value: the method promises no sum or follows no rule, its maps have no positive score, or no input shows what the metric needs."
)
_GIB = 2**30
#: The default options of a run's plan.
_DEFAULT_OPTIONS = {option.name: option.default for option in fields(Plan) if option.default is not MISSING}


@dataclass(frozen=True)
class NamedReport:
    """A report of a run (``report``, JSON) together with the ``name`` of the run."""

    name: str
    report: Mapping[str, Any]

    @property
    def setting(self) -> tuple[str, str]:
        """The model and the title of the data set with its part."""
        return self.report["plan"]["model"], self.report["dataset"]["title"]


@dataclass(frozen=True)
class MeasuredColumn:
    """The values of one metric in one run.

    model, dataset  their names; if two runs measured the same model and data in different ways, the name of the data set says how
    metric, family  name of the metric and of its family
    column          title, unit and direction
    cells           spec -> its figure
    setting         model and data set, by which runs are distinguished
    doubt           why the metric cannot tell which method is good in this run; None if it can
    """

    model: str
    dataset: str
    metric: str
    family: str
    column: Column
    cells: Mapping[str, Cell]
    setting: tuple[str, str]
    doubt: str | None = None


def measured_columns(
    runs: Sequence[NamedReport], is_wanted: Callable[[str, str], bool], specs: Collection[str]
) -> Iterator[MeasuredColumn]:
    """Yield, for each of ``runs``, the values of the methods ``specs`` by each metric for which ``is_wanted(name, family)`` is true.

    The best of a column is the best of these methods, controls excluded. Methods are tied with it if the paired bootstrap, with Holm's
    correction for that many, cannot distinguish them from it. Neither the best nor a tie is marked if a control may be as good. A run
    without recorded costs gets a column of dashes for them, if another run has costs and it has other columns.
    """
    costs_are_known = any(run.report.get("costs") for run in runs)
    for run, dataset in zip(runs, dataset_titles(runs), strict=True):
        report = run.report
        measured = [method["spec"] for method in report["methods"] if method["spec"] in specs]
        has_column = False
        here: dict[str, Any] = {"model": report["plan"]["model"], "dataset": dataset, "setting": run.setting}
        for metric in report["metrics"]:
            family = metric.get("family") or ""
            if is_wanted(metric["name"], family):
                doubt = cannot_tell(dict(report), metric)
                cells = _cells(report, metric, measured, marked=doubt is None)
                column = Column((metric["title"],), metric["unit"], metric["direction"])
                has_column = True
                yield MeasuredColumn(**here, metric=metric["name"], family=family, column=column, cells=cells, doubt=doubt)
        if is_wanted(CONSERVATION_BY_BLOCK, "completeness"):
            for block, cells in enumerate(_cells_of_blocks(report, measured), 1):
                column = Column((f"Conservation error, block {block}",), "number", "lower")
                yield MeasuredColumn(**here, metric=f"{CONSERVATION_BY_BLOCK}.{block}", family="completeness", column=column, cells=cells)
        for name, (title, unit) in COSTS.items() if report.get("costs") or (has_column and costs_are_known) else ():
            if is_wanted(name, COST_FAMILY):
                column = Column((title,), unit, "lower")
                cells = {spec: _cost(report.get("costs"), name, spec) for spec in measured}
                yield MeasuredColumn(**here, metric=name, family=COST_FAMILY, column=column, cells=cells)


def dataset_titles(runs: Sequence[NamedReport]) -> list[str]:
    """Return a title for the data set of each run: its name, and if several runs measured one model on it, the options in which they
    differ.

    Options with their default are left out; where no option differs, the name of the run is added.
    """
    ways = [{**_DEFAULT_OPTIONS, **run.report["plan"], "limit": run.report["inputs"]} for run in runs]
    titles = []
    for run, way in zip(runs, ways, strict=True):
        others = [other for other, other_run in zip(ways, runs, strict=True) if other_run.setting == run.setting]
        differing = [
            name for name in _DEFAULT_OPTIONS if any(other[name] != way[name] for other in others) and way[name] != _DEFAULT_OPTIONS[name]
        ]
        titles.append(", ".join([run.setting[1], *(_in_words(name, way[name]) for name in differing)]))
    whole = [(run.setting, title, metric["name"]) for run, title in zip(runs, titles, strict=True) for metric in run.report["metrics"]]
    repeated = {key[:2] for key in whole if whole.count(key) > 1}
    return [f"{title} ({run.name})" if (run.setting, title) in repeated else title for run, title in zip(runs, titles, strict=True)]


def _in_words(name: str, value: Any) -> str:
    return f"{value} input{'' if value == 1 else 's'}" if name == "limit" else f"{name.replace('_', ' ')} {value}"


def _cells(report: Mapping[str, Any], metric: Mapping[str, Any], specs: Sequence[str], *, marked: bool) -> dict[str, Cell]:
    """Return the cells of ``metric`` in ``report`` for the methods ``specs``, by spec; if ``marked``, the best and those tied with it are
    marked.
    """
    figures = report["results"][metric["name"]]
    most = max(figure.get("inputs", 0) for figure in figures.values())
    cells = {spec: _cell(figures[spec], most) for spec in specs}
    places = [i for i, method in enumerate(report["methods"]) if method["spec"] in cells and not is_control(method["spec"])]
    if not marked or metric["direction"] is None or len(places) < 2:
        return cells
    names = [report["methods"][i]["spec"] for i in places]
    values = np.array([np.nan if cells[spec].value is None else cells[spec].value for spec in names], np.float64)
    pairs = np.array(report["apart"][metric["name"]], np.float64)[np.ix_(places, places)]
    tied = find_ties(values, pairs, metric["direction"])
    if np.isfinite(values).sum() < 2:
        return cells
    compared = without_rounding(values)
    best = (np.nanmax if metric["direction"] == "higher" else np.nanmin)(compared)
    marks = zip(names, compared == best, tied, strict=True)
    return cells | {spec: replace(cells[spec], best=bool(is_best), tied=is_tied) for spec, is_best, is_tied in marks}


def _cell(figure: Mapping[str, Any], most: int) -> Cell:
    if figure["value"] is None:
        return Cell(value=None, note=_NO_VALUE_NOTE)
    return Cell(**{name: figure[name] for name in ("value", "low", "high", "error")}, inputs=figure.get("inputs"), of=most)


def _cells_of_blocks(report: Mapping[str, Any], specs: Sequence[str]) -> Iterator[dict[str, Cell]]:
    """Yield, for each block in ``report`` in turn, the cells of its conservation error for the methods ``specs``, by spec."""
    blocks = report.get("blocks") or {}
    for block in range(max((len(of_method) for of_method in blocks.values() if of_method), default=0)):
        yield {spec: _cell_of_block(blocks.get(spec), block) for spec in specs}


def _cell_of_block(of_method: Sequence[Mapping[str, Any]] | None, block: int) -> Cell:
    if of_method is None:
        return Cell(value=None, note="The method follows no rule, so it hands nothing out from block to block.")
    return Cell(**{name: of_method[block][name] for name in ("value", "low", "high")})


def _cost(costs: Mapping[str, Any] | None, name: str, spec: str) -> Cell:
    """Return the cell of the cost ``name`` of a map by the method ``spec``, from ``report``: "seconds", the median over inputs with the
    quartiles, or memory, the largest number of GiB. The cell has no value, and a note, if it was not measured.
    """
    if costs is None:
        return Cell(value=None, note="This run recorded no costs: it is of an earlier version.")
    if name == "seconds":
        figure = costs["seconds"][spec]
        if figure["value"] is None:
            return Cell(value=None, note="The time of this method is not known: the inputs were measured by an earlier version.")
        return Cell(value=figure["value"], low=figure["low"], high=figure["high"], inputs=figure["inputs"])
    memory = costs["memory"][spec]
    if memory is None:
        return Cell(value=None, note=f"Not counted on {', '.join(costs['devices'])}: only a GPU counts what one map takes.")
    return Cell(value=memory / _GIB)
