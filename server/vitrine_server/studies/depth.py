"""The depth of a model over HTTP, ``explainers.depth``, on pictures or texts that were sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import explainers
from explainers.analysis.depth import MIN_INPUTS
from explainers.models.inputs.types import Clip
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import open_clip, open_picture
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.settings import Settings


@dataclass(frozen=True)
class DepthQuestion:
    """The inputs on which to measure a model's depth: the bytes of pictures, or texts; for a CLIP model the prompts too."""

    images: tuple[bytes, ...]
    texts: tuple[str, ...]
    prompts: tuple[str, ...]
    limit: int
    settings: Settings

    @property
    def count(self) -> int:
        """The number of inputs that are measured."""
        return min(self.limit, len(self.images) + len(self.texts))


def check(question: DepthQuestion) -> None:
    """Raise Problem 422 for mistakes in a question that do not depend on the model, such as too few inputs."""
    if bool(question.images) == bool(question.texts):
        what = "both pictures and texts" if question.images else "neither a picture nor a text"
        raise _bad("one-input", f"The form has {what}.", "Send image files, or texts, one a line.")
    if question.count < MIN_INPUTS:
        what = f"{question.count} {'picture' if question.images else 'text'}{'' if question.count == 1 else 's'}"
        send = f"Send at least {MIN_INPUTS}: each figure has an interval, which fewer cannot give."
        raise _bad("too-few", f"The form has {what}.", send)


def answer(question: DepthQuestion, model: Any, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    """Measure the depth of a model and return it as JSON. Raises Problem 422 for inputs that do not suit the model."""
    reads_texts = model.kind in ("text", "molecule")
    if reads_texts != bool(question.texts):
        detail = f"{model.name} {'reads texts, and pictures were sent' if reads_texts else 'looks at pictures, and texts were sent'}."
        raise _bad("wrong-input", detail, f"Send {'texts' if reads_texts else 'pictures'}.")
    inputs: list[Any] = [*question.texts, *(_picture(data, question.settings, model) for data in question.images)]
    measured = explainers.depth(model, inputs, prompts=question.prompts or None, limit=question.limit, progress=tell, cancelled=cancelled)
    return measured.to_json()


def _picture(data: bytes, settings: Settings, model: Any) -> Any:
    return open_picture(data, settings) if model.details.get("frames") is None else Clip(open_clip(data, settings))


def _bad(slug: str, detail: str, send: str) -> Problem:
    return Problem(422, slug, detail, send=send)
