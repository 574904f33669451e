"""Take tokens away from a stored input and see what the model says: curves of all methods, or one answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from explainers.analysis.deletion_test import ORDERS
from server.http.bodies import TokensRoute
from server.http.problems import Problem
from server.jobs.tasks import MANY_PASSES
from server.lookup import ExplanationId
from server.services import Use
from server.studies.perturbing import FRACTIONS, Edit, deletion, edited_answer, perturbation_curves
from server.studies.study import Subject, study

router = APIRouter(prefix="/api/explanations", tags=["studies"], route_class=TokensRoute)
_MOST_TOKENS = 100_000
_Share = Annotated[float, Field(ge=0, le=1)]
_Tokens = Annotated[list[int], Field(max_length=_MOST_TOKENS)]


class Perturbation(BaseModel):
    """With none of ``remove``, ``keep``, ``fraction`` and ``replace``: the curves of the methods. With one of them: one answer."""

    model_config = ConfigDict(extra="forbid")
    target: str | None = Field(None, max_length=1000, description="The label of one of the explained targets; none: the first.")
    methods: list[str] | None = Field(None, min_length=1, max_length=64, description="Curves: specs of maps of the explanation; none: all.")
    order: Literal["most", "least"] | None = Field(
        None, description="Which tokens go first: the most or the least relevant. Curves: none gives both; one answer: none is most."
    )
    fractions: list[_Share] | None = Field(
        None, min_length=2, max_length=101, description=f"Curves: shares of tokens that are gone; none: {', '.join(map(str, FRACTIONS))}."
    )
    remove: _Tokens | None = Field(None, description="One answer: the indices of the tokens to take away, as in the scores of a map.")
    keep: _Tokens | None = Field(None, description="One answer: the indices of the tokens to keep; all others are taken away.")
    method: str | None = Field(None, max_length=1000, description="One answer: the spec of the map by whose order `fraction` takes away.")
    fraction: _Share | None = Field(None, description="One answer: the share of tokens to take away, first of the order of `method`.")
    replace: dict[int, Annotated[str, Field(max_length=200)]] | None = Field(
        None, min_length=1, max_length=1000, description="One answer, texts: words in place of others, by their index in input.words."
    )
    how: Literal["removed", "painted"] | None = Field(
        None,
        description="One answer, images: patches are taken out (removed) or painted in the mean colour (painted); none: taken out where "
        "the model allows it.",
    )


def _edit(body: Perturbation) -> Edit | None:
    """The one answer that is asked for, or None where it is curves; raises Problem 422 for fields that do not go together."""
    which = [name for name in ("remove", "keep", "fraction") if getattr(body, name) is not None]
    if body.how is not None and (not which or body.replace is not None):
        raise Problem(422, "unclear", "how is for one answer about an image.", send="Send it with remove, keep or fraction.")
    if not which and body.replace is None:
        if body.method is not None:
            raise Problem(422, "no-fraction", "There is method without fraction.", send="Send fraction too, or methods for curves.")
        return None
    wrong = [name for name in ("methods", "fractions") if getattr(body, name) is not None]
    if len(which) > 1 or wrong:
        names = " and ".join([*which, *(["replace"] if body.replace else []), *wrong][:2] if wrong else which[:2])
        send = "Send one of remove, keep and fraction (with method), with replace if you like; or methods and fractions for curves."
        raise Problem(422, "unclear", f"{names} do not go together.", send=send)
    if (body.fraction is None) != (body.method is None):
        raise Problem(422, "unclear", "method and fraction belong together.", send="Send both, or remove or keep in their place.")
    return Edit(body.remove, body.keep, body.method, body.order or "most", body.fraction, body.replace, body.how)


@router.post("/{id}/perturbations")
async def perturb(explanation_id: ExplanationId, body: Perturbation, services: Use, request: Request) -> Any:
    """Take tokens away from the input of an explanation and ask its model again.

    Patches are dropped behind the patch embedding where the model allows it (``how``: removed), else painted in the mean colour
    (painted); word pieces are left out of the text, or of the prompt where the words of prompts were explained; special tokens stay.

    **Curves**: for each map and order the ``probability`` and the ``logit`` of the target when ``counts`` of the ``tokens`` are gone, and
    the ``area`` under the one that ``read`` names, over the share of tokens that is gone; ``random`` is the mean over several random
    orders (``seeds``); ``ranking`` goes by the gap between the areas of least and of most relevant first.

    The curves need hundreds of answers: every other question goes first, also between two passes of the model. With the header
    ``Accept: text/event-stream`` the progress is told on the way: events ``progress`` (``asked`` of ``total``), then ``done`` with the
    answer, or ``failed`` with the problem.

    **One answer**: the target's numbers and the ``top`` classes with exactly the tokens ``removed``; of an image in the way ``how``.
    """
    edit = _edit(body)

    if edit is not None:
        return await study(services, explanation_id, lambda subject: edited_answer(subject, body.target, edit), request)

    def ask(subject: Subject) -> dict[str, Any]:
        orders = ORDERS if body.order is None else (body.order,)
        return perturbation_curves(subject, body.target, body.methods, orders, body.fractions)

    return await study(services, explanation_id, ask, request, is_long=True, weight=MANY_PASSES)


class Scores(BaseModel):
    """A map that is not stored."""

    model_config = ConfigDict(extra="forbid")
    scores: list[Annotated[float, Field(allow_inf_nan=False)]] = Field(
        min_length=1, max_length=_MOST_TOKENS, description="One number a token, as many as the maps of the explanation have."
    )
    target: str | None = Field(None, max_length=2000, description="The label of one of the explained targets; none: the first.")


@router.post("/{id}/deletion")
async def score(explanation_id: ExplanationId, body: Scores, services: Use, request: Request) -> Any:
    """How well these scores name what the model needs: one number for any map, such as one that ``mix`` made.

    ``area`` is that under the target's probability (or what ``read`` names) while the tokens go most important first: the lower, the
    better. It is the number that ``perturbations`` gives a stored map with the same scores.
    """
    return await study(
        services, explanation_id, lambda subject: deletion(subject, body.target, body.scores), request, kind="deletion score"
    )
