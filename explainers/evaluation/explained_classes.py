"""Which classes of a model a run explains, and which count as right: from the labels of a data set."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from explainers.datasets import Dataset, Sample
from explainers.errors import ExplainerError
from explainers.models.labels import imagenet_entries
from explainers.models.model import Model
from explainers.records.targets import AnyOf, Contrast, Probability, Target
from explainers.records.targets.names import group_called, index_of_name

PROMPT = "a photo of a {}"
_NUMBER = re.compile(r"\d+")
_SYNSET = re.compile(r"n\d{8}")


@dataclass(frozen=True)
class ExplainedClass:
    """The class of a model that is explained, or a group of its classes for which the data set has one name.

    indices  the indices of the class or of all classes of the group
    group    the name of the group; None for a single class
    against  the class whose logit is subtracted from the logit of this one; None if none is subtracted
    """

    indices: tuple[int, ...]
    group: str | None = None
    against: ExplainedClass | None = None

    def among(self, classes: int) -> Tensor:
        """Return a mask bool (C,) over all C = ``classes`` classes of the model, true at the classes that are explained."""
        return class_mask(self.indices, classes)


@dataclass(frozen=True)
class ClassLookup:
    """A lookup from the labels of a data set to the classes of a model; the classes of a CLIP model are prompts, one for each class of the
    data set.

    prompt_indices  the indices of the prompts that a CLIP model is asked for, in their order; None: all
    """

    model: Model
    data: Dataset
    prompts: list[str] | None
    prompt_indices: tuple[int, ...] | None = None

    @property
    def prompt_texts(self) -> list[str] | None:
        """The prompts that a CLIP model compares pictures with; None for other models."""
        return (
            self.prompts if self.prompts is None or self.prompt_indices is None else [self.prompts[index] for index in self.prompt_indices]
        )

    def class_of(self, label: str | int) -> ExplainedClass | None:
        """Return the class of this label, else the group of that name; None if the model has neither."""
        if self.prompts is not None:
            index = self._prompt_index(label)
        else:
            index = self.data.class_of(label, self.model)
            group = group_called(label, self.model.groups) if isinstance(label, str) and self.model.output == "softmax" else None
            if index is None and group is not None:
                return ExplainedClass(self.model.groups[group], group)
        return None if index is None else ExplainedClass((index,))

    def classes_of(self, label: str | int) -> frozenset[int]:
        """Return the indices of all classes for which ``label`` stands: the class with that name, and the members of the group with that
        name.
        """
        if self.prompts is not None:
            index = self._prompt_index(label)
            return frozenset(() if index is None else (index,))
        return self.data.classes_of(label, self.model)

    def explained_classes(self, sample: Sample, target: str) -> list[ExplainedClass]:
        """Return the classes of the input ``sample`` that are explained for ``target``, a way of choosing them by its labels; there may be
        none.

        The target ``gold`` explains the class of the first label that the model knows, ``each`` and ``together`` those of all labels that
        it knows, and ``contrast`` the class of the first label against the class that the data set compares it with.
        """
        if target == "contrast":
            if not sample.labels or sample.against is None:
                return []
            towards, against = (self.class_of(label) for label in (sample.labels[0], sample.against))
            return [] if towards is None or against is None else [replace(towards, against=against)]
        labels = sample.labels if target == "gold" else labels_of(sample)
        known = [entry for label in labels if (entry := self.class_of(label)) is not None]
        return list({entry.indices: entry for entry in known}.values())[: 1 if target == "gold" else None]

    def right_classes(self, sample: Sample, first_alone: bool = False) -> frozenset[int]:
        """Return the indices of the classes of which any is a right answer for the input ``sample``.

        They are those of every label of an input and of every object that it shows, or those of the first label alone (``first_alone``).
        """
        labels = labels_of(sample)[: 1 if first_alone else None]
        return frozenset(index for label in labels for index in self.classes_of(label))

    def unknown_labels(self, sample: Sample) -> list[str]:
        """Return the labels of ``sample``, a data set's input, for which the model has neither a class nor a group."""
        return [str(label) for label in labels_of(sample) if self.class_of(label) is None]

    def target_of(self, explained: ExplainedClass, reads: str = "logit") -> str | int | Target:
        """Return the target of ``explain`` for the class ``explained``: a :class:`Contrast` with its ``against`` if it has one; a
        :class:`Probability` if ``reads`` is "probability"; else the class itself, as its index or name, whose logit is explained.
        """
        if explained.against is not None:
            return Contrast(self._name_of(explained), self._name_of(explained.against))
        return Probability(self._name_of(explained)) if reads == "probability" else self._name_of(explained)

    def _name_of(self, explained: ExplainedClass) -> int | str | AnyOf:
        if explained.group is not None:
            return AnyOf(explained.group)
        return explained.indices[0] if self.prompt_texts is None else self.prompt_texts[explained.indices[0]]

    def _prompt_index(self, label: str | int) -> int | None:
        """Return the index of ``label`` among the model's prompts; None if it is no prompt of the model."""
        index = label if isinstance(label, int) else index_of_name(label, self.data.classes)
        if index is None or self.prompt_indices is None:
            return index
        return self.prompt_indices.index(index) if index in self.prompt_indices else None


def labels_of(sample: Sample) -> list[str | int]:
    """Return all labels that a data set gives the input ``sample``, each once: first the label of the input, then the labels of its
    objects.
    """
    return list(dict.fromkeys([*sample.labels, *(obj.label for obj in sample.objects if obj.label is not None)]))


def class_mask(indices: Iterable[int], classes: int) -> Tensor:
    """Return a mask, bool (C,), over C = ``classes`` classes that is true at the ``indices``."""
    mask = torch.zeros(classes, dtype=torch.bool)
    mask[list(indices)] = True
    return mask


def prompts_of(data: Dataset) -> list[str]:
    """Return one prompt for each class of ``data``, a data set, for a CLIP model: made from its name, or for an ImageNet synset from its
    common name.

    Raises ExplainerError, with advice, if the data set has no list of classes or a class without a name.
    """
    if not data.classes:
        raise ExplainerError(f"CLIP compares pictures with names, and {data.name} has no list of classes: choose another data set.")
    names = {entry.wnid: entry.label for entry in imagenet_entries()} if any(map(_SYNSET.fullmatch, data.classes)) else {}
    prompts = [PROMPT.format(names.get(name, name).replace("_", " ")) for name in data.classes]
    nameless = [name for name in data.classes if _NUMBER.fullmatch(name) or (_SYNSET.fullmatch(name) and name not in names)]
    if nameless:
        raise ExplainerError(
            f"CLIP compares pictures with names, and {len(nameless)} classes of {data.name} have none (the first: {nameless[0]}): name the "
            "folders of your own pictures as the classes are called, such as 'tabby cat', or choose a data set whose classes have names."
        )
    return prompts
