"""Take tokens away from a stored input and see what the model says: curves of all methods, or one answer."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from explainers.analysis.deletion_test import ORDERS
from vitrine_server.http.bodies import TokensRoute
from vitrine_server.http.openapi import events_of
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.queue.study import MANY_PASSES
from vitrine_server.lookup import ExplanationId
from vitrine_server.schemas.base import study_events
from vitrine_server.schemas.studies import DeletionCurves, DeletionQuestion, DeletionScore, EditedAnswer, ScoresToTest
from vitrine_server.services import Use
from vitrine_server.studies.deletion_test import Edit, deletion_curves, deletion_score, edited_answer
from vitrine_server.studies.study import study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=TokensRoute)
_Answer = DeletionCurves | EditedAnswer
_EVENTS, _SCORE_EVENTS = events_of(study_events(_Answer)), events_of(study_events(DeletionScore))


def _edit(body: DeletionQuestion) -> Edit | None:
    """Return the edit of the input that a request asks for, or None if it asks for curves. Raises Problem 422 for fields that do not go
    together.
    """
    which = [name for name in ("remove", "keep", "fraction") if getattr(body, name) is not None]
    if body.how is not None and (not which or body.replace is not None):
        raise Problem(422, "unclear", "how is for one answer about an image.", send="Send it with remove, keep or fraction.")
    if not which and body.replace is None:
        if body.method is not None:
            raise Problem(422, "no-fraction", "method was sent without fraction.", send="Send fraction too, or methods for curves.")
        return None
    wrong = [name for name in ("methods", "fractions") if getattr(body, name) is not None]
    if len(which) > 1 or wrong:
        names = " and ".join([*which, *(["replace"] if body.replace else []), *wrong][:2] if wrong else which[:2])
        send = "Send one of remove, keep and fraction (with method), with replace if you like; or methods and fractions for curves."
        raise Problem(422, "unclear", f"{names} do not go together.", send=send)
    if (body.fraction is None) != (body.method is None):
        raise Problem(422, "unclear", "method and fraction belong together.", send="Send both, or send remove or keep instead.")
    return Edit(body.remove, body.keep, body.method, body.order or "most", body.fraction, body.replace, body.how)


@router.post("/{id}/deletion-test", response_model=_Answer, responses=_EVENTS)
async def remove_tokens(explanation_id: ExplanationId, body: DeletionQuestion, services: Use, request: Request) -> Response:
    """Remove tokens from the input of an explanation and ask its model again.

    Patches are dropped after the patch embedding if the model allows it (``how``: removed), else painted in the mean colour (painted); word
    pieces are left out of the text, or of the prompt if the words of prompts were explained; special tokens always stay.

    **Curves**: for each map and order the ``probability`` and the ``logit`` of the target after ``counts`` of the ``tokens`` were removed,
    and the ``area`` under the one named by ``read``, over the share of removed tokens; ``random`` is the mean over several random orders
    (``seeds``); ``ranking`` sorts the methods by the gap between the areas of least and of most relevant first.

    The curves need hundreds of answers of the model: every other question goes first, also between two of its passes. With the header
    ``Accept: text/event-stream`` the answer is sent as events: ``progress`` (``asked`` of ``total``), then ``done`` with the answer, or
    ``failed`` with the problem.

    **One answer**: the target's numbers and the ``top`` classes after exactly the tokens ``removed`` were removed; for an image in the way
    ``how``.
    """
    edit = _edit(body)

    if edit is not None:
        return await study(services, explanation_id, partial(edited_answer, target=body.target, edit=edit), request)

    orders = ORDERS if body.order is None else (body.order,)
    ask = partial(deletion_curves, target=body.target, methods=body.methods, orders=orders, fractions=body.fractions)
    return await study(services, explanation_id, ask, request, is_long=True, weight=MANY_PASSES)


@router.post("/{id}/deletion-test/score", response_model=DeletionScore, responses=_SCORE_EVENTS)
async def score_map(explanation_id: ExplanationId, body: ScoresToTest, services: Use, request: Request) -> Response:
    """Test how well the scores of any map, such as one made by ``mix``, find what the model needs.

    ``area`` is the area under the target's probability (or what ``read`` names) while tokens are removed most important first: the lower,
    the better. ``deletion-test`` gives the same number for a stored map with the same scores.
    """
    ask = partial(deletion_score, target=body.target, scores=body.scores)
    return await study(services, explanation_id, ask, request, kind="deletion score")
