"""What every schema has in common."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Json


class Schema(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


def absent(says: str | None = None) -> Any:
    """Make a field that is missing from the answer (not null) if there is nothing to say; ``says`` is its description."""
    return Field(default_factory=lambda: None, description=says)


Grid = tuple[int, int]  # rows, columns
Box = tuple[int, int, int, int]  # x0, y0, x1, y1


class ProblemDocument(Schema):
    """A refusal (RFC 9457): a name for machines, a title and the status, what was wrong, and what to send instead."""

    type: str = Field(description="urn:vitrine:problem: and a name for machines.")
    title: str
    status: int
    detail: str = Field(description="What was wrong.")
    send: str = absent("What to send instead.")


class ProgressData(Schema):
    """The number of inputs that the model has answered for a study so far, and their total."""

    answers: int = Field(alias="asked")
    total: int


class ExpectedData(Schema):
    """The estimated duration of a study in seconds."""

    seconds: float


class Message(Schema):
    """A server-sent event: ``event`` names it, ``data`` is JSON."""

    id: str = absent("Its place in the story, where it has one: the header Last-Event-ID takes it.")


class StudyProgress(Message):
    """An event: the model has answered another input of the study; its data is how many of how many are answered."""

    event: Literal["progress"]
    data: Json[ProgressData]


class StudyExpected(Message):
    """An event: the study begins; its data is the estimated duration in seconds, from earlier ones."""

    event: Literal["expected"]
    data: Json[ExpectedData]


class StudyFailed(Message):
    """The last event of a study that failed; its data is the problem."""

    event: Literal["failed"]
    data: Json[ProblemDocument]


StudyAnswer = TypeVar("StudyAnswer")


class StudyDone(Message, Generic[StudyAnswer]):
    """The last event of a study; its data is the answer."""

    event: Literal["done"]
    data: Json[StudyAnswer]


def study_events(answer: Any) -> Any:
    """Return the type of the events of a study whose answer has the type ``answer``."""
    return Annotated[StudyExpected | StudyProgress | StudyDone[answer] | StudyFailed, Field(discriminator="event")]
