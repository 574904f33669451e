"""Data sets: inputs with what is known of each, read one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.errors import ExplainerError
from explainers.models.inputs.types import PicturePrompt, TextPair
from explainers.models.model import Model
from explainers.records.targets.names import group_called, index_of_name

DatasetKind = Literal["image", "text", "molecule"]
Mask = NDArray[np.bool_]
_SYNSET = re.compile(r"n\d{8}(?![^\s_-])")
_UNNAMED = re.compile(r"(?:class |LABEL_)?\d+")  # labels of classes without names


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotatedObject:
    """One object of a picture, with its class and its mask.

    label  its class, given as in :class:`Sample`; None if the data set marks the object without naming a class
    mask   bool (height, width): true where the object is visible
    cell   in a mosaic of two by two pictures: row and column of the picture that the object is in
    """

    label: str | int | None
    mask: Mask
    cell: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class RemovableParts:
    """The parts of a picture that decide its class, with the same picture without any of them.

    pieces         name of a part -> the masks of its pieces, bool (height, width), true where a piece is visible
    without        function from names of parts to the picture without these parts
    ground         the masks of the things around, which decide nothing
    without_thing  function from the number of such a thing to the picture without it
    sufficient     the smallest sets of parts of which each tells the class from all others
    rivals         two other classes, each with those of the parts that speak for it, none of which is common to both; or empty
    """

    pieces: Mapping[str, tuple[Mask, ...]]
    without: Callable[[frozenset[str]], Image.Image] = field(repr=False)
    sufficient: tuple[frozenset[str], ...]
    ground: tuple[Mask, ...] = ()
    without_thing: Callable[[int], Image.Image] | None = field(default=None, repr=False)
    rivals: tuple[tuple[str | int, frozenset[str]], ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One input of a data set, with its classes, masks and marked words.

    name       a name that no other input of the data set has
    image      RGB and upright, or None for a text
    text       or None for an image; with an image it is what a vision-language model is asked about it
    labels     its classes, by name, WordNet synset, or index among the data set's classes; any of them is right, the first is explained
    objects    the objects whose masks are known
    labelled   bool (height, width): the pixels that the data set annotates; None: all
    rationale  spans of characters of the text that annotators marked as their reasons; None if none were asked
    text_pair  a second text that is read together with ``text``, or None
    pair_rationale  the marked spans of ``text_pair``, in the form of ``rationale``
    at         which place of the model's output is asked about, in the form that ``explainers.explain`` takes; None for models with one
               answer
    against    the answer that the first label is compared with, by name or index; None if it is compared with none
    removable  the parts that can be left out of the picture; None if it is not known without them
    own_columns  further facts of the input, such as the columns of its row in a table of one's own, by name

    Raises ExplainerError if the size of a mask is not that of the image.
    """

    name: str
    image: Image.Image | None = None
    text: str | None = None
    labels: tuple[str | int, ...] = ()
    objects: tuple[AnnotatedObject, ...] = ()
    labelled: Mask | None = None
    rationale: tuple[tuple[int, int], ...] | None = None
    text_pair: str | None = None
    pair_rationale: tuple[tuple[int, int], ...] | None = None
    at: str | None = None
    against: str | int | None = None
    removable: RemovableParts | None = None
    own_columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        masks = [*(obj.mask for obj in self.objects), *([] if self.labelled is None else [self.labelled])]
        for mask in masks:
            size = None if self.image is None else (self.image.height, self.image.width)
            if mask.shape != size:
                raise ExplainerError(f"{self.name}: a mask has {mask.shape} pixels (height, width), its image has {size}")

    @property
    def model_input(self) -> Image.Image | str | TextPair | PicturePrompt:
        """The input as a model takes it: the picture, the text, or both as a PicturePrompt; a TextPair if there is a second text."""
        if self.image is not None:
            return self.image if self.text is None else PicturePrompt(self.image, self.text)
        assert self.text is not None
        return self.text if self.text_pair is None else TextPair(self.text, self.text_pair)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set: inputs that are read when they are asked for.

    kind     what its inputs are: "image", "text" or "molecule"
    name     its name; :func:`open_dataset` sets the name under which it is declared
    classes  names of its classes, in the order of their indices; empty if they are not numbered
    read     function from an index, 0 to ``length`` - 1, to its sample
    split    which of its parts is read, if it has several
    unread   files in its folder that are not read, as paths relative to it
    folder   the folder of its files, if it has any; set by :func:`open_dataset`
    gives    what is known of its inputs: keys of ``explainers.datasets.registry.GIVES``; set by :func:`open_dataset`
    task     the task of the models that it is for, by its name in ``explainers.models.tasks``. None: any
    lacks    annotations that other data sets of its form have and this one lacks, for example masks
    is_ordered  whether the order of ``classes`` is that of the classes of models; False where it is only that of the alphabet, and where a
                model that names other classes is of other classes
    """

    kind: DatasetKind
    length: int
    read: Callable[[int], Sample] = field(repr=False)
    name: str = ""
    classes: Sequence[str] = ()
    split: str | None = None
    unread: tuple[str, ...] = ()
    folder: Path | None = field(default=None, repr=False)
    gives: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    task: str | None = None
    is_ordered: bool = True

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.length:
            raise IndexError(index)
        return self.read(index)

    def __iter__(self) -> Iterator[Sample]:
        return (self.read(index) for index in range(self.length))

    def choose(self, limit: int | None, seed: int = 0) -> list[int]:
        """Return the indices of ``limit`` inputs, drawn at random from a seed; if there are no more than ``limit``, all of them in
        order.
        """
        if limit is None or limit >= self.length:
            return list(range(self.length))
        indices: list[int] = np.random.default_rng(seed).permutation(self.length)[:limit].tolist()
        return indices

    def at(self, indices: Sequence[int]) -> Dataset:
        """Return the data set of the inputs at these ``indices`` alone, in this order."""
        return replace(self, length=len(indices), read=lambda index: self.read(indices[index]))

    def class_of(self, label: str | int, model: Model) -> int | None:
        """Return the index of a label among the model's classes; None if the model has no such class.

        A label is looked for among the model's WordNet synsets, then among its names and synonyms (whatever their case, underscores and
        hyphens), then as an index. If the model has none of the data set's names and as many classes, they are those of the data set, in
        the same order; names that are only in the order of the alphabet tell this to a model without names alone.
        """
        if isinstance(label, str) and (index := self._named(label, model)) is not None:
            return index
        if model.kind == "clip" or not self.classes or len(self.classes) != len(model.labels):
            return None
        if isinstance(label, int):
            return label
        return list(self.classes).index(label) if label in self.classes and self._is_in_order_of(model) else None

    def _named(self, label: str, model: Model) -> int | None:
        """Return the index of the model's class with this synset, name, synonym or number; None if there is none."""
        if (synset := _SYNSET.match(label)) is not None:  # alone, or before a name, as in n02085620-Chihuahua
            for place, entry in enumerate(model.classes):
                if entry.wnid == synset[0]:
                    return place
        if (index := index_of_name(label, model.labels, model.synonyms)) is not None:
            return index
        is_number = label.isascii() and label.isdecimal() and int(label) < len(model.labels)
        return int(label) if is_number else None

    def _is_in_order_of(self, model: Model) -> bool:
        if not self.is_ordered and not all(map(_UNNAMED.fullmatch, model.labels)):
            return False
        return all(self._named(name, model) is None for name in self.classes)

    def classes_of(self, label: str | int, model: Model) -> frozenset[int]:
        """Return the indices of all classes of the model that a label includes: its own class, and those of the group of that name.

        Data sets often name wider things than a model does: COCO's "cat" is five of ImageNet's classes.
        """
        index = self.class_of(label, model)
        group = group_called(label, model.groups) if isinstance(label, str) else None
        members = () if group is None else model.groups[group]
        return frozenset(members if index is None else (index, *members))
