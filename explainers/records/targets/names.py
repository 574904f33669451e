"""The names of classes: a label, an index, a synonym, or a group of classes, and the indices that each stands for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from explainers.errors import ExplainerError
from explainers.models.companion_files.calibration import UNCALIBRATED, Calibration
from explainers.models.model import Model
from explainers.models.outputs import Output

#: Name of a class, synonym or group -> the indices of the classes it stands for.
Places = Mapping[str, Sequence[int]]
_NONE: Places = MappingProxyType({})
LONGEST_COMPARED = 100  # characters of a name for which near ones are looked for


class TopClass(int):
    """The index of the top class, chosen because no class was named: that of an input, or of a whole input whose parts are explained."""


@dataclass(frozen=True)
class Classes:
    """The classes of a model, or the prompts that take their place: their names (``labels``), groups and synonyms, what their logits mean
    (``output``), and the calibration of their probabilities.
    """

    labels: Sequence[str]
    groups: Places = field(default_factory=dict)
    synonyms: Places = field(default_factory=dict)
    output: Output = "softmax"
    calibration: Calibration = UNCALIBRATED

    @staticmethod
    def of(model: Model, labels: Sequence[str] | None = None) -> Classes:
        """Return the classes of a model; ``labels`` are the prompts of a CLIP model."""
        return Classes(model.labels if labels is None else labels, model.groups, model.synonyms, model.output, model.calibration)

    def label(self, index: int) -> str:
        """Return the label of the class at ``index``; ``class 7`` where it has none."""
        return self.labels[index] if index < len(self.labels) else f"class {index}"


def _similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three of the ``known`` names with a spelling similar to ``name``; none for a very long name, as the time to compare
    grows with the square of its length.
    """
    return difflib.get_close_matches(name, known, n=3) if len(name) <= LONGEST_COMPARED else []


def find_class(name: str | int, labels: Sequence[str], classes: int, synonyms: Places = _NONE, groups: Places = _NONE) -> int:
    """Return the index of the class called ``name``, among ``classes`` classes: by its label in ``labels`` (exact, else in any case), its
    index (also as text), or a synonym that only one class has.

    Raises ExplainerError, with similar names, for an unknown name, and for one of ``groups``.
    """
    if isinstance(name, int):
        if not 0 <= name < classes:
            counted = f" Classes are not counted from the end: the last one is {classes - 1}." if name < 0 else ""
            raise ExplainerError(f"Class {name} does not exist: the model has {classes} classes, 0 to {classes - 1}.{counted}")
        return name
    if name in labels:
        return list(labels).index(name)
    folded = [label.casefold() for label in labels]
    if folded.count(name.casefold()) == 1:
        return folded.index(name.casefold())
    indices = synonyms.get(name.casefold(), ())
    if len(indices) == 1:
        return indices[0]
    if indices:
        raise ExplainerError(f"{name!r} may be {' or '.join(labels[i] for i in indices)}: name one of them.")
    if name.casefold() in groups:
        raise ExplainerError(f"{name!r} is a group of classes, not a class: ask for any:{name.casefold()}, in Python AnyOf({name!r}).")
    if name.isascii() and name.isdigit():
        return find_class(int(name), labels, classes)
    known = {word: labels[indices[0]] for word, indices in synonyms.items()} | dict(zip(folded, labels, strict=True))
    near = dict.fromkeys(known[word] for word in _similar_names(name.casefold(), known))
    hint = f"did you mean {', '.join(near)}?" if near else f"the model knows {', '.join(labels[:6])}{', ...' if len(labels) > 6 else '.'}"
    raise ExplainerError(f"There is no class {name!r}; {hint}")


def find_group(name: str, groups: Places, labels: Sequence[str] = ()) -> Sequence[int]:
    """Return the indices of the classes of the group ``name`` in ``groups``; case is ignored. Raises ExplainerError, with similar names, if
    there is no such group.
    """
    folded = name.casefold()
    if folded in groups:
        return groups[folded]
    if not groups:
        raise ExplainerError(f"This model has no groups of classes, so there is no any:{name}: name a class.")
    if folded in (label.casefold() for label in labels):
        raise ExplainerError(f"{name!r} is a class, not a group of classes: ask for it without any:.")
    near = _similar_names(folded, groups)
    largest = sorted(groups, key=lambda group: -len(groups[group]))[:6]
    hint = f"did you mean {', '.join(near)}?" if near else f"the model has {', '.join(largest)}, ..."
    raise ExplainerError(f"There is no group {name!r}; {hint}")
