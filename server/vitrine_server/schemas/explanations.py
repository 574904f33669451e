"""An explanation: as it is stored and sent, its parts, and the events that tell how it is made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Json

from explainers.analysis import agreement, regions
from explainers.json_records import schema_of
from explainers.models.abstention import Abstention
from explainers.models.inputs.types import ImageInput, TextInput
from explainers.records import result
from explainers.records.result import Attribution, TargetInfo
from vitrine_server.schemas.base import Message, ProblemDocument, Schema, absent
from vitrine_server.schemas.question import ExplainOptions

State = Literal["queued", "running", "done", "failed", "cancelled"]


ModelInput = Annotated[ImageInput | TextInput, Field(discriminator="kind")]


class PixelScores(Schema):
    """The scores of a map with one score for each pixel."""

    scores: list[list[float]] = Field(description="Rows of pixels.")


PixelMap = schema_of(Attribution, name="PixelMap", base=PixelScores, without=("grid",))


class Titled(Schema):
    """An object that a person may give a title."""

    title: str = absent("The person's name for it.")


class Stored(Titled, ExplainOptions):
    """The fields of an explanation that the server adds: its id and state, when it was made, its maps so far, how long the model worked,
    why it failed, and whether it is somebody else's. Options with their default values are left out.
    """

    id: str
    state: State
    created: str = absent("ISO 8601, UTC; with the model left out where what was stored is damaged.")
    maps: list[Attribution] = Field(description="While it is made, those that are there.")
    made: list[int] = absent("The place of each map in the order in which they were made, where that is another.")
    left: list[str] = absent("Where it was stopped, the methods that were asked for and not made.")
    seconds: float = absent("How long the model worked.")
    problem: ProblemDocument = absent("Why it failed.")
    shared: bool = absent("true for somebody else's explanation: its link lets others read it.")


class Started(Titled):
    """The fields of the first event that are not part of the model's answer: the specs of the maps to come, about how many seconds each
    takes, and those that were not made.
    """

    expected: list[str] = Field(description="The specs of the maps that will follow.")
    costs: dict[str, float] = absent("While they are made: about how many seconds each takes.")
    left: list[str] = absent("Where it was stopped, the methods that were asked for and not made.")


#: Keys of an explanation that are not the model's answer.
_NO_ANSWER = ("model", "weights_digest", "versions", "methods", "maps", "at")
#: What the model says of an input; there from the moment that it has answered.
Answer = schema_of(result.Explanation, name="Answer", base=Titled, without=_NO_ANSWER, partial=True)
Explanation = schema_of(result.Explanation, base=Stored, partial=True)
StartedData = schema_of(result.Explanation, name="StartedData", base=Started, without=_NO_ANSWER, partial=True)


class QueuedData(Schema):
    """The position of an explanation in the queue: how many are before it."""

    position: int


class DoneData(Schema):
    """The data of the event ``done``: the seconds that the model worked on the explanation."""

    seconds: float | None


class Failure(Schema):
    """The problem for which an explanation failed."""

    problem: ProblemDocument


class CancelledData(Schema):
    """Empty: an explanation that was cancelled has no further data."""


class QueuedEvent(Message):
    """An event: the explanation waits in the queue; its data is its position."""

    event: Literal["queued"]
    data: Json[QueuedData]


class StartedEvent(Message):
    """An event: the model has answered; its data is the answer, and the maps will follow."""

    event: Literal["started"]
    data: Json[StartedData]  # type: ignore[valid-type]  # it is made of a record


class MethodEvent(Message):
    """An event: a map is finished; its data is the map."""

    event: Literal["method"]
    data: Json[Attribution]


class DoneEvent(Message):
    """The last event of an explanation: all maps are finished; its data is how long it took."""

    event: Literal["done"]
    data: Json[DoneData]


class FailedEvent(Message):
    """The last event of an explanation that failed; its data is the problem."""

    event: Literal["failed"]
    data: Json[Failure]


class CancelledEvent(Message):
    """The last event of an explanation that was cancelled."""

    event: Literal["cancelled"]
    data: Json[CancelledData]


ExplanationEvent = Annotated[
    QueuedEvent | StartedEvent | MethodEvent | DoneEvent | FailedEvent | CancelledEvent, Field(discriminator="event")
]


class PendingExplanation(Schema):
    """The id of an explanation that was accepted and is being computed, and the URL paths of its document (``url``) and of its events."""

    id: str
    url: str
    events: str
    stored: bool = Field(False, description="Whether it is finished, as it was made before: all that belongs to it is there.")


class TitleRequest(Schema):
    """A title to give to an explanation."""

    title: str | None = Field(description="The title; null or blank takes it away.")


class ExplanationTitle(Schema):
    """The title of an explanation after a change."""

    id: str
    title: str | None


class MethodOrder(Schema):
    """The methods whose maps are to be made first."""

    methods: list[str] = Field(description="Specs, what is wanted first in front; those that are done or not made are passed over.")


class ScoredWord(Schema):
    """A word of a text, and its score divided by the largest magnitude among all words."""

    text: str
    score: float


class ExplanationSummary(Schema):
    """One explanation as a list of explanations shows it: id, state, title, model, targets, numbers of maps and methods, and the URL path
    of a small picture, or the first words.
    """

    id: str
    state: State
    title: str = absent()
    created: str = absent()
    model: str = absent()
    targets: list[TargetInfo] = absent()
    abstention: Abstention = absent()
    problem: ProblemDocument = absent()
    seconds: float = absent()
    page: Literal["/image", "/prompt", "/text", "/molecule"] = Field(description="Where it can be looked at.")
    maps: int
    methods: int
    controls: int = Field(description="The number of random maps, which are shown with the methods.")
    specs: list[str]
    excerpt: str = absent("Of a text.")
    about: str = absent("The same for all explanations of one picture or text.")
    words: list[ScoredWord] = absent("The first ones of a text that is no molecule.")
    thumbnail: str = absent("The address of the picture, small.")
    map: str = absent("The address of the picture of one map.")


class ReproducingLines(Schema):
    """Lines of Python and of curl that compute an explanation again."""

    python: str
    curl: str


class OfExplanation(Schema):
    """A result computed from the maps of an explanation, with the explanation's id."""

    id: str = Field(description="Of the explanation.")


class Summed(OfExplanation):
    """A result computed from the maps of an explanation, with a sentence."""

    sentence: str = Field(description='What the maps have in common and which of them differs, in words; "" where there is nothing to say.')
    outline: list[int] = Field(
        description="The patches of the part of a picture that most of its maps mark; none where there is no such part."
    )


Agreement = schema_of(agreement.Agreement, base=Summed)
Regions = schema_of(regions.Regions, base=OfExplanation)
