"""The depth of a model over HTTP, ``explainers.depth``, on pictures or texts that were sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Form, UploadFile
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

import explainers
from explainers import Depth
from explainers.analysis.depth import MAX_INPUTS, MIN_INPUTS
from vitrine_server.http.limits import limits
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import open_alone
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.jobs.queue.study import MANY_PASSES
from vitrine_server.schemas.base import Schema
from vitrine_server.settings import Settings
from vitrine_server.studies.registry import study

_Lines = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda sent: sent or ()),
    AfterValidator(lambda texts: tuple(line.strip() for text in texts for line in text.splitlines() if line.strip())),
]


class DepthForm(Schema):
    """The inputs on which to measure how much of a model's work its Transformer does: the model's name, pictures or texts, prompts for a
    CLIP model, and how many to measure.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    model: Annotated[str, AfterValidator(str.strip)] = Field(description="A name from /api/models.")
    images: tuple[UploadFile, ...] = Field(
        (), alias="image", description=f"Image files, at least {MIN_INPUTS}; together no larger than one upload may be."
    )
    texts: _Lines = Field((), alias="text", description=f"Texts, one a line, at least {MIN_INPUTS}.")
    prompts: _Lines = Field(
        (), alias="prompt", description="For CLIP models: what the pictures are compared with, at least two, one a line."
    )
    limit: int = Field(MAX_INPUTS, ge=MIN_INPUTS, le=MAX_INPUTS, description="The most inputs to measure, taken evenly from what was sent.")


@dataclass(frozen=True)
class DepthQuestion:
    """The inputs on which to measure a model's depth: the bytes of pictures, or texts; for a CLIP model the prompts too; at most ``limit``
    are measured. ``settings`` are those of the server, with its limits on pictures.
    """

    images: tuple[bytes, ...]
    texts: tuple[str, ...]
    prompts: tuple[str, ...]
    limit: int
    settings: Settings

    @property
    def count(self) -> int:
        """The number of inputs that are measured."""
        return min(self.limit, len(self.images) + len(self.texts))


async def read(form: DepthForm, settings: Settings) -> DepthQuestion:
    """Read the files of ``form`` and return them as a question. Raises Problem 422, or 413 for a text that is too long, for mistakes that
    do not depend on the model.
    """
    limit = limits(settings)["text"]
    for text in form.texts:
        if len(text) > limit.most:
            raise limit.problem(len(text))
    images = tuple([await upload.read() for upload in form.images])
    question = DepthQuestion(images, form.texts, form.prompts, form.limit, settings)
    if bool(question.images) == bool(question.texts):
        what = "both pictures and texts" if question.images else "neither a picture nor a text"
        raise _bad("one-input", f"The form has {what}.", "Send image files, or texts, one a line.")
    if question.count < MIN_INPUTS:
        what = f"{question.count} {'picture' if question.images else 'text'}{'' if question.count == 1 else 's'}"
        send = f"Send at least {MIN_INPUTS}: each figure has an interval, which fewer cannot give."
        raise _bad("too-few", f"The form has {what}.", send)
    return question


@study(
    "/api/depth",
    form=Annotated[DepthForm, Form(media_type="multipart/form-data")],
    answer=Depth,
    read=read,
    cost=lambda question: f"depth of {question.count}",
    weight=MANY_PASSES,
    tag="models",
)
def depth(question: DepthQuestion, model: Any, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    """Measure whether a model's Transformer matters for the pictures or texts of a form: what each part is worth, how heads differ, whether
    patches or words read each other, and whether methods agree. Nothing that is sent is kept.
    """
    reads_texts = model.kind in ("text", "molecule")
    if reads_texts != bool(question.texts):
        detail = f"{model.name} {'reads texts, and pictures were sent' if reads_texts else 'looks at pictures, and texts were sent'}."
        raise _bad("wrong-input", detail, f"Send {'texts' if reads_texts else 'pictures'}.")
    inputs: list[Any] = [*question.texts, *(open_alone(data, question.settings, model.details) for data in question.images)]
    measured = explainers.depth(model, inputs, prompts=question.prompts or None, limit=question.limit, progress=tell, cancelled=cancelled)
    return measured.to_json()


def _bad(slug: str, detail: str, send: str) -> Problem:
    return Problem(422, slug, detail, send=send)
