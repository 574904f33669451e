"""Inspect a file or folder before it is opened: what it is, and which architecture its weights may be of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from explainers.errors import ExplainerError
from explainers.json_files import read_json_object
from explainers.json_records import Record, describe
from explainers.models.labels import config_labels, placeholder_labels
from explainers.models.opening.architectures import shapes_of
from explainers.models.opening.class_names import class_names
from explainers.models.opening.folders import content_of
from explainers.models.opening.guesses import known_architectures, suggest_architectures
from explainers.models.opening.weights import read_weights

_MOST = 8  # architectures
_HEADS = ("head.weight", "head.fc.weight", "fc.weight", "classifier.weight", "score.weight", "heads.head.weight")


@dataclass(frozen=True)
class Look(Record, name="ModelLook"):
    """The facts about a file or folder with a model that are known before the model is opened: what it is, a name for it, and the
    architectures that its weights may belong to.
    """

    what: Annotated[str, describe("In words: a folder that transformers saved, a file of 150 tensors, ...")]
    name: Annotated[str, describe("A name for the model.")]
    architecture: Annotated[str | None, describe("What the files say, or their weights fit best; null where one must be named.")]
    architectures: Annotated[
        list[str], describe("The architectures that the weights may be of, the likeliest first; empty where none is needed or known.")
    ]
    needs_architecture: Annotated[bool, describe("Whether one must be named.")]
    classes: Annotated[int | None, describe("How many the head has; null where that is not known.")]
    labels: Annotated[list[str], describe("Names of its classes, where the files hold them; else empty.")]
    suggestions: Annotated[list[str], describe("Other architectures that one may name; empty where none is needed.")]
    guess: Annotated[str | None, describe("Which of several checkpoints or files was taken; null where there was one.")]


def look_at(place: Path) -> Look:
    """Return what ``place`` holds, without opening it. Raises ExplainerError if it holds nothing that can be opened."""
    content, name = (None, place.name.split(".")[0]) if place.is_file() else (content_of(place), place.resolve().name)
    if content is not None and content.adapter is not None:
        base = read_json_object(content.adapter / "adapter_config.json").get("base_model_name_or_path")
        its_base = f"that of {base}" if base else None
        return Look(
            f"an adapter for {base or 'a base model that it does not name'}", name, its_base, [], False, None, [], [], content.guess
        )
    if content is not None and content.folder is not None:
        return _look_at_folder(content.folder, name, content.guess)
    file = place if content is None or content.file is None else content.file
    if (file.parent / "config.json").is_file():
        return _look_at_folder(file.parent, name, None)
    weights = read_weights(file)
    shapes = shapes_of(weights)
    known = [weights.architecture] if weights.architecture else suggest_architectures(shapes)[:_MOST]
    head = next((shapes[key] for key in _HEADS if key in shapes), None)
    classes = None if head is None else head[0]
    labels = _names(weights.labels)
    where = f" under {weights.key!r}" if weights.key else ""
    return Look(
        what=f"a file of {len(weights.tensors)} tensors{where}",
        name=name,
        architecture=known[0] if known else None,
        architectures=known,
        needs_architecture=not known,
        classes=classes,
        labels=labels if classes in (None, len(labels)) else [],
        suggestions=[name for name in known_architectures() if name not in known],
        guess=None if content is None else content.guess,
    )


def _look_at_folder(folder: Path, name: str, guess: str | None) -> Look:
    """Return what a folder holds as timm or transformers writes it: ``config.json``, and the names of its classes there or next to it."""
    config = read_json_object(folder / "config.json") if (folder / "config.json").is_file() else {}
    labels = _names(folder / "labels.json") or _names(config.get("label_names")) or _names(config.get("id2label"))
    if labels == placeholder_labels(len(labels)) or config_labels(dict(enumerate(labels)), len(labels)) == placeholder_labels(len(labels)):
        labels = []  # LABEL_0, LABEL_1: no names
    library, architecture = _saved_by(folder, config)
    return Look(f"a folder that {library} saved", name, architecture, [], False, len(labels) or None, labels, [], guess)


def _saved_by(folder: Path, config: dict[str, Any]) -> tuple[str, str | None]:
    """Return which library wrote a folder with the content ``config`` of its ``config.json``, and the architecture that it names."""
    if (folder / "open_clip_config.json").is_file():
        return "OpenCLIP", "that of open_clip_config.json"
    if "architecture" in config:
        return "timm", f"{config['architecture']} of timm"
    classes = config.get("architectures")
    named = classes[0] if isinstance(classes, list) and classes else config.get("model_type")
    return "transformers", None if named is None else f"{named} of transformers"


def _names(labels: Any) -> list[str]:
    """Return the names of classes in ``labels``, in any of the forms that people have; empty where there are none."""
    try:
        return [] if labels is None else class_names(labels)
    except ExplainerError:
        return []
