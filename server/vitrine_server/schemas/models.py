"""Models: what is listed of them, what is known of one that is loaded, and the events of its loading."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, Json

from explainers.models.inputs.parts import PartName
from explainers.models.tasks.task import Control
from vitrine_server.schemas.base import Grid, Message, ProblemDocument, Schema, absent

#: ``not-installed``: an optional package that the model needs is missing, as ``problem`` says; any other reason is ``failed``.
ModelState = Literal["available", "loading", "loaded", "failed", "not-installed"]


class ModelDetails(Schema):
    """The facts about a model that are known once it is loaded, such as its blocks, heads and width, its grid of patches, the number of its
    classes, and what it reads.
    """

    blocks: int = absent()
    heads: int | None = absent("null where the model does not say.")
    width: int | None = absent("Of the residual stream.")
    channels: int | None = absent("Of a picture.")
    frames: int | None = absent("Of a clip; a picture and a text have none.")
    grid: Grid | None = absent("Rows and columns of patches; a text has none.")
    picture_grid: Grid | None = absent("Of the patches of a picture among the words of a prompt; null where there are none.")
    reads: tuple[PartName, ...] = absent("The parts of an input that it reads, such as a picture and a text.")
    reads_videos: bool = absent("Whether the processor of a model that writes about pictures takes videos.")
    input: tuple[int, int] | None = absent("Height and width in pixels; a text has none.")
    max_tokens: int | None = absent("Of a text.")
    classes: int | None = absent("A CLIP model and a regression have none.")
    mask_token_id: int | None = absent()
    padding_token_id: int | None = absent()
    unknown_token_id: int | None = absent()
    parameters: int = absent()
    final_activation: str | None = absent("The softmax or sigmoid that the head ends in.")
    class_token: bool = absent()
    library: str | None = absent()
    task: str = absent("What it gives besides one row of logits a sample; left out where it gives that.")
    place_control: Control = absent("How a page lets one choose a place of its output.")
    places_are: str = absent("What may be sent as at.")
    texts: tuple[str, str] = absent("What the two texts are called that it reads together: send text and text_pair.")
    chat_template: bool = absent("Whether a chat template can be laid around its prompts.")
    sound_rate: int = absent("Of a model of sounds: how many samples a second it takes. Send a .wav file as image.")
    source: str = absent()
    changed_by_padding: bool = absent(
        "Of a model of texts: whether padding changes its answers, so that only texts of one length share a pass."
    )
    logit_scale: float = absent("Of a CLIP model: logit = logit_scale * cosine + logit_bias.")
    logit_bias: float = absent()


class ModelRequest(Schema):
    """The name of a model to load."""

    name: str = Field(min_length=1, max_length=200)


class PendingModel(Schema):
    """The state of a model that is being loaded, and the URL path of its events."""

    name: str
    state: ModelState
    events: str


class LoadProgress(Schema):
    """The progress of loading a model: a sentence, the fraction done, and the stage."""

    text: str
    fraction: float = absent("Where it is known.")
    stage: Literal["opened", "checked"] = absent("Of a model that somebody brought: what has been done.")


class LoadFailure(Schema):
    """The problem for which a model could not be loaded."""

    problem: ProblemDocument


class ProgressEvent(Message):
    """An event: the model is still loading; its data is how far it is."""

    event: Literal["progress"]
    data: Json[LoadProgress]


class LoadFailedEvent(Message):
    """The last event of loading: the model could not be loaded; its data is the reason."""

    event: Literal["failed"]
    data: Json[LoadFailure]
