"""Routes for the results of runs of ``vitrine evaluate``, and the examples behind a figure."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from explainers.evaluation.examples import draw_example, unpack_scores
from vitrine_server.earned_claims import earned_claims
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import file_of
from vitrine_server.http.problems import Problem, suggestion
from vitrine_server.http.visitors import Visitor, Who
from vitrine_server.lookup import read_runs, run_reports
from vitrine_server.method_ranking import REFERENCE_MODELS, MethodRanking, ranking_for, ranking_of_run
from vitrine_server.metric_truth import metric_truth, truth_of
from vitrine_server.run_reports import RunReport
from vitrine_server.run_sentences import RunSummary, sentences, summarize
from vitrine_server.schemas.base import Schema
from vitrine_server.schemas.leaderboard import Examples, MetricTruth, RunClaims
from vitrine_server.schemas.leaderboard import RunReport as ReportSchema
from vitrine_server.services import Services, Use
from vitrine_server.verdicts import verdict_in_words

router = APIRouter(prefix="/api/leaderboard", tags=["leaderboard"], route_class=BodyRoute)


class Rankings(Schema):
    """For each kind of input, the ranking of methods in the run that ships, summed up in sentences."""

    rankings: dict[str, RunSummary] = Field(description="By the kind of input; empty where no run ships.")


class Leaderboard(Schema):
    """All runs with their results, and the test of metrics against the truth."""

    runs: list[ReportSchema]
    truth: MetricTruth | None = Field(description="Null where no comparison ships.")
    claims: list[RunClaims] = Field(description="How often methods earned a claim, in the runs that measured it.")
    problems: list[str] = Field(description="Which of the folders cannot be read.")


def find_run_report(run_id: str, services: Services, visitor: Visitor) -> RunReport:
    """Return the report of the run with this id, if ``visitor`` may see it. Raises Problem 404 if there is none."""
    runs, _ = run_reports(visitor, services)
    for run in runs:
        if run.id == run_id:
            return run
    known = [run.id for run in runs]
    raise Problem(
        404, "no-such-run", f"There is no run {run_id!r}.", send=f"{suggestion(run_id, known)}GET /api/leaderboard lists the runs."
    )


@router.get("", response_model=Leaderboard)
async def leaderboard(request: Request, services: Use, visitor: Who) -> Response:
    """Return every run: what it measured, and for each method and metric the value, its standard error, its interval, and whether it ties
    with the best; ``sentences`` sum a run up. The runs by which the pages rank methods come first. ``truth`` says which metrics agree with
    known truth; ``claims`` how often methods earned a claim; ``problems`` lists the folders that cannot be read.
    """
    runs, problems = await read_runs(visitor, services)
    key = ("leaderboard", tuple((run.id, run.shows_inputs) for run in runs), tuple(problems))
    return await services.kept.answer(request, key, lambda: _document(runs, problems), versions=[run.version for run in runs])


def _references() -> dict[str, MethodRanking]:
    """Return the ranking from the run that ships for each kind of input."""
    return {kind: reference for kind in REFERENCE_MODELS if (reference := ranking_for(kind)) is not None}


@router.get("/rankings", response_model=Rankings)
async def rankings(request: Request, services: Use) -> Response:
    """Return for each kind of input which methods to trust, by the run that ships: every method with its rank, its value by the metric that
    decides and its interval, the value of a map of random numbers, and what they mean in three sentences.
    """
    references = _references()
    versions = [reference.run.version for reference in references.values()]
    return await services.kept.answer(request, ("rankings",), lambda: _rankings(references), versions=versions)


def _rankings(references: dict[str, MethodRanking]) -> dict[str, Any]:
    return {"rankings": {kind: summarize(verdict_in_words(reference)).to_json() for kind, reference in references.items()}}


def _document(runs: list[RunReport], problems: list[str]) -> dict[str, Any]:
    """Return the answer of the leaderboard as JSON: the runs, the truth and the problems."""
    ranking = [reference.run.id for reference in _references().values()]
    runs = sorted(runs, key=lambda run: ranking.index(run.id) if run.shipped and run.id in ranking else len(ranking))
    truth, claims = metric_truth(), [each.to_json() for each in earned_claims(runs)]

    def run_document(run: RunReport) -> dict[str, Any]:
        document, ranking = run.to_json(), ranking_of_run(run)
        said = sentences(None if ranking is None else verdict_in_words(ranking))
        metrics = [{**metric, **truth_of(truth, metric["name"], document["kind"])} for metric in document["metrics"]]
        decides = {"ranked_by": None, "why": None} if ranking is None else {"ranked_by": ranking.metric["name"], "why": ranking.why}
        return {**document, "metrics": metrics, "sentences": said, **decides}

    return {"runs": [run_document(run) for run in runs], "truth": truth, "claims": claims, "problems": problems}


@router.get("/{id}/examples", response_model=Examples)
def examples(id: str, metric: str, method: str, services: Use, visitor: Who) -> DocumentResponse:  # noqa: A002  (the name in the address)
    """Return the inputs on which ``method`` did best and worst by ``metric`` in the run with this id: name, explained class, value, and its
    map as a picture (``image``), or the words of the text with their scores from -1 to 1.
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
    """Return the map of ``method`` on an example of the run with this id, the one at ``place``, as a PNG."""
    run = find_run_report(id, services, visitor)
    signed = {row["spec"]: row["signed"] for row in run.report["methods"]}
    try:
        return Response(draw_example(run.examples(), method, place, signed[method]), media_type="image/png")
    except KeyError:
        raise Problem(
            404, "no-such-example", f"The run {id} has no picture of {method} at {place}.", send="GET its examples first."
        ) from None
