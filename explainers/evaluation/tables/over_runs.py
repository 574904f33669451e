"""One table over any number of runs: methods, models, data sets and metrics, as rows and columns as they are asked for."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Literal, get_args

import numpy as np

from explainers.errors import ExplainerError
from explainers.evaluation.statistics import holm
from explainers.evaluation.tables.figures import (
    CONSERVATION_BY_BLOCK,
    COST_FAMILY,
    COSTS,
    MeasuredColumn,
    NamedReport,
    dataset_titles,
    measured_columns,
)
from explainers.evaluation.tables.ranks import RankTest, compare_ranks, ranks_of
from explainers.evaluation.tables.record import Cell, Column, Row, Table
from explainers.methods.registry import METHODS, is_control
from explainers.methods.specs import Spec
from explainers.metrics import METRIC_FAMILIES
from explainers.metrics.registry import warn_across_models

Axis = Literal["method", "model", "dataset", "metric"]
AXES: tuple[Axis, ...] = get_args(Axis)
_TITLES: dict[Axis, str] = {"method": "method", "model": "model", "dataset": "data set", "metric": "metric"}
_NOT_MEASURED_NOTE = "Not measured."
_TIES_NOTE = (
    "Of a model and data set: the best of the methods here, and with a star what a paired bootstrap of the inputs cannot tell from it "
    "(Holm, 5 %). Controls are not compared."
)
_RANKS_NOTE = (
    "Mean ranks are over pairs of model and data set, and of the methods that have a value in all of them; of several runs of a pair the "
    "one of most methods counts. Stars: Nemenyi's test against the best by permutation, 5 %. It takes the pairs for a random draw of all "
    "there could be, and pairs that share a model or a data set for independent, so it is rather too sure than not sure enough."
)
_BLOCKS_NOTE = "Block n: at the input of the n-th block, bias terms after it included."
_SECONDS_NOTE = (
    "Seconds: the median over inputs and the quartiles, the passes back that the method needs included, the forward pass left out."
)
_MEMORY_NOTE = "Memory: the most that making the map alone took on the GPU, beyond the weights."


class NothingSelected(ExplainerError):
    """Raised if each requested model, data set, metric and method exists, but no run has them together."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The part of the runs that a table shows; None: all.

    methods         specs, in which * stands for any characters
    method_families  keys of ``METHOD_FAMILIES``
    metrics         names; ``seconds``, ``memory``, ``conservation_by_block``; or families. Values by block are shown only if ``metrics``
                    names them
    models          names
    datasets        names
    rows, columns   each of the axes once, on one of the two. Metrics are columns, since a column has one unit
    """

    methods: tuple[str, ...] | None = None
    method_families: tuple[str, ...] | None = None
    metrics: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    datasets: tuple[str, ...] | None = None
    rows: tuple[Axis, ...] = ("method",)
    columns: tuple[Axis, ...] = ("model", "dataset", "metric")

    def __post_init__(self) -> None:
        """Raise ExplainerError if an axis is missing or occurs twice."""
        if sorted((*self.rows, *self.columns)) != sorted(AXES) or not self.rows:
            raise ExplainerError(
                f"rows={','.join(self.rows)} and columns={','.join(self.columns)}: name each of {', '.join(AXES)} once, some as rows."
            )
        if "metric" not in self.columns:
            raise ExplainerError("A column has one unit, so metrics are columns: name metric among the columns.")


def family_of(spec: str) -> str:
    """Return the family of the method of ``spec``; ``other`` for an unknown method."""
    name = Spec.parse(spec).method
    return METHODS[name].family if name in METHODS else "other"


def table_over_runs(runs: Sequence[NamedReport], selection: Selection | None = None, title: str = "Methods over runs") -> Table:
    """Return a table, with this ``title``, of the figures of ``runs`` that ``selection`` names (by default all).

    If only methods are rows, they are sorted best first, and the last columns hold their mean ranks over models and data sets. Raises
    ExplainerError for a name that no run has, with similar names, and NothingSelected if no value is left.
    """
    selection = selection or Selection()
    runs, specs, columns = _select(runs, selection)
    by_axes = {(axes_of(column, spec)): (column, column.cells[spec]) for column in columns for spec in column.cells}

    def keys(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
        """Return the keys that occur on these axes, ordered axis by axis by first occurrence."""
        occurring = dict.fromkeys(tuple(key[AXES.index(axis)] for axis in axes) for key in by_axes)
        orders = [list(dict.fromkeys(key[place] for key in occurring)) for place in range(len(axes))]
        return sorted(occurring, key=lambda key: [order.index(part) for order, part in zip(orders, key, strict=True)])

    titles = _titles(runs, specs)
    of_metrics = {column.metric: column.column for column in columns}
    names = {"method": titles, "metric": {name: column.head[0] for name, column in of_metrics.items()}}

    def named(axes: Sequence[Axis], key: Sequence[str]) -> tuple[str, ...]:
        return tuple(names.get(axis, {}).get(part, part) for axis, part in zip(axes, key, strict=True))

    column_keys = keys(selection.columns)
    metrics = [key[selection.columns.index("metric")] for key in column_keys]
    table_columns = [
        replace(of_metrics[metric], head=named(selection.columns, key)) for metric, key in zip(metrics, column_keys, strict=True)
    ]
    rows = []
    for row_key in keys(selection.rows):
        cells = []
        for column_key in column_keys:
            at = dict(zip((*selection.rows, *selection.columns), (*row_key, *column_key), strict=True))
            known = by_axes.get((at["method"], at["model"], at["dataset"], at["metric"]))
            cells.append(Cell(value=None, note=_NOT_MEASURED_NOTE) if known is None else known[1])
        spec = row_key[selection.rows.index("method")] if "method" in selection.rows else ""
        rows.append(Row(" · ".join(named(selection.rows, row_key)), spec, tuple(cells)))
    notes = _notes(columns)
    if selection.rows == ("method",):
        ranked, rank_cells, rank_notes = _rank_columns(columns, list(specs), len(selection.columns))
        order = _best_first(columns, specs)
        mean_ranks = {spec: cell.value for spec, cell in (rank_cells[0] if rank_cells else {}).items() if cell.value is not None}
        rows = sorted(rows, key=lambda row: (mean_ranks.get(row.spec, math.inf), order.index(row.spec)))
        rows = [replace(row, cells=(*row.cells, *(cells[row.spec] for cells in rank_cells))) for row in rows]
        table_columns, notes = [*table_columns, *ranked], [*notes, *rank_notes]
    return Table(
        title=title,
        notes=tuple(notes),
        columns=tuple(table_columns),
        rows=tuple(rows),
        rows_are=" · ".join(_TITLES[axis] for axis in selection.rows),
        levels=tuple(_TITLES[axis] for axis in selection.columns),
    )


def pairs_over_runs(runs: Sequence[NamedReport], selection: Selection | None = None, title: str = "Pairs of methods") -> Table:
    """Return a table of p values of the hypothesis that two of the selected methods are alike, for every pair and each metric of each of
    ``runs``. ``selection`` chooses methods, metrics and runs, ``title`` is that of the table.

    The p values have Holm's correction for all pairs. Raises ExplainerError as :func:`table_over_runs` does.
    """
    selection = selection or Selection()
    runs, specs, columns = _select(runs, selection)
    pairs, titles = list(combinations(specs, 2)), _titles(runs, specs)
    reports = {(run.report["plan"]["model"], dataset): run.report for run, dataset in zip(runs, dataset_titles(runs), strict=True)}
    compared = [column for column in columns if column.metric in reports[column.model, column.dataset]["apart"]]
    cells: list[list[Cell]] = []
    for column in compared:
        report = reports[column.model, column.dataset]
        place = {method["spec"]: i for i, method in enumerate(report["methods"])}
        p_values = [report["apart"][column.metric][place[a]][place[b]] if a in place and b in place else None for a, b in pairs]
        adjusted = holm(np.array(p_values, np.float64))
        missing = Cell(value=None, note="One of the two methods has no value here, so they are not compared.")
        cells.append([missing if np.isnan(p) else Cell(value=float(p)) for p in adjusted])
    return Table(
        title=title,
        notes=(
            f"The p of the paired bootstrap that two methods are alike, with Holm's correction for the {len(pairs)} pairs of a column. "
            "Many pairs make every p large: name the methods that are to be compared. Pairs that no run measured are left out.",
        ),
        columns=tuple(Column((column.model, column.dataset, column.column.head[0])) for column in compared),
        rows=tuple(Row(f"{titles[a]} and {titles[b]}", f"{a} {b}", tuple(column[i] for column in cells)) for i, (a, b) in enumerate(pairs)),
        rows_are="pair of methods",
    )


def axes_of(column: MeasuredColumn, spec: str) -> tuple[str, str, str, str]:
    """Return the spec, model, data set and metric of the figure of method ``spec`` in ``column``: its place on each of :data:`AXES`."""
    return spec, column.model, column.dataset, column.metric


def _select(runs: Sequence[NamedReport], selection: Selection) -> tuple[list[NamedReport], dict[str, str], list[MeasuredColumn]]:
    """Return what ``selection`` chooses from ``runs``: the reports, their methods (spec -> title as in the reports), and their columns.
    Raises NothingSelected if no column is left.
    """
    titles = {method["spec"]: method["title"] for run in runs for method in run.report["methods"]}
    measured = [metric["name"] for run in runs for metric in run.report["metrics"]]
    models = _check_known(selection.models, [run.report["plan"]["model"] for run in runs], "model")
    datasets = _check_known(selection.datasets, [run.report["plan"]["dataset"] for run in runs], "data set")
    runs = [run for run in runs if run.report["plan"]["model"] in models and run.report["plan"]["dataset"] in datasets]
    plain = [name for name in selection.methods or () if "*" not in name]
    named_specs = titles if selection.methods is None else _check_known(plain, list(titles), "method")
    patterns = [name for name in selection.methods or () if "*" in name]
    families = _check_known(selection.method_families, [family_of(spec) for spec in titles], "family of methods")
    specs = {
        spec: title
        for spec, title in titles.items()
        if (spec in named_specs or any(fnmatchcase(spec, pattern) for pattern in patterns)) and family_of(spec) in families
    }
    names = _check_known(selection.metrics, [*measured, *COSTS, CONSERVATION_BY_BLOCK, *METRIC_FAMILIES, COST_FAMILY], "metric")

    def is_wanted(metric: str, family: str) -> bool:
        if selection.metrics is None:
            return metric != CONSERVATION_BY_BLOCK
        return metric in names or (family in names and metric != CONSERVATION_BY_BLOCK)

    columns = [column for column in measured_columns(runs, is_wanted, specs) if column.cells]
    if not columns:
        raise NothingSelected("No run measured any of these methods by any of these metrics: select less at once.")
    order = list(selection.metrics or ())  # as they are named, or as runs have them
    columns.sort(key=lambda column: order.index(column.metric) if column.metric in order else len(order))
    return runs, {spec: title for spec, title in specs.items() if any(spec in column.cells for column in columns)}, columns


def _check_known(wanted: Sequence[str] | None, known: Sequence[str], what: str) -> Collection[str]:
    """Return the ``wanted`` names, or all ``known`` ones if that is None. Raises ExplainerError, with similar names, for one that no run
    has; ``what`` is the word for such names.
    """
    if wanted is None:
        return set(known)
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, dict.fromkeys(known), n=3)
            there_are = ", ".join(dict.fromkeys(known))
            raise ExplainerError(f"No run has the {what} {name!r}: " + (f"did you mean {', '.join(near)}?" if near else f"{there_are}."))
    return wanted


def _titles(runs: Sequence[NamedReport], specs: dict[str, str]) -> dict[str, str]:
    """Return a title for each method of ``runs`` in ``specs`` (spec -> title), with its spec where another has the same title."""
    titles = list(specs.values())
    return {spec: f"{title} ({spec})" if titles.count(title) > 1 else title for spec, title in specs.items()}


def _notes(columns: Sequence[MeasuredColumn]) -> list[str]:
    cells = [cell for column in columns for cell in column.cells.values()]
    metrics = {column.metric for column in columns}
    notes = [_TIES_NOTE] if any(cell.best for cell in cells) else []
    notes += [
        note
        for name, note in (("seconds", _SECONDS_NOTE), ("memory", _MEMORY_NOTE), (f"{CONSERVATION_BY_BLOCK}.1", _BLOCKS_NOTE))
        if name in metrics
    ]
    notes += warn_across_models(metrics, {column.model for column in columns})
    for column in columns:
        if column.doubt is not None:
            notes.append(f"{column.column.head[0]} of {column.model} on {column.dataset}: {column.doubt}")
    return notes


def _best_first(columns: Sequence[MeasuredColumn], specs: Collection[str]) -> list[str]:
    """Return the methods ``specs`` ordered by the first metric that has a better end, best first; those without a value last.

    The order is by the share of methods that are no better, averaged over the columns of the metric.
    """
    directed = [column for column in columns if column.column.direction is not None]
    first = [column for column in directed if column.metric == directed[0].metric]  # costs come last
    places: dict[str, list[float]] = {spec: [] for spec in specs}
    for column in first:
        values = {spec: cell.value for spec, cell in column.cells.items() if cell.value is not None}
        if values:
            ranks = ranks_of(np.array(list(values.values()), np.float64), column.column.direction or "")
            for spec, rank in zip(values, ranks.tolist(), strict=True):
                places[spec].append(rank / len(values))
    return sorted(specs, key=lambda spec: float(np.mean(places[spec])) if places[spec] else 2.0)


def _rank_columns(
    columns: Sequence[MeasuredColumn], specs: list[str], levels: int
) -> tuple[list[Column], list[dict[str, Cell]], list[str]]:
    """For each metric in ``columns`` that was measured on several pairs of model and data set, return a column of mean ranks of the methods
    ``specs``, with its cells by method; and notes. ``levels`` is the number of heading rows.
    """
    heads, cells, notes = list[Column](), list[dict[str, Cell]](), list[str]()
    for metric in dict.fromkeys(column.metric for column in columns if _is_ranked(column)):
        by_setting: dict[tuple[str, str], MeasuredColumn] = {}
        for column in sorted((column for column in columns if column.metric == metric), key=lambda column: -len(column.cells)):
            by_setting.setdefault(column.setting, column)
        of_metric = list(by_setting.values())
        common = [
            spec
            for spec in specs
            if not is_control(spec) and all(spec in column.cells and column.cells[spec].value is not None for column in of_metric)
        ]
        if len(of_metric) < 2 or len(common) < 2:
            continue
        values = np.array([[column.cells[spec].value for spec in common] for column in of_metric], np.float64)
        test = compare_ranks(ranks_of(values, of_metric[0].column.direction or ""))
        title = of_metric[0].column.head[0]
        head = ("mean rank", f"{len(of_metric)} pairs of model and data set", title)
        heads.append(Column(head if levels == 3 else (*[""] * (levels - 1), f"mean rank, {title}"), "number", "lower"))
        cells.append(_rank_cells(specs, common, test))
        enough = "" if test.can_tell else " So few pairs cannot tell any two methods apart, whatever their ranks."
        notes.append(
            f"{title}: {len(common)} methods in {len(of_metric)} pairs; that all are alike has p = {test.p:.2g} (Friedman).{enough}"
        )
    return heads, cells, [*([_RANKS_NOTE] if heads else []), *notes]


def _is_ranked(column: MeasuredColumn) -> bool:
    return column.column.direction is not None and column.family != COST_FAMILY and column.metric.partition(".")[0] != CONSERVATION_BY_BLOCK


def _rank_cells(specs: Sequence[str], common: Sequence[str], test: RankTest) -> dict[str, Cell]:
    least = test.ranks.min()
    ranked = {
        spec: Cell(value=float(rank), best=bool(test.can_tell and rank == least), tied=bool(test.can_tell and is_tied))
        for spec, rank, is_tied in zip(common, test.ranks, test.tied, strict=True)
    }
    missing = Cell(value=None, note="Not ranked: it is a control, or has no value somewhere.")
    return {spec: ranked.get(spec, missing) for spec in specs}
