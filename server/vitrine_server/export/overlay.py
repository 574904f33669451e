"""A map of a stored explanation as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

import explainers
from explainers.citation import Citation
from explainers.models.inputs.types import ImageInput, PicturePromptInput, TextInput
from explainers.records.input_json import input_from_json
from explainers.rendering.overlays import render_overlay


def overlay(
    document: Mapping[str, Any], entry: Mapping[str, Any], seen: Sequence[Image.Image], size: int, pixels: NDArray[np.float32] | None = None
) -> Image.Image:
    """Render ``entry``, a map of the stored explanation ``document``, and return a PIL image. ``pixels``: draw the scores of pixels instead
    of those of patches.

    ``seen`` is the part of the image that the model saw, of a prompt with several of each; empty if it was not kept. ``size`` is the longer
    side of an image, or the width of a text, in pixels.
    """
    source = document["input"]
    if "prompts" in document:  # its words were explained, not the image
        source = next(prompt for prompt in document["prompts"] if prompt["prompt"] == entry["target"])
    record: ImageInput | TextInput
    if source["kind"] == "text":
        record = input_from_json(source)
        if isinstance(record, PicturePromptInput) and record.picture is not None and seen:
            others = tuple(replace(other, pixels=pixels) for other, pixels in zip(record.others, seen[1:], strict=True))
            record = replace(record, picture=replace(record.picture, pixels=seen[0]), others=others)
        content = [not token["special"] for token in source["tokens"]]
    else:
        shown = seen[0] if seen else None
        width, height = (0, 0) if shown is None else shown.size
        record = ImageInput(width, height, (0, 0, width, height), tuple(source["seen"]), shown, frames=source.get("frames"))
        content = [True] * len(entry["scores"])
    grid = entry.get("grid")
    same = ("method", "rule", "title", "target", "signed", "class_specific", "seconds")
    attribution = explainers.Attribution(
        method_name=entry["readout"],  # its key in JSON
        **{name: entry[name] for name in same},
        source=Citation.from_json(entry),
        scores=torch.tensor(entry["scores"], dtype=torch.float32),
        content=torch.tensor(content, dtype=torch.bool),
        patches=None if grid is None else tuple(grid),
        text=record if isinstance(record, TextInput) else None,
        pixels=None if pixels is None else torch.from_numpy(pixels),
    )
    explanation = explainers.Explanation(
        model=document["model"],
        weights_digest=document["weights_digest"],
        input=record,
        labels=(),
        logits=torch.empty(0),
        probabilities=torch.empty(0),
        targets=[],
        methods=document["methods"],
        versions=document["versions"],
    )
    return render_overlay(explanation, attribution, size, at="patches" if pixels is None else "pixels")
