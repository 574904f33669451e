"""A record is written as JSON, and has a schema, by what it says of its fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import pytest
import torch
from pydantic import BaseModel, TypeAdapter, ValidationError
from torch import Tensor

from explainers.json_records import HIDDEN, INLINE, Record, describe, finite_or_none, inline, optional, schema_of


@dataclass(frozen=True)
class Source(Record):
    """Where it was published."""

    authors: Annotated[str, describe("Who.", key="by")]
    link: Annotated[str, HIDDEN] = ""


@dataclass(frozen=True)
class Part(Record, name="Piece"):
    """A part. A second sentence is for those who read the code."""

    place: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Answer(Record):
    """An answer."""

    source: Annotated[Source, INLINE]
    scores: Annotated[Tensor, describe("One a token.", kind=list[float])]
    parts: tuple[Part, ...] = ()
    rounding: Annotated[float | None, describe(write=finite_or_none)] = None
    label: Annotated[str | None, optional("Of the class.")] = None
    options: Annotated[Mapping[str, int], optional()] = field(default_factory=dict)

    @property
    def total(self) -> Annotated[float, describe("The sum.")]:
        """The sum of the scores."""
        return float(self.scores.sum())

    @property
    def unsaid(self) -> int:
        """Is in no document."""
        return 1


SMALL = Answer(Source("A", "x"), torch.tensor([1.0, 2.0]), (Part((1, 2)),), float("inf"))
FULL = Answer(Source("A"), torch.zeros(1), label="", options={"a": 1})


def test_a_record_is_written_with_what_it_has() -> None:
    assert SMALL.to_json() == {"by": "A", "scores": [1.0, 2.0], "parts": [{"place": [1, 2]}], "rounding": None, "total": 3.0}
    assert FULL.to_json() == {"by": "A", "scores": [0.0], "parts": [], "rounding": None, "label": "", "options": {"a": 1}, "total": 0.0}


def test_its_schema_takes_its_document_and_no_other() -> None:
    adapter = TypeAdapter(Answer)
    for record in (SMALL, FULL):
        adapter.validate_json(json.dumps(record.to_json()), strict=True)
    for wrong in ({**SMALL.to_json(), "unsaid": 1}, {**SMALL.to_json(), "label": None}, {**FULL.to_json(), "scores": ["1"]}):
        with pytest.raises(ValidationError):
            adapter.validate_json(json.dumps(wrong), strict=True)


def test_the_schema_says_what_the_fields_say() -> None:
    schema = TypeAdapter(Answer).json_schema()
    assert schema["required"] == ["by", "scores", "parts", "rounding", "total"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["by"] == {"description": "Who.", "title": "By", "type": "string"}
    assert schema["properties"]["label"] == {"description": "Of the class.", "title": "Label", "type": "string"}
    assert schema["$defs"]["Piece"]["description"] == "A part."


def test_a_schema_may_have_fields_of_another_and_lack_some() -> None:
    class Base(BaseModel):
        id: str

    assert list(schema_of(Answer, name="Other", base=Base, without=("parts", "by")).model_fields) == [
        "id",
        "scores",
        "rounding",
        "label",
        "options",
        "total",
    ]


@dataclass(frozen=True)
class Excerpt(Record):
    """A part of an answer, with remarks."""

    answer: Annotated[Answer, inline(without=("scores", "parts"))]
    remarks: Annotated[list[str] | None, optional(keep_empty=True)] = None


def test_a_record_may_hold_some_fields_of_another() -> None:
    assert Excerpt(SMALL).to_json() == {"by": "A", "rounding": None, "total": 3.0}
    assert list(schema_of(Excerpt).model_fields) == ["by", "rounding", "label", "options", "total", "remarks"]


def test_an_empty_list_may_be_kept() -> None:
    assert Excerpt(SMALL, []).to_json()["remarks"] == []
