"""The runs of the leaderboard in one table: what is selected of them, and the same as CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import astuple
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from explainers.errors import ExplainerError
from explainers.evaluation.tables.figures import CONSERVATION_BY_BLOCK, COST_FAMILY, COSTS, NamedReport
from explainers.evaluation.tables.over_runs import Axis, NothingSelected, Selection, family_of, table_over_runs
from explainers.evaluation.tables.record import Row, Table
from explainers.evaluation.tables.writing import PrintedCell, first_upper, head_of, printed_rows, to_csv, to_latex
from explainers.methods.families import METHOD_FAMILIES
from explainers.metrics import METRIC_FAMILIES
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import file_of
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor, Who
from vitrine_server.lookup import run_reports
from vitrine_server.run_reports import RunReport
from vitrine_server.schemas.tables import RunTable, TableChoices
from vitrine_server.services import Services, Use

router = APIRouter(prefix="/api/leaderboard", tags=["leaderboard"], route_class=BodyRoute)

TITLE = "Methods over runs"
#: Runs of fewer inputs are trials, by which methods are not ranked.
MIN_INPUTS = 5
MAX_NAMES = 100  # of models, of data sets, of metrics or of families in one selection
_BYTES_OF_CELL = 200  # of a table in memory, measured
_AXES: dict[str, tuple[tuple[Axis, ...], tuple[Axis, ...]]] = {
    "methods": (("method",), ("model", "dataset", "metric")),
    "settings": (("model", "dataset"), ("metric", "method")),
}


def _selection(
    model: Annotated[list[str] | None, Query(max_length=MAX_NAMES, description="Names of models; without any, all.")] = None,
    dataset: Annotated[list[str] | None, Query(max_length=MAX_NAMES, description="Names of data sets; without any, all.")] = None,
    metric: Annotated[
        list[str] | None,
        Query(
            max_length=MAX_NAMES,
            description="Names of metrics or families of them; seconds, memory, conservation_by_block. Without any, all but blocks.",
        ),
    ] = None,
    family: Annotated[list[str] | None, Query(max_length=MAX_NAMES, description="Families of methods; without any, all.")] = None,
    rows: Annotated[Literal["methods", "settings"], Query(description="What the rows are: methods, or models and data sets.")] = "methods",
) -> Selection:
    def several(names: list[str] | None) -> tuple[str, ...] | None:
        """Return the ``names`` of a parameter each once and sorted, None if there are none; only the order of metrics has a meaning."""
        return tuple(sorted(set(names))) if names else None

    of_rows, of_columns = _AXES[rows]
    return Selection(
        models=several(model),
        datasets=several(dataset),
        metrics=tuple(dict.fromkeys(metric)) if metric else None,
        method_families=several(family),
        rows=of_rows,
        columns=of_columns,
    )


Selected = Annotated[Selection, Depends(_selection)]


def _runs(services: Services, visitor: Visitor) -> list[RunReport]:
    """Return the reports of all runs that the ``visitor`` may see, except trials, which have few inputs."""
    runs, _ = run_reports(visitor, services)
    return [run for run in runs if run.report["inputs"] >= MIN_INPUTS]


def _table(runs: list[RunReport], selection: Selection, services: Services) -> Table:
    """Return the table of ``selection`` over ``runs`` from the cache, or make it. Raises Problem 404 for names that no run has."""
    key, versions = _key("table", runs, selection), [run.version for run in runs]
    return services.kept.value(key, lambda: _make_table(_name_reports(runs), selection), _bytes_of, versions=versions)


def _name_reports(runs: list[RunReport]) -> list[NamedReport]:
    return [NamedReport(run.id, run.report) for run in runs]


def _key(what: str, runs: list[RunReport], selection: Selection, *more: Hashable) -> Hashable:
    return (what, astuple(selection), tuple(run.id for run in runs), *more)


def _bytes_of(table: Table) -> int:
    """Estimate the bytes that ``table`` takes in memory, from its number of cells."""
    return _BYTES_OF_CELL * sum(len(row.cells) for row in table.rows)


def _make_table(runs: list[NamedReport], selection: Selection) -> Table:
    """Make the table of ``selection`` over ``runs``; it has no rows if nothing is left. Raises Problem 404 for names that no run has."""
    try:
        return table_over_runs(runs, selection, TITLE)
    except NothingSelected as problem:
        return Table(TITLE, (str(problem),), (), ())
    except ExplainerError as problem:
        raise Problem(404, "no-such-table", str(problem), send="GET /api/leaderboard/choices lists what exists.") from None


@router.get("/table", response_model=RunTable)
async def table(
    request: Request,
    selection: Selected,
    services: Use,
    visitor: Who,
    offset: Annotated[int, Query(ge=0, le=1_000_000, description="How many rows to leave out before the first.")] = 0,
    limit: Annotated[int | None, Query(ge=1, le=1_000_000, description="How many rows to send at most; without it, all.")] = None,
) -> Response:
    """Return the selected runs of five inputs or more in one table: each figure as it is printed and as a number, its interval, and whether
    it is the best of its run or ties with it; mean ranks over models and data sets if methods are the rows. The whole table is large: with
    ``limit``, and ``offset`` for the next part, it comes in parts, each with all heads and notes; ``row_count`` is the number of rows of
    the whole.
    """

    def find() -> tuple[list[RunReport], Table]:
        runs = _runs(services, visitor)
        return runs, _table(runs, selection, services)

    runs, whole = await services.kept.in_thread(find)
    count = len(whole.rows)
    begin = min(offset, count)  # two that ask for the same rows get the same answer
    end = count if limit is None else min(begin + limit, count)
    key, versions = _key("part", runs, selection, begin, end), [run.version for run in runs]
    return await services.kept.answer(request, key, lambda: _document(whole, begin, end), versions=versions)


@router.get("/choices", response_model=TableChoices)
def choices(services: Use, visitor: Who) -> DocumentResponse:
    """List the models, data sets, metrics and families that can be selected for the table."""
    return DocumentResponse(_choices(_name_reports(_runs(services, visitor))))


@router.get("/table.csv", response_class=Response, responses=file_of("text/csv"))
def csv(selection: Selected, services: Use, visitor: Who) -> Response:
    """Return the table of the selected runs, methods and metrics as CSV, one line for each cell, with all digits."""
    return _file(to_csv(_table(_runs(services, visitor), selection, services)), "text/csv", "csv")


@router.get("/table.tex", response_class=Response, responses=file_of("application/x-tex"))
def latex(selection: Selected, services: Use, visitor: Who) -> Response:
    """Return the table of the selected runs, methods and metrics as LaTeX for the package booktabs."""
    return _file(to_latex(_table(_runs(services, visitor), selection, services)), "application/x-tex", "tex")


def _file(text: str, media_type: str, ending: str) -> Response:
    disposition = {"Content-Disposition": f'attachment; filename="vitrine-table.{ending}"'}
    return Response(text.encode("utf-8"), media_type=media_type, headers=disposition)


def _document(made: Table, begin: int, end: int) -> dict[str, Any]:
    levels = range(len(made.levels) - 1)
    return {
        "title": made.title,
        "rows_are": first_upper(made.rows_are),
        "upper_heads": [[{"head": head, "columns": count} for head, count in made.spans(level)] for level in levels],
        "columns": [{"head": list(column.head), "printed": head_of(column), "direction": column.direction} for column in made.columns],
        "row_count": len(made.rows),
        "rows": list(islice(_rows(made), begin, end)),
        "legend": list(made.legend),
        "notes": list(made.notes),
        "numbered_notes": list(made.numbered_notes),
    }


def _rows(made: Table) -> Iterator[dict[str, Any]]:
    for row, printed in zip(made.rows, printed_rows(made), strict=True):
        yield {"title": row.title, "spec": row.spec, "cells": list(_cells(row, printed))}


def _cells(row: Row, printed: list[PrintedCell]) -> Iterator[dict[str, Any]]:
    for cell, words in zip(row.cells, printed, strict=True):
        yield {
            "value": cell.value,
            "printed": words.value,
            "spread": words.spread,
            "count": words.count,
            "note": words.note,
            "best": words.is_best,
            "star": words.has_star,
        }


def _choices(runs: list[NamedReport]) -> dict[str, Any]:
    """List the models, data sets, metrics and families that ``runs`` have, as JSON: what can be selected for a table."""
    reports = [run.report for run in runs]
    measured = {metric["name"]: metric for report in reports for metric in report["metrics"]}
    metrics = [{"name": name, "title": metric["title"], "family": metric.get("family") or ""} for name, metric in measured.items()]
    if any(report.get("blocks") for report in reports):
        metrics.append({"name": CONSERVATION_BY_BLOCK, "title": "Conservation error by block", "family": "completeness"})
    if any(report.get("costs") for report in reports):
        metrics += [{"name": name, "title": title, "family": COST_FAMILY} for name, (title, _) in COSTS.items()]
    of_metrics = [*METRIC_FAMILIES.items(), (COST_FAMILY, "What does a map cost?")]
    of_methods = {family_of(method["spec"]) for report in reports for method in report["methods"]}
    return {
        "models": list(dict.fromkeys(report["plan"]["model"] for report in reports)),
        "datasets": [{"name": name, "title": title} for name, title in _datasets(runs).items()],
        "metrics": metrics,
        "metric_families": [
            {"name": name, "title": title} for name, title in of_metrics if any(metric["family"] == name for metric in metrics)
        ],
        "method_families": [{"name": name, "title": known.title} for name, known in METHOD_FAMILIES.items() if name in of_methods],
    }


def _datasets(runs: list[NamedReport]) -> dict[str, str]:
    return {run.report["plan"]["dataset"]: run.report["dataset"]["title"] for run in runs}
