"""Names of a model's classes, in the order of its logits: each a plain word, no two the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_WORDNET = re.compile(r"n\d{8}")
_UNNAMED = re.compile(r"LABEL_\d+")


def unnamed(count: int) -> list[str]:
    """``class 0``, ``class 1``, ...: for models that do not say what their classes are."""
    return [f"class {index}" for index in range(count)]


def config_labels(id2label: Mapping[Any, str] | None, count: int) -> list[str]:
    """Labels from the ``id2label`` of a transformers configuration."""
    named = {int(index): str(label) for index, label in (id2label or {}).items()}
    if sorted(named) != list(range(count)) or all(_UNNAMED.fullmatch(label) for label in named.values()):
        return unnamed(count)
    return distinct([named[index] for index in range(count)])


def timm_labels(config: Mapping[str, Any], count: int) -> list[str]:
    """Labels from a timm ``pretrained_cfg``: its own names, else those of the ImageNet edition with that many classes."""
    from timm.data.imagenet_info import ImageNetInfo, infer_imagenet_subset

    names = config.get("label_names")
    if names and len(names) == count:
        if all(_WORDNET.fullmatch(str(name)) for name in names):
            descriptions = config.get("label_descriptions") or {}
            return _wordnet_labels([str(name) for name in names], descriptions)
        return distinct([str(name) for name in names])
    subset = infer_imagenet_subset({"num_classes": count})
    if subset is None:
        return unnamed(count)
    info = ImageNetInfo(subset)
    synsets: list[str] = info.label_names()  # type: ignore[no-untyped-call]
    return _wordnet_labels(synsets, {name: info.label_name_to_description(name) for name in synsets})


def _wordnet_labels(synsets: Sequence[str], descriptions: Mapping[str, str]) -> list[str]:
    """The first of each synset's words where no other class has it, all of them where that tells classes apart, else with the synset."""
    every = [descriptions.get(synset, synset) for synset in synsets]
    first = [words.split(",")[0].strip() for words in every]
    times = Counter(first)
    return distinct([short if times[short] == 1 else words for short, words in zip(first, every, strict=True)], synsets)


def distinct(labels: Sequence[str], marks: Sequence[str] | None = None) -> list[str]:
    """``labels`` with a mark (by default the index) behind those that occur more than once."""
    times = Counter(labels)
    marks = marks or [str(index) for index in range(len(labels))]
    return [label if times[label] == 1 else f"{label} ({mark})" for label, mark in zip(labels, marks, strict=True)]
