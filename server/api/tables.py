"""The runs of the leaderboard in one table: what is selected of them, and the same as CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from explainers.errors import ExplainerError
from explainers.evaluation.tables.figures import BY_BLOCK, COST_FAMILY, COSTS, NamedReport
from explainers.evaluation.tables.over_runs import Axis, NothingSelected, Selection, family_of, table_over_runs
from explainers.evaluation.tables.record import Row, Table
from explainers.evaluation.tables.writing import PrintedCell, first_upper, head_of, printed_rows, to_csv, to_latex
from explainers.methods.families import METHOD_FAMILIES
from explainers.metrics import METRIC_FAMILIES
from server.http.answers import DocumentResponse
from server.http.bodies import BodyRoute
from server.http.openapi import file_of
from server.http.problems import Problem
from server.http.visitors import Visitor, Who
from server.lookup import run_reports
from server.schemas.tables import RunTable, TableChoices
from server.services import Services, Use

router = APIRouter(prefix="/api/leaderboard", tags=["leaderboard"], route_class=BodyRoute)

TITLE = "Methods over runs"
#: Runs of fewer inputs are trials: nobody is ranked by them.
FEW = 5
_AXES: dict[str, tuple[tuple[Axis, ...], tuple[Axis, ...]]] = {
    "methods": (("method",), ("model", "dataset", "metric")),
    "settings": (("model", "dataset"), ("metric", "method")),
}


def _selection(
    model: Annotated[list[str] | None, Query(description="Names of models; without any, all.")] = None,
    dataset: Annotated[list[str] | None, Query(description="Names of data sets; without any, all.")] = None,
    metric: Annotated[
        list[str] | None,
        Query(description="Names of metrics or families of them; seconds, memory, conservation_by_block. Without any, all but blocks."),
    ] = None,
    family: Annotated[list[str] | None, Query(description="Families of methods; without any, all.")] = None,
    rows: Annotated[Literal["methods", "settings"], Query(description="What the rows are: methods, or models and data sets.")] = "methods",
) -> Selection:
    def several(names: list[str] | None) -> tuple[str, ...] | None:
        return tuple(names) if names else None

    of_rows, of_columns = _AXES[rows]
    return Selection(
        models=several(model),
        datasets=several(dataset),
        metrics=several(metric),
        method_families=several(family),
        rows=of_rows,
        columns=of_columns,
    )


Selected = Annotated[Selection, Depends(_selection)]


def _runs(services: Services, visitor: Visitor) -> list[NamedReport]:
    """All runs but trials."""
    runs, _ = run_reports(visitor, services)
    return [NamedReport(run.id, run.report) for run in runs if run.report["inputs"] >= FEW]


def _table(runs: list[NamedReport], selection: Selection) -> Table:
    """Without rows where nothing is left. Raises Problem 404 for what no run has."""
    try:
        return table_over_runs(runs, selection, TITLE)
    except NothingSelected as problem:
        return Table(TITLE, (str(problem),), (), ())
    except ExplainerError as problem:
        raise Problem(404, "no-such-table", str(problem), send="GET /api/leaderboard/choices lists what there is.") from None


@router.get("/table", response_model=RunTable)
def table(selection: Selected, services: Use, visitor: Who) -> DocumentResponse:
    """The runs of five inputs or more in one table: each figure as it is printed and as a number, its interval, whether it is the best of
    its run or cannot be told from it; mean ranks over models and data sets where methods are the rows.
    """
    return DocumentResponse(_document(_table(_runs(services, visitor), selection)))


@router.get("/choices", response_model=TableChoices)
def choices(services: Use, visitor: Who) -> DocumentResponse:
    """What can be selected for the table."""
    return DocumentResponse(_choices(_runs(services, visitor)))


@router.get("/table.csv", response_class=Response, responses=file_of("text/csv"))
def csv(selection: Selected, services: Use, visitor: Who) -> Response:
    """The same, a line a cell, with all digits."""
    return _file(to_csv(_table(_runs(services, visitor), selection)), "text/csv", "csv")


@router.get("/table.tex", response_class=Response, responses=file_of("application/x-tex"))
def latex(selection: Selected, services: Use, visitor: Who) -> Response:
    """The same for the LaTeX package booktabs."""
    return _file(to_latex(_table(_runs(services, visitor), selection)), "application/x-tex", "tex")


def _file(text: str, media_type: str, ending: str) -> Response:
    disposition = {"Content-Disposition": f'attachment; filename="vitrine-table.{ending}"'}
    return Response(text.encode("utf-8"), media_type=media_type, headers=disposition)


def _document(made: Table) -> dict[str, Any]:
    levels = range(len(made.levels) - 1)
    return {
        "title": made.title,
        "rows_are": first_upper(made.rows_are),
        "upper_heads": [[{"head": head, "columns": count} for head, count in made.spans(level)] for level in levels],
        "columns": [{"head": list(column.head), "printed": head_of(column), "direction": column.direction} for column in made.columns],
        "rows": list(_rows(made)),
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
    """What can be selected of these runs."""
    reports = [run.report for run in runs]
    measured = {metric["name"]: metric for report in reports for metric in report["metrics"]}
    metrics = [{"name": name, "title": metric["title"], "family": metric.get("family") or ""} for name, metric in measured.items()]
    if any(report.get("blocks") for report in reports):
        metrics.append({"name": BY_BLOCK, "title": "Conservation error by block", "family": "completeness"})
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
