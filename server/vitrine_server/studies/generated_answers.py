"""Studies of an answer that a model wrote."""

from __future__ import annotations

from typing import Any

from pydantic import Field

import explainers
from explainers.analysis.answer_table import TABLE_METHOD
from explainers.analysis.answer_table import AnswerTable as Table
from explainers.analysis.prior_or_pixels import PriorOrPixels as Shares
from explainers.analysis.token_activation import TokenActivationMaps
from explainers.json_records import schema_of
from explainers.models.inputs.types import Prepared
from explainers.records.input_json import input_from_json
from vitrine_server.jobs.queue.study import FEW_PASSES
from vitrine_server.schemas.base import Grid, Schema
from vitrine_server.schemas.studies import Study
from vitrine_server.studies.registry import study
from vitrine_server.studies.subject import Subject


class TokenMapsRequest(Schema):
    """Empty: there are no options."""


class MapsOnGrid(Study):
    """Maps of the tokens of an answer, and the rows and columns of the picture's grid on which they lie."""

    grid: Grid
    maps: list[list[float]] = Field(description="Of each token, a number from 0 to 1 for each patch, in raster order.")


TokenMaps = schema_of(TokenActivationMaps, base=MapsOnGrid)


@study("/api/explanations/{id}/token-maps", form=TokenMapsRequest, answer=TokenMaps, cost="token maps")
def token_maps(subject: Subject, wanted: TokenMapsRequest) -> dict[str, Any]:
    """Return a map of each token of a vision-language model's answer over the picture, from the logits of one forward pass (TAM). The
    answer is that of the explanation, or the one that the model writes.
    """
    activation = explainers.token_activation_maps(subject.loaded, _prompt_with_answer(subject))
    answer = activation.to_json()
    subject.notes.extend(answer.pop("notes"))
    return {**answer, "grid": list(activation.maps.shape[1:]), "maps": activation.maps.flatten(1).tolist()}


class AnswerTableRequest(Schema):
    """The method by whose maps to make the table of an answer."""

    method: str | None = Field(None, max_length=1000, description="A spec, whose maps are the rows; none: input_x_gradient:attnlrp.")


AnswerTable = schema_of(Table, base=Study, without=("model", "prompt"))


@study("/api/explanations/{id}/answer-table", form=AnswerTableRequest, answer=AnswerTable, cost="answer table", weight=FEW_PASSES)
def answer_table(subject: Subject, wanted: AnswerTableRequest) -> dict[str, Any]:
    """Return how much each word of the prompt counted for each word of a language model's answer: one forward pass, and a map for each word
    of the answer, by the method that is named.
    """
    table = explainers.answer_table(
        subject.loaded, _prompt_with_answer(subject), wanted.method or TABLE_METHOD, cancelled=subject.cancelled
    ).to_json()
    subject.notes.extend(table.pop("notes"))
    return {name: value for name, value in table.items() if name not in ("model", "prompt")}


class PriorOrPixelsRequest(Schema):
    """Empty: there are no options."""


PriorOrPixels = schema_of(Shares, base=Study, without=("model", "prompt"))


@study("/api/explanations/{id}/prior-or-pixels", form=PriorOrPixelsRequest, answer=PriorOrPixels, cost="prior or pixels", weight=FEW_PASSES)
def prior_or_pixels(subject: Subject, wanted: PriorOrPixelsRequest) -> dict[str, Any]:
    """Return how much of the logit of each word of a vision-language model's answer came from the picture, the prompt, what was written
    before it, and constants; and the same with the picture painted grey.
    """
    shares = explainers.prior_or_pixels(subject.loaded, _prompt_with_answer(subject), cancelled=subject.cancelled).to_json()
    subject.notes.extend(shares.pop("notes"))
    return {name: value for name, value in shares.items() if name not in ("model", "prompt")}


def _prompt_with_answer(subject: Subject) -> Prepared:
    """Return the stored input of ``subject``, the explanation under study: the prompt followed by the answer that the model wrote."""
    return Prepared(subject.tensors, (input_from_json(subject.document["input"]),), ((),))
