"""What is explained: the logit of a class or a group of classes, a probability, a contrast of two logits, the similarity to a prompt."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from explainers.autograd.rules import Rule
from explainers.errors import ExplainerError
from explainers.models.calibration import UNCALIBRATED, Calibration
from explainers.models.outputs import Output, probabilities

#: Name of a class, synonym or group -> the indices of the classes it stands for.
Places = Mapping[str, Sequence[int]]
_NONE: Places = MappingProxyType({})
_ANY = "any:"  # how the command line and HTTP write AnyOf


@dataclass(frozen=True)
class AnyOf:
    """Any class of a group, such as all dogs: the log-sum-exp of their logits. ``model.groups`` lists the groups.

    Its gradient divides the signal among the classes by the softmax of their logits. Rules that carry relevance start with 1 divided in
    the same shares, where they start with 1 at a single class otherwise.
    """

    group: str

    def __str__(self) -> str:
        return f"{_ANY}{self.group}"


@dataclass(frozen=True)
class Contrast:
    """The logit of ``towards`` minus the logit of ``against``: why this and not that.

    Each a label, an index, :class:`AnyOf`, or for CLIP a prompt.
    """

    towards: str | int | AnyOf
    against: str | int | AnyOf


@dataclass(frozen=True)
class Probability:
    """The probability of a class, softmax or sigmoid as the model means it, or of all of a group together; None is the top class."""

    of: str | int | AnyOf | None = None


class TopClass(int):
    """The index of a class that nobody named: the top one of an input, of which parts are explained for it."""


Target = None | int | str | AnyOf | Contrast | Probability


@dataclass(frozen=True)
class ResolvedTarget:
    """A target of one batch, resolved: a label for each sample, class indices (B,), and how it is computed.

    index, against  of a group (B, M): the indices of its classes
    group           the group's name, and that of the group it is set against
    calibration     what makes probabilities of the logits
    """

    labels: tuple[str, ...]
    index: Tensor
    against: Tensor | None = None
    probability: bool = False
    output: Output = "softmax"
    group: str | None = None
    against_group: str | None = None
    calibration: Calibration = UNCALIBRATED

    def repeat(self, times: int) -> ResolvedTarget:
        """The same targets for a batch in which each sample stands ``times`` times in a row."""
        labels = tuple(label for label in self.labels for _ in range(times))
        against = None if self.against is None else self.against.repeat_interleave(times, 0)
        return replace(self, labels=labels, index=self.index.repeat_interleave(times, 0), against=against)

    def asks_the_same_as(self, other: ResolvedTarget) -> bool:
        """Whether the same number is explained of every sample of the batch."""
        if (self.labels, self.probability, self.against is None) != (other.labels, other.probability, other.against is None):
            return False
        sides = [(self.index, other.index)]
        if self.against is not None and other.against is not None:
            sides.append((self.against, other.against))
        return all(torch.equal(mine, its) for mine, its in sides)

    def only(self, sample: int) -> ResolvedTarget:
        """The target of one sample of the batch."""
        row = slice(sample, sample + 1)
        against = None if self.against is None else self.against[row]
        return replace(self, labels=self.labels[row], index=self.index[row], against=against)

    def value(self, logits: Tensor) -> Tensor:
        """f(x) (B,) from the logits (B, C): what the scores explain."""
        if self.probability:
            return self.calibration.probabilities(logits, self.output).gather(-1, _columns(self.index)).sum(-1)
        value = _gathered(logits, self.index).logsumexp(-1)
        return value if self.against is None else value - _gathered(logits, self.against).logsumexp(-1)

    def account(self, logits: Tensor) -> Tensor:
        """What the terms of a full account add up to (B,): f(x), but for a group sum_c w_c logit_c, w the softmax over its classes.

        The rest of a group's log-sum-exp is the entropy of w, which no token has a part in.
        """
        return self.value(logits) if self.probability else (self._shares(logits) * logits).sum(-1)

    def seed(self, logits: Tensor, rule: Rule) -> Tensor:
        """The signal at the logits (B, C). Raises ExplainerError for a probability under a relevance rule, which starts at classes."""
        logits = logits.detach()
        if not self.probability:
            return self._shares(logits)
        if rule.is_relevance:
            raise ExplainerError(
                f"The rule {rule.name} starts from one class, not from a probability: explain the logit of the class instead."
            )
        scale, lapse = self.calibration.temperature, self.calibration.lapse
        p = probabilities(logits / scale, self.output)
        chosen_share = torch.zeros_like(p).scatter(-1, _columns(self.index), p.gather(-1, _columns(self.index)))
        seed = chosen_share - chosen_share.sum(-1, keepdim=True) * p if self.output == "softmax" else chosen_share * (1 - p)
        return (1 - lapse) * seed / scale

    def _shares(self, logits: Tensor) -> Tensor:
        """The gradient of the explained logit (B, C): 1 at a class, its softmax shares over a group, negative what it is set against."""
        shares = torch.zeros_like(logits).scatter(-1, _columns(self.index), _gathered(logits, self.index).softmax(-1))
        if self.against is not None:
            shares = shares.scatter_add(-1, _columns(self.against), -_gathered(logits, self.against).softmax(-1))
        return shares


def _columns(index: Tensor) -> Tensor:
    """Class indices as (B, M)."""
    return index[:, None] if index.dim() == 1 else index


def _gathered(logits: Tensor, index: Tensor) -> Tensor:
    """The logits (B, M) of the classes of a target."""
    return logits.gather(-1, _columns(index))


def named_target(text: str, labels: Sequence[str]) -> str | int | AnyOf:
    """A class as the command line and HTTP name it: a label, else ``any:`` and a group, else a whole number for an index."""
    if text in labels:
        return text
    if text.startswith(_ANY):
        return AnyOf(text.removeprefix(_ANY).strip())
    return int(text) if text.isascii() and text.isdigit() else text


def as_list(target: object) -> list[Target]:
    """One target or several as a list; raises ExplainerError for what is no target."""
    several: list[Any] = list(target) if isinstance(target, list | tuple) else [target]
    if not several:
        raise ExplainerError("The list of targets is empty: name at least one class, or None for the top class.")
    return [_target(entry) for entry in several]


def _target(entry: object) -> Target:
    """A target, its class indices plain whole numbers: torch and numpy have their own. Raises ExplainerError for what is none."""
    if isinstance(entry, Contrast):
        return Contrast(_index(entry.towards), _index(entry.against))
    if isinstance(entry, Probability):
        return Probability(_index(entry.of))
    plain = _index(entry)
    if not isinstance(plain, bool) and isinstance(plain, int | str | AnyOf | None):
        return plain
    kinds = "a label, a class index, AnyOf(group), Contrast(a, b), Probability(a), or for CLIP a prompt"
    several = " Several targets are a list: x.tolist()." if isinstance(entry, Tensor | np.ndarray) and entry.ndim else ""
    raise ExplainerError(f"{entry!r} is no target: pass {kinds}.{several}")


def _index(name: Any) -> Any:
    """A class index of torch or numpy as a plain whole number; anything else as it is."""
    dimensions = getattr(name, "ndim", 0)
    if dimensions or isinstance(name, int | np.bool_ | str) or not hasattr(name, "__index__"):
        return name
    try:
        return operator.index(name)
    except TypeError:  # a tensor of another type than whole numbers
        return name


def refuse_repeated(targets: Sequence[Target], chosen: Sequence[ResolvedTarget]) -> None:
    """Raise ExplainerError where two targets that were named are the same: their maps could not be told apart."""
    known: list[ResolvedTarget] = []
    for target, resolved in zip(targets, chosen, strict=True):
        name = target.of if isinstance(target, Probability) else target
        if name is None or isinstance(name, TopClass):
            continue  # which class is the top one was not known beforehand
        if any(resolved.asks_the_same_as(other) for other in known):
            raise ExplainerError(f"The target {resolved.labels[0]!r} is named twice: name each target once.")
        known.append(resolved)


def prompts_of(targets: Sequence[Target], alone: bool = False) -> list[str]:
    """All prompts that the targets of a CLIP model name, each once, in order. Raises ExplainerError where there is none, and for a
    contrast or a probability, which belong to several prompts, where each prompt is explained ``alone``.
    """
    named: list[str] = []
    for target in targets:
        if alone and not isinstance(target, str):
            raise ExplainerError(
                f"The words of one prompt are explained here, and {target!r} is none: name one, such as 'a photo of a zebra'."
            )
        parts = (
            (target.towards, target.against)
            if isinstance(target, Contrast)
            else (target.of,)
            if isinstance(target, Probability)
            else (target,)
        )
        for part in parts:
            if not isinstance(part, str) or not part.strip():
                raise ExplainerError(f"A CLIP model is asked with prompts, and {part!r} is none: name one, such as 'a photo of a zebra'.")
            named.append(part)
    return list(dict.fromkeys(named))


def find_class(name: str | int, labels: Sequence[str], classes: int, synonyms: Places = _NONE, groups: Places = _NONE) -> int:
    """Index of a class by label (exact, else without regard to case), index, or a synonym that one class alone has.

    Raises ExplainerError, naming near misses.
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
    known = {word: labels[indices[0]] for word, indices in synonyms.items()} | dict(zip(folded, labels, strict=True))
    near = dict.fromkeys(known[word] for word in difflib.get_close_matches(name.casefold(), known, n=3))
    hint = f"did you mean {', '.join(near)}?" if near else f"the model knows {', '.join(labels[:6])}{', ...' if len(labels) > 6 else '.'}"
    raise ExplainerError(f"There is no class {name!r}; {hint}")


def find_group(name: str, groups: Places, labels: Sequence[str] = ()) -> Sequence[int]:
    """The classes of a group, without regard to case. Raises ExplainerError, naming near misses."""
    folded = name.casefold()
    if folded in groups:
        return groups[folded]
    if not groups:
        raise ExplainerError(f"This model has no groups of classes, so there is no any:{name}: name a class.")
    if folded in (label.casefold() for label in labels):
        raise ExplainerError(f"{name!r} is a class, not a group of classes: ask for it without any:.")
    near = difflib.get_close_matches(folded, groups, n=3)
    largest = sorted(groups, key=lambda group: -len(groups[group]))[:6]
    hint = f"did you mean {', '.join(near)}?" if near else f"the model has {', '.join(largest)}, ..."
    raise ExplainerError(f"There is no group {name!r}; {hint}")


def choose(
    target: Target,
    labels: Sequence[str],
    logits: Tensor,
    *,
    groups: Places = _NONE,
    synonyms: Places = _NONE,
    calibration: Calibration = UNCALIBRATED,
    output: Output = "softmax",
) -> ResolvedTarget:
    """Resolve a target for the logits (B, C) of a batch, which mean ``output``; None is each sample's top class."""
    batch, classes = logits.shape

    def index_of(name: str | int | AnyOf | None) -> Tensor:
        if name is None:
            return logits.detach().argmax(-1)
        if isinstance(name, AnyOf):
            if output != "softmax":
                raise ExplainerError("The classes of this model do not exclude each other, so it has no any: of a group: name a class.")
            return torch.tensor(list(find_group(name.group, groups, labels)), device=logits.device).expand(batch, -1)
        return torch.full((batch,), find_class(name, labels, classes, synonyms, groups), device=logits.device)

    def label_of(name: str | int | AnyOf | None, index: Tensor) -> list[str]:
        if isinstance(name, AnyOf):
            return [f"any {name.group.casefold()}"] * batch
        return [labels[int(i)] if int(i) < len(labels) else f"class {int(i)}" for i in index]

    def group_of(name: str | int | AnyOf | None) -> str | None:
        return name.group.casefold() if isinstance(name, AnyOf) else None

    if isinstance(target, Contrast):
        a, b = index_of(target.towards), index_of(target.against)
        if a.shape == b.shape and bool((_columns(a) == _columns(b)).all(-1).any()):
            raise ExplainerError(f"The contrast of {str(target.towards)!r} with itself is zero: name two different classes.")
        both = zip(label_of(target.towards, a), label_of(target.against, b), strict=True)
        names = tuple(f"{x} − {y}" for x, y in both)
        return ResolvedTarget(names, a, b, group=group_of(target.towards), against_group=group_of(target.against), calibration=calibration)
    if isinstance(target, Probability):
        if output == "regression":
            raise ExplainerError("This model gives values, not probabilities: explain the value itself.")
        index = index_of(target.of)
        names = tuple(f"p({x})" for x in label_of(target.of, index))
        return ResolvedTarget(names, index, probability=True, group=group_of(target.of), calibration=calibration, output=output)
    index = index_of(target)
    return ResolvedTarget(tuple(label_of(target, index)), index, group=group_of(target), calibration=calibration)
