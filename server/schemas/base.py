"""What every schema has in common."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Json


class Schema(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


def absent(says: str | None = None) -> Any:
    """A field that an answer leaves out where there is nothing to say: it is then not there, and not null."""
    return Field(default_factory=lambda: None, description=says)


OptionValue = bool | int | float | str  # of an option of a method
Grid = tuple[int, int]  # rows, columns
Box = tuple[int, int, int, int]  # x0, y0, x1, y1


class ProblemDocument(Schema):
    """A refusal (RFC 9457): what was wrong, and what to send instead."""

    type: str = Field(description="urn:vitrine:problem: and a name for machines.")
    title: str
    status: int
    detail: str = Field(description="What was wrong.")
    send: str = absent("What to send instead.")


class CitationFields(Schema):
    """Where a method or a rule was published."""

    by: str
    year: int | None
    paper: str


class ProgressData(Schema):
    """How far a study is: how many inputs of how many the model has answered."""

    answers: int = Field(alias="asked")
    total: int


class ExpectedData(Schema):
    """About how long it will take."""

    seconds: float


class Message(Schema):
    """A server-sent event: ``event`` names it, ``data`` is JSON."""

    id: str = absent("Its place in the story, where it has one: the header Last-Event-ID takes it.")


class StudyProgress(Message):
    """A study goes on."""

    event: Literal["progress"]
    data: Json[ProgressData]


class StudyExpected(Message):
    """A study begins whose like were timed before."""

    event: Literal["expected"]
    data: Json[ExpectedData]


class StudyFailed(Message):
    """A study failed."""

    event: Literal["failed"]
    data: Json[ProblemDocument]


StudyAnswer = TypeVar("StudyAnswer")


class StudyDone(Message, Generic[StudyAnswer]):
    """A study is answered."""

    event: Literal["done"]
    data: Json[StudyAnswer]


def study_events(answer: Any) -> Any:
    """The type of the events of a study with this type of answer."""
    return Annotated[StudyExpected | StudyProgress | StudyDone[answer] | StudyFailed, Field(discriminator="event")]
