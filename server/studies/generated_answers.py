"""Studies of an answer that a model wrote."""

from __future__ import annotations

from typing import Any

import explainers
from explainers.analysis.answer_table import TABLE_METHOD
from explainers.models.inputs.types import Prepared
from explainers.records.input_json import input_from_json
from server.studies.study import Subject


def token_maps(subject: Subject) -> dict[str, Any]:
    """Where in the picture each token of the answer was (TAM), of the answer as it was written."""
    activation = explainers.token_activation_maps(subject.loaded, _written(subject))
    answer = activation.to_json()
    subject.notes.extend(answer.pop("notes"))
    return {**answer, "grid": list(activation.maps.shape[1:]), "maps": activation.maps.flatten(1).tolist()}


def answer_table(subject: Subject, method: str | None) -> dict[str, Any]:
    """What each word of the prompt did for each word of the answer, which is kept as it was written."""
    table = explainers.answer_table(subject.loaded, _written(subject), method or TABLE_METHOD, cancelled=subject.cancelled).to_json()
    subject.notes.extend(table.pop("notes"))
    return {name: value for name, value in table.items() if name not in ("model", "prompt")}


def _written(subject: Subject) -> Prepared:
    """The prompt with the answer that was written."""
    return Prepared(subject.tensors, (input_from_json(subject.document["input"]),), ((),))
