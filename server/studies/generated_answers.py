"""Studies of an answer that a model wrote."""

from __future__ import annotations

from typing import Any

import explainers
from explainers.analysis.answer_table import TABLE_METHOD
from explainers.models.inputs.types import Prepared
from explainers.records.input_json import input_from_json
from server.studies.study import Subject


def answer_table(subject: Subject, method: str | None) -> dict[str, Any]:
    """What each word of the prompt did for each word of the answer, which is kept as it was written."""
    written = Prepared(subject.tensors, (input_from_json(subject.document["input"]),), ((),))
    table = explainers.answer_table(subject.loaded, written, method or TABLE_METHOD, cancelled=subject.cancelled).to_json()
    subject.notes.extend(table.pop("notes"))
    return {name: value for name, value in table.items() if name not in ("model", "prompt")}
