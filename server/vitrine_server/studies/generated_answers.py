"""Studies of an answer that a model wrote."""

from __future__ import annotations

from typing import Any

import explainers
from explainers.analysis.answer_table import TABLE_METHOD
from explainers.models.inputs.types import Prepared
from explainers.records.input_json import input_from_json
from vitrine_server.studies.study import Subject


def token_maps(subject: Subject) -> dict[str, Any]:
    """Compute a map over the picture for each token of the stored answer (TAM), and return them as JSON."""
    activation = explainers.token_activation_maps(subject.loaded, _prompt_with_answer(subject))
    answer = activation.to_json()
    subject.notes.extend(answer.pop("notes"))
    return {**answer, "grid": list(activation.maps.shape[1:]), "maps": activation.maps.flatten(1).tolist()}


def answer_table(subject: Subject, method: str | None) -> dict[str, Any]:
    """Compute how much each word of the prompt counted for each word of the stored answer, and return it as JSON."""
    table = explainers.answer_table(
        subject.loaded, _prompt_with_answer(subject), method or TABLE_METHOD, cancelled=subject.cancelled
    ).to_json()
    subject.notes.extend(table.pop("notes"))
    return {name: value for name, value in table.items() if name not in ("model", "prompt")}


def _prompt_with_answer(subject: Subject) -> Prepared:
    """Return the stored input of the model: the prompt followed by the answer that the model wrote."""
    return Prepared(subject.tensors, (input_from_json(subject.document["input"]),), ((),))
