"""The names of classes: a label, an index, a synonym, or a group of classes, and the indices that each stands for."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from explainers.errors import ExplainerError
from explainers.models.companion_files.calibration import UNCALIBRATED, Calibration
from explainers.models.model import Model
from explainers.models.outputs import Output

#: Name of a class, synonym or group -> the indices of the classes it stands for.
Places = Mapping[str, Sequence[int]]
_NONE: Places = MappingProxyType({})
LONGEST_COMPARED = 100  # characters of a name for which near ones are looked for
_BETWEEN_WORDS = re.compile(r"[\s_-]+")


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


def spelling(name: str) -> str:
    """Return a name in the form in which names are compared: in lower case, with one space for spaces, underscores and hyphens."""
    return _BETWEEN_WORDS.sub(" ", name.casefold()).strip()


def index_of_name(name: str, labels: Sequence[str], synonyms: Places = _NONE) -> int | None:
    """Return the index of the class called ``name``: by its label in ``labels`` (exact, else in any case, else by its :func:`spelling`),
    or by a synonym that only one class has. None if there is none, or several.
    """
    if name in labels:
        return list(labels).index(name)
    in_any_case, by_spelling = _folded(tuple(labels))
    index = in_any_case.get(name.casefold())
    if index is not None:
        return index
    for form in dict.fromkeys((name.casefold(), spelling(name))):
        if indices := synonyms.get(form, ()):
            return indices[0] if len(indices) == 1 else None
        if form in by_spelling:
            return by_spelling[form]
    return None


def group_called(name: str, groups: Places) -> str | None:
    """Return the name in ``groups`` of the group called ``name``: in any case, else the only one with its :func:`spelling`. None if there
    is none, or several.
    """
    if name.casefold() in groups:
        return name.casefold()
    alike = [group for group in groups if spelling(group) == spelling(name)]
    return alike[0] if len(alike) == 1 else None


@lru_cache(maxsize=16)
def _folded(labels: tuple[str, ...]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the index of each of the ``labels`` by its lower case, and by its spelling; forms that several have are left out."""
    folded, spelled = [label.casefold() for label in labels], [spelling(label) for label in labels]
    counts, more = Counter(folded), Counter(spelled)
    return (
        {form: index for index, form in enumerate(folded) if counts[form] == 1},
        {form: index for index, form in enumerate(spelled) if more[form] == 1},
    )


def find_class(name: str | int, labels: Sequence[str], classes: int, synonyms: Places = _NONE, groups: Places = _NONE) -> int:
    """Return the index of the class called ``name``, among ``classes`` classes: by its label in ``labels`` or a synonym, as
    :func:`index_of_name` says, or by its index (also as text).

    Raises ExplainerError, with similar names, for an unknown name, and for one of ``groups``.
    """
    if isinstance(name, int):
        if not 0 <= name < classes:
            counted = f" Classes are not counted from the end: the last one is {classes - 1}." if name < 0 else ""
            raise ExplainerError(f"Class {name} does not exist: the model has {classes} classes, 0 to {classes - 1}.{counted}")
        return name
    if (index := index_of_name(name, labels, synonyms)) is not None:
        return index
    if indices := synonyms.get(name.casefold()) or synonyms.get(spelling(name), ()):
        raise ExplainerError(f"{name!r} may be {' or '.join(labels[i] for i in indices)}: name one of them.")
    if (group := group_called(name, groups)) is not None:
        raise ExplainerError(f"{name!r} is a group of classes, not a class: ask for any:{group}, in Python AnyOf({name!r}).")
    if name.isascii() and name.isdigit():
        return find_class(int(name), labels, classes)
    known = {word: labels[places[0]] for word, places in synonyms.items()} | {label.casefold(): label for label in labels}
    near = dict.fromkeys(known[word] for word in _similar_names(name.casefold(), known))
    hint = f"did you mean {', '.join(near)}?" if near else f"the model knows {', '.join(labels[:6])}{', ...' if len(labels) > 6 else '.'}"
    raise ExplainerError(f"There is no class {name!r}; {hint}")


def find_group(name: str, groups: Places, labels: Sequence[str] = ()) -> Sequence[int]:
    """Return the indices of the classes of the group ``name`` in ``groups``, found as :func:`group_called` says. Raises ExplainerError,
    with similar names, if there is no such group.
    """
    folded = name.casefold()
    if (group := group_called(name, groups)) is not None:
        return groups[group]
    if not groups:
        raise ExplainerError(f"This model has no groups of classes, so there is no any:{name}: name a class.")
    if folded in (label.casefold() for label in labels):
        raise ExplainerError(f"{name!r} is a class, not a group of classes: ask for it without any:.")
    near = _similar_names(folded, groups)
    largest = sorted(groups, key=lambda group: -len(groups[group]))[:6]
    hint = f"did you mean {', '.join(near)}?" if near else f"the model has {', '.join(largest)}, ..."
    raise ExplainerError(f"There is no group {name!r}; {hint}")
