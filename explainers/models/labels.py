"""Names of a model's classes, in the order of its logits: each a plain word, no two the same; and the groups that they are in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from explainers.errors import ExplainerError
from explainers.json_files import read_json
from explainers.json_records import Record, optional

_WORDNET = re.compile(r"n\d{8}")
_UNNAMED = re.compile(r"LABEL_\d+")
IMAGENET = 1000


@dataclass(frozen=True)
class ClassEntry(Record):
    """A class of a model: its label, its groups, other words for it, and its WordNet id if known."""

    label: str
    group: Annotated[str | None, optional("The everyday one of its groups.")] = None
    groups: Annotated[tuple[str, ...], optional("All of its groups: each can be asked for as any:<group>.")] = ()
    synonyms: Annotated[tuple[str, ...], optional("Other words for it.")] = ()
    wnid: Annotated[str | None, optional("Its synset in WordNet.")] = None


def read_classes(path: Path, count: int) -> list[ClassEntry]:
    """Return the classes of a model from its ``labels.json`` at ``path``: a list with one object a class, in the order of the logits.

    Each has ``label`` and may have ``group``, ``groups``, ``synonyms`` and ``wnid``. Raises ExplainerError, naming the entry, for a file of
    another form, for two equal labels, and unless there are ``count`` classes.
    """
    rows = read_json(path)
    if not isinstance(rows, list) or len(rows) != count:
        held = f"{len(rows)} classes" if isinstance(rows, list) else "no list"
        raise ExplainerError(f"{path} holds {held}; the model has {count} classes")
    entries = [_entry(row, f"{path}, class {index}") for index, row in enumerate(rows)]
    for label, times in Counter(entry.label for entry in entries).items():
        if times > 1:
            raise ExplainerError(f"{path} calls {times} classes {label!r}; each class needs a label of its own")
    return entries


def imagenet_classes(labels: Sequence[str]) -> list[ClassEntry]:
    """Return the common names, groups and synonyms of ImageNet's 1,000 classes if ``labels`` are these classes in their order; else an
    empty list.

    They are if each label is a synset, or begins with the first word of the class's synset, as in timm and on the hub.
    """
    if len(labels) != IMAGENET:
        return []
    from timm.data.imagenet_info import ImageNetInfo  # after that: a model of texts is loaded without timm

    info = ImageNetInfo()
    synsets: list[str] = info.label_names()
    words = [_first_word(info.label_name_to_description(synset)) for synset in synsets]
    if list(labels) != synsets and [_first_word(label) for label in labels] != words:
        return []
    entries = imagenet_entries()
    return entries if [entry.wnid for entry in entries] == synsets else []


@cache
def imagenet_entries() -> list[ClassEntry]:
    """Return the entry of each of ImageNet's 1,000 classes, in the order of the logits: label, groups, synonyms and WordNet id."""
    return read_classes(Path(str(files("explainers.embedded"))) / "labels" / "imagenet.json", IMAGENET)


def _first_word(label: str) -> str:
    return re.split(r", | \(", label)[0].casefold()


def _entry(row: Any, where: str) -> ClassEntry:
    if not isinstance(row, dict) or not isinstance(row.get("label"), str) or not row["label"].strip():
        raise ExplainerError(f"{where}: an object with a label is needed")
    for name in ("group", "wnid"):
        if not isinstance(row.get(name), str | None):
            raise ExplainerError(f"{where}: {name} must be a word")
    for name in ("groups", "synonyms"):
        words = row.get(name, [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ExplainerError(f"{where}: {name} must be a list of words")
    group = row.get("group") or None
    groups = tuple(dict.fromkeys(([group] if group else []) + row.get("groups", [])))
    return ClassEntry(row["label"], group, groups, tuple(row.get("synonyms", ())), row.get("wnid") or None)


def places_of(entries: Sequence[ClassEntry], name: str) -> dict[str, tuple[int, ...]]:
    """Return every group or synonym of the classes, ``entries``, in lower case, with the indices of its classes; ``name`` is "groups" or
    "synonyms".
    """
    indices_of: dict[str, list[int]] = {}
    for index, entry in enumerate(entries):
        for word in dict.fromkeys(word.casefold() for word in getattr(entry, name)):
            indices_of.setdefault(word, []).append(index)
    return {word: tuple(indices) for word, indices in indices_of.items()}


def placeholder_labels(count: int) -> list[str]:
    """Return ``count`` labels, ``class 0``, ``class 1``, ..., for a model that does not name its classes."""
    return [f"class {index}" for index in range(count)]


def config_labels(id2label: Mapping[Any, str] | None, count: int) -> list[str]:
    """Return ``count`` labels in the order of the classes, from ``id2label`` of a transformers configuration. If it names not all of them,
    or only as LABEL_0, placeholders are returned.
    """
    named = {int(index): str(label) for index, label in (id2label or {}).items()}
    if sorted(named) != list(range(count)) or all(_UNNAMED.fullmatch(label) for label in named.values()):
        return placeholder_labels(count)
    return distinct([named[index] for index in range(count)])


def timm_labels(config: Mapping[str, Any], count: int) -> list[str]:
    """Return the labels of the ``count`` classes of a timm model: the names in ``config``, its ``pretrained_cfg``, else those of the
    ImageNet edition with that many classes.
    """
    from timm.data.imagenet_info import ImageNetInfo, infer_imagenet_subset

    names = config.get("label_names")
    if names and len(names) == count:
        if all(_WORDNET.fullmatch(str(name)) for name in names):
            descriptions = config.get("label_descriptions") or {}
            return _wordnet_labels([str(name) for name in names], descriptions)
        return distinct([str(name) for name in names])
    subset = infer_imagenet_subset({"num_classes": count})
    if subset is None:
        return placeholder_labels(count)
    info = ImageNetInfo(subset)
    synsets: list[str] = info.label_names()
    return _wordnet_labels(synsets, {name: info.label_name_to_description(name) for name in synsets})


def _wordnet_labels(synsets: Sequence[str], descriptions: Mapping[str, str]) -> list[str]:
    """Return a label for each of ``synsets``, made of its words in ``descriptions``: its first word if no other class has it, else all its
    words if these are unique, else also the synset.
    """
    every = [descriptions.get(synset, synset) for synset in synsets]
    first = [words.split(",")[0].strip() for words in every]
    times = Counter(first)
    return distinct([short if times[short] == 1 else words for short, words in zip(first, every, strict=True)], synsets)


def distinct(labels: Sequence[str], marks: Sequence[str] | None = None) -> list[str]:
    """Return ``labels`` with a mark (by default the index) appended to those that occur more than once."""
    times = Counter(labels)
    marks = marks or [str(index) for index in range(len(labels))]
    return [label if times[label] == 1 else f"{label} ({mark})" for label, mark in zip(labels, marks, strict=True)]
