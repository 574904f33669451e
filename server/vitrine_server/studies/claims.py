"""The claim of a map over HTTP: how far the answer falls without what the map puts first, with its error, or why there is no such claim."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field

from explainers.analysis.claims import claim as claims
from explainers.analysis.claims.draws import Draws
from explainers.json_records import schema_of
from explainers.records.input_json import input_from_json
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.queue.study import MANY_PASSES
from vitrine_server.schemas.base import Schema
from vitrine_server.schemas.studies import TARGET, Study
from vitrine_server.studies.deletion_test import maps_of, output_of
from vitrine_server.studies.registry import study
from vitrine_server.studies.subject import Subject


class ClaimRequest(Schema):
    """The map whose claim is asked for."""

    method: str = Field(min_length=1, max_length=1000, description="The spec of a map of the explanation.")
    target: str | None = TARGET


MapClaim = schema_of(claims.Claim, base=Study)


@study("/api/explanations/{id}/claim", form=ClaimRequest, answer=MapClaim, cost="claim", weight=MANY_PASSES)
def claim(subject: Subject, wanted: ClaimRequest) -> dict[str, Any]:
    """Return what can be claimed of the patches, words or atoms that a map puts first, with an error of at most 5 %.

    It is the smallest set found without which the answer falls by at least 0.10 under each of several fillings, and by more than without
    95 % of the sets of equal size drawn at random. The error is over the draws of fillings and of random sets, and corrected for the number
    of maps of the explanation and of the sizes that are tried. It takes hundreds to thousands of answers of the model. With the header
    ``Accept: text/event-stream`` the answer is sent as events, as that of the deletion test.
    """
    document = subject.document
    if "prompts" in document or "windows" in document:
        raise Problem(422, "no-claim", claims.NEEDS_WHOLE_INPUT, send=claims.EXPLAIN_WHOLE_INPUT)
    output = output_of(subject, wanted.target)
    scores = maps_of(document, output.label, [wanted.method])[wanted.method]
    entry = next(entry for entry in document["maps"] if (entry["method"], entry["target"]) == (wanted.method, output.label))
    ranked = claims.RankedMap(wanted.method, output.label, scores, entry["signed"])
    shown = input_from_json(document["input"])

    def make_draws() -> Draws:
        return claims.draws_of(subject.model, subject.tensors, shown, entry.get("grid"), output)

    # all maps of an explanation share its random sets, and a reloaded page asks the same again
    draws: Draws = subject.model.cached(("claim", document["id"], output.label), make_draws)
    draws.before_pass = subject.before_pass
    looked_at = claims.count_looked_at((each["method"], each["target"]) for each in document["maps"])
    with torch.no_grad():
        outcome = claims.find_claim(draws, ranked, shown, looked_at=looked_at)
    subject.notes.extend(outcome.notes)
    return outcome.to_json()
