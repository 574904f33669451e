"""The counterfactual of a stored input over HTTP: few parts whose removal makes another class the answer."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field

from explainers.analysis import counterfactual as counterfactuals
from explainers.json_records import schema_of
from explainers.records.input_json import input_from_json
from explainers.records.result import TargetInfo
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.queue.study import MANY_PASSES
from vitrine_server.schemas.base import Schema
from vitrine_server.schemas.studies import Study
from vitrine_server.studies.deletion_test import output_of, removal_of, top_classes
from vitrine_server.studies.registry import study
from vitrine_server.studies.subject import Subject


class CounterfactualRequest(Schema):
    """The class that the answer is to become."""

    to: str = Field(min_length=1, max_length=1000, description="The label of a class, or one of the prompts, that is not the answer.")


class AnswerWithout(Study):
    """What the model says of the input without some of its parts."""

    top: list[TargetInfo] = Field(description="The largest classes without the hidden parts, the largest first.")


Counterfactual = schema_of(counterfactuals.Counterfactual, base=AnswerWithout)


@study(
    "/api/explanations/{id}/counterfactual", form=CounterfactualRequest, answer=Counterfactual, cost="counterfactual", weight=MANY_PASSES
)
def counterfactual(subject: Subject, wanted: CounterfactualRequest) -> dict[str, Any]:
    """Find few parts of the input of an explanation (patches, words or atoms) without which the model answers ``to``.

    The search is greedy: fewer parts may do it in a combination that was not tried. It takes hundreds of answers of the model. With the
    header ``Accept: text/event-stream`` the answer is sent as events, as that of the deletion test.
    """
    if "prompts" in subject.document:
        send = "Explain the picture: side=image."
        raise Problem(422, "no-answer", "The words of prompts were explained here, and a prompt has no classes.", send=send)
    output = output_of(subject, None)
    removal, shown = removal_of(subject, output.label), input_from_json(subject.document["input"])
    # the same for the same question: a reloaded page asks it too
    outcome: counterfactuals.Counterfactual = subject.model.cached(
        ("counterfactual", subject.document["id"], wanted.to),
        lambda: counterfactuals.find_counterfactual(removal, output, subject.labels, shown, wanted.to, subject.before_pass),
    )
    subject.notes.extend(outcome.notes)
    keep = torch.ones(1, removal.tokens, dtype=torch.bool)
    place = {index: i for i, index in enumerate(counterfactuals.content_indices(shown, removal.tokens))}
    keep[0, [place[index] for part in outcome.hidden for index in part]] = False
    whole, without = removal.logits(torch.cat([torch.ones_like(keep), keep]), subject.before_pass)
    top, probabilities = top_classes(output, without, subject.labels), output.probabilities(whole)
    before = {**outcome.before, **{entry["label"]: float(probabilities[entry["index"]]) for entry in top}}
    return {**outcome.to_json(), "before": before, "top": top}
