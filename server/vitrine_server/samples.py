"""The inputs to try that ship with the models."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps

from explainers.models.inputs.types import ModelKind
from vitrine_server.schemas.base import Schema, absent
from vitrine_server.schemas.question import Question
from vitrine_server.settings import Settings

THUMBNAIL = (64, 64)  # pixels: twice what the pages show, for dense screens


class PromptSet(Schema):
    """A named set of prompts to ask together."""

    name: str
    prompts: list[str]


class Sample(Schema):
    """One sample input to try (a picture, a text or a molecule), with a model that suits it, a title and note, and what to ask about it:
    prompts or a target.
    """

    id: str
    kind: ModelKind
    model: str
    title: str
    note: str = absent()
    image: str = absent("The address of a picture.")
    thumbnail: str = absent("The picture, small, as a data URI.")
    text: str = absent()
    text_pair: str = absent()
    pair: str = absent("Of a molecule, the SMILES of one that differs from it in one group.")
    prompts: list[str] = absent()
    sets: list[PromptSet] = absent()
    target: str = absent()
    objects: list[str] = absent("What the picture shows.")
    trap: bool = absent("Whether the model is easily misled by it.")
    expected: str = absent("The class that people give it.")
    model_says: str = absent("The class that the model gives it, where that was noted.")


class Samples(Schema):
    """All sample inputs to try."""

    samples: list[Sample]


@dataclass(frozen=True)
class SampleInput:
    """One sample input to try: its ``entry`` in the index, and the path of its image, or None."""

    id: str
    entry: dict[str, Any]
    image: Path | None

    def to_json(self, settings: Settings) -> dict[str, Any]:
        """Return the sample as JSON, for the pages; ``settings`` give the path prefix in the URL of its image."""
        document = {name: value for name, value in self.entry.items() if name not in ("image", "mask")}
        if self.image is None:
            return document
        return {**document, "image": settings.address(f"/api/samples/{self.id}/image"), "thumbnail": self._thumbnail}

    @cached_property
    def _thumbnail(self) -> str:
        """The middle of the image as a small data URI, so that a page with all samples needs no request for each."""
        assert self.image is not None
        with Image.open(self.image) as image:
            image.draft("RGB", (2 * THUMBNAIL[0], 2 * THUMBNAIL[1]))  # decodes a JPEG no larger than is needed
            buffer = io.BytesIO()
            ImageOps.fit(image.convert("RGB"), THUMBNAIL).save(buffer, "WEBP", quality=70)
        return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def is_sample(samples: Iterable[SampleInput], question: Question) -> bool:
    """Return whether the input of a question is one of the samples, to the last byte."""
    image, text = question.image, question.text
    for path, sample_text in ((sample.image, sample.entry.get("text")) for sample in samples):
        if path is None and image is None and text == sample_text and question.text_pair is None:
            return True
        if path is not None and image is not None and path.stat().st_size == len(image) and path.read_bytes() == image:
            return True
    return False


def sample_folders() -> list[Path]:
    """List the folders of the samples that ship with the models, real photos first."""
    root = Path(str(files("explainers.embedded"))) / "samples"
    names = ("photos", "scenes", "reviews", "questions", "molecules")
    return [root / name for name in names if (root / name / "index.json").is_file()]


def read_samples(folders: Iterable[Path]) -> dict[str, SampleInput]:
    """Return the samples in the ``index.json`` of each of ``folders``, in order: id -> sample. Raises ValueError if an id occurs twice."""
    samples: dict[str, SampleInput] = {}
    for folder in folders:
        for entry in json.loads((folder / "index.json").read_text(encoding="utf-8"))["samples"]:
            if entry["id"] in samples:
                raise ValueError(f"two samples are called {entry['id']!r}")
            image = folder / entry["image"] if "image" in entry else None
            samples[entry["id"]] = SampleInput(entry["id"], entry, image)
    return samples
