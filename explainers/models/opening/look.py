"""Inspect a file or folder before it is opened: what it is, and which architecture its weights may be of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from explainers.models.opening.architectures import shapes_of
from explainers.models.opening.folders import content_of
from explainers.models.opening.guesses import suggest_architectures
from explainers.models.opening.weights import read_weights

_MOST = 8  # architectures
_HEADS = ("head.weight", "head.fc.weight", "fc.weight", "classifier.weight", "score.weight", "heads.head.weight")


@dataclass(frozen=True)
class Look:
    """What was seen.

    what           in words
    name           a name for the model
    architectures  that the weights may be of, the likeliest first, or the one that the file names
    needs_architecture  whether one must be chosen: none is named or guessed
    classes        how many the head has, where that is seen
    guess          which of several checkpoints or files was taken
    """

    what: str
    name: str
    architectures: list[str]
    needs_architecture: bool
    classes: int | None
    guess: str | None


def look_at(place: Path) -> Look:
    """What ``place`` holds. Raises ExplainerError where that is nothing that can be opened."""
    content, name = (None, place.name.split(".")[0]) if place.is_file() else (content_of(place), place.resolve().name)
    if content is not None and content.adapter is not None:
        base = json.loads((content.adapter / "adapter_config.json").read_text("utf-8")).get("base_model_name_or_path")
        return Look(f"an adapter for {base or 'a base model that it does not name'}", name, [], False, None, content.guess)
    if content is not None and content.folder is not None:
        return Look("a folder of a model", name, [], False, None, content.guess)
    file = place if content is None or content.file is None else content.file
    if (file.parent / "config.json").is_file():
        return Look("a folder of a model", name, [], False, None, None)
    weights = read_weights(file)
    shapes = shapes_of(weights)
    known = [weights.architecture] if weights.architecture else suggest_architectures(shapes)[:_MOST]
    head = next((shapes[key] for key in _HEADS if key in shapes), None)
    where = f" under {weights.key!r}" if weights.key else ""
    return Look(
        what=f"a file of {len(weights.tensors)} tensors{where}",
        name=name,
        architectures=known,
        needs_architecture=not known,
        classes=None if head is None else head[0],
        guess=None if content is None else content.guess,
    )
