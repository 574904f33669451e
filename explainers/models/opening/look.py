"""Inspect a file or folder before it is opened: what it is, and which architecture its weights may be of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from explainers.json_files import read_json_object
from explainers.json_records import Record, describe
from explainers.models.opening.architectures import shapes_of
from explainers.models.opening.folders import content_of
from explainers.models.opening.guesses import suggest_architectures
from explainers.models.opening.weights import read_weights

_MOST = 8  # architectures
_HEADS = ("head.weight", "head.fc.weight", "fc.weight", "classifier.weight", "score.weight", "heads.head.weight")


@dataclass(frozen=True)
class Look(Record, name="ModelLook"):
    """The facts about a file or folder with a model that are known before the model is opened: what it is, a name for it, and the
    architectures that its weights may belong to.
    """

    what: Annotated[str, describe("In words: a folder of transformers, a file of weights, ...")]
    name: Annotated[str, describe("A name for the model.")]
    architectures: Annotated[
        list[str], describe("Those that the weights may be of, the likeliest first; empty where none is needed or known.")
    ]
    needs_architecture: Annotated[bool, describe("Whether one must be named.")]
    classes: Annotated[int | None, describe("How many the head has; null where that is not known.")]
    guess: Annotated[str | None, describe("Which of several checkpoints or files was taken; null where there was one.")]


def look_at(place: Path) -> Look:
    """Return what ``place`` holds, without opening it. Raises ExplainerError if it holds nothing that can be opened."""
    content, name = (None, place.name.split(".")[0]) if place.is_file() else (content_of(place), place.resolve().name)
    if content is not None and content.adapter is not None:
        base = read_json_object(content.adapter / "adapter_config.json").get("base_model_name_or_path")
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
