"""What runs of ``vitrine evaluate`` found, and the examples behind a figure."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import Response

from explainers.evaluation.examples import draw_example, unpack_scores
from server.http.answers import DocumentResponse
from server.http.bodies import BodyRoute
from server.http.openapi import file_of
from server.http.problems import Problem, suggestion
from server.http.visitors import Visitor, Who
from server.lookup import run_reports
from server.method_ranking import REFERENCE_MODELS, ranking_for
from server.metric_truth import metric_truth, truth_of
from server.run_reports import RunReport
from server.schemas.leaderboard import Examples, Leaderboard
from server.services import Services, Use
from server.verdicts import verdict_in_words

router = APIRouter(prefix="/api/leaderboard", tags=["leaderboard"], route_class=BodyRoute)


def find_run_report(run_id: str, services: Services, visitor: Visitor) -> RunReport:
    """The run of this id."""
    runs, _ = run_reports(visitor, services)
    for run in runs:
        if run.id == run_id:
            return run
    known = [run.id for run in runs]
    raise Problem(
        404, "no-such-run", f"There is no run {run_id!r}.", send=f"{suggestion(run_id, known)}GET /api/leaderboard lists the runs."
    )


@router.get("", response_model=Leaderboard)
def leaderboard(services: Use, visitor: Who) -> DocumentResponse:
    """Every run: what it measured, and of each method and metric the value, its standard error, its interval, and whether it cannot be
    told from the best. Those come first by which methods are ranked on the pages, of photos before all. ``rankings`` says in words, by the
    kind of input, what those runs found; ``truth`` which metrics put methods in the order of the truth, where that is known; ``problems``
    which of the folders cannot be read.
    """
    runs, problems = run_reports(visitor, services)
    references = {kind: reference for kind in REFERENCE_MODELS if (reference := ranking_for(kind)) is not None}
    ranking = [reference.run.id for reference in references.values()]
    runs.sort(key=lambda run: ranking.index(run.id) if run.shipped and run.id in ranking else len(ranking))
    rankings = {kind: verdict_in_words(reference) for kind, reference in references.items()}
    truth = metric_truth()

    def with_truth(run: dict[str, Any]) -> dict[str, Any]:
        return {**run, "metrics": [{**metric, **truth_of(truth, metric["name"], run["kind"])} for metric in run["metrics"]]}

    documents = [with_truth(run.to_json()) for run in runs]
    return DocumentResponse({"runs": documents, "truth": truth, "rankings": rankings, "problems": problems})


@router.get("/{id}/examples", response_model=Examples)
def examples(id: str, metric: str, method: str, services: Use, visitor: Who) -> DocumentResponse:  # noqa: A002  (the name in the address)
    """The inputs on which a method did best and worst by a metric: name, explained class, value, and its map as a picture (``image``), or
    the words of the text with their scores from -1 to 1.
    """
    run = find_run_report(id, services, visitor)
    stored = run.examples()
    ends = stored["chosen"].get(metric, {}).get(method)
    if ends is None:
        raise Problem(
            404, "no-such-figure", f"The run {id} has no {metric} of {method}.", send=f"GET /api/leaderboard lists what {id} has."
        )

    def case(place: int, value: float) -> dict[str, Any]:
        shown = stored["inputs"][str(place)]
        about = {"place": place, "name": shown["name"], "target": shown["target"], "value": value}
        if "words" not in shown:
            image = f"/api/leaderboard/{id}/map.png?method={quote(method, safe='')}&place={place}"
            return {**about, "image": services.settings.address(image)}
        scores = unpack_scores(stored["maps"][method][str(place)]).tolist()
        return {**about, "words": [{"text": text, "score": score} for text, score in zip(shown["words"], scores, strict=True)]}

    return DocumentResponse({"metric": metric, "method": method, **{end: [case(*pair) for pair in cases] for end, cases in ends.items()}})


@router.get("/{id}/map.png", response_class=Response, responses=file_of("image/png"))
def picture(id: str, method: str, place: int, services: Use, visitor: Who) -> Response:  # noqa: A002  (the name in the address)
    """The map of a method on one of the examples of a run, as a picture."""
    run = find_run_report(id, services, visitor)
    signed = {row["spec"]: row["signed"] for row in run.report["methods"]}
    try:
        return Response(draw_example(run.examples(), method, place, signed[method]), media_type="image/png")
    except KeyError:
        raise Problem(
            404, "no-such-example", f"The run {id} has no picture of {method} at {place}.", send="GET its examples first."
        ) from None
