"""Targets resolved for one batch: the classes that they name are found among those of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from explainers.autograd.rules import Rule
from explainers.errors import ExplainerError
from explainers.records.targets.names import Classes, TopClass, find_class
from explainers.records.targets.one_class import OneClass
from explainers.records.targets.registry import TargetLike, as_target
from explainers.records.targets.target import ClassSet, NamedLogits, NameOf, Target

_UNNAMED = Classes(())


@dataclass(frozen=True)
class ResolvedTarget:
    """A target resolved for one batch.

    target   the target; its names are class labels, indices or groups
    labels   for each of the B samples the label of what is explained
    places   name that the target gives -> the indices (B, M) of its classes among the logits
    classes  the model's classes, and what their logits mean
    """

    target: Target
    labels: tuple[str, ...]
    places: Mapping[Any, Tensor]
    classes: Classes = _UNNAMED

    @property
    def explains(self) -> str:
        """The kind of number that is explained: ``logit`` or ``probability``."""
        return self.target.explains

    @property
    def halves(self) -> tuple[ResolvedTarget, ResolvedTarget] | None:
        """The two halves of the target, resolved for the same batch, if its map is the map of one minus the map of the other; else None.
        See :attr:`Target.halves`.
        """
        halves = self.target.halves
        return None if halves is None else (replace(self, target=halves[0]), replace(self, target=halves[1]))

    @property
    def indices(self) -> tuple[Tensor, ...]:
        """The indices (B, M) of the classes of each name, in the order of the names."""
        return tuple(self.places.values())

    def repeat(self, times: int) -> ResolvedTarget:
        """Return the target for a batch in which each sample stands ``times`` times in a row."""
        labels = tuple(label for label in self.labels for _ in range(times))
        return replace(self, labels=labels, places={name: place.repeat_interleave(times, 0) for name, place in self.places.items()})

    def only(self, sample: int) -> ResolvedTarget:
        """Return the target for input number ``sample``, from 0, of the batch alone: a target of a batch of one."""
        row = slice(sample, sample + 1)
        return replace(self, labels=self.labels[row], places={name: place[row] for name, place in self.places.items()})

    def asks_the_same_as(self, other: ResolvedTarget) -> bool:
        """Return whether ``other`` explains the same number as this target, for every sample of the batch."""
        if (self.labels, type(self.target), len(self.places)) != (other.labels, type(other.target), len(other.places)):
            return False
        return all(torch.equal(mine, its) for mine, its in zip(self.indices, other.indices, strict=True))

    def name_logits(self, logits: Tensor, known: Tensor | None = None) -> NamedLogits:
        """Return the logits (B, C) together with the places of the classes that the target names, so that it reads them by name; ``known``
        are their probabilities, if already computed.
        """
        return NamedLogits(logits, self.places, self.classes, known)

    def value(self, logits: Tensor) -> Tensor:
        """Return the number f(x) (B,) that the scores explain, from the logits (B, C)."""
        return self.target.value(self.name_logits(logits))

    def account(self, logits: Tensor) -> Tensor:
        """Return the number (B,) that the terms of a full account add up to, from the logits (B, C); see :meth:`Target.account`."""
        return self.target.account(self.name_logits(logits))

    def output_gradient(self, logits: Tensor, rule: Rule) -> Tensor:
        """Return the signal at the logits, (B, C), with which a backward pass under ``rule`` begins.

        Raises ExplainerError for a probability under a relevance rule, which starts at classes.
        """
        if rule.is_relevance and self.explains == "probability":
            raise ExplainerError(
                f"The rule {rule.name} starts from one class, not from a probability: explain the logit of the class instead."
            )
        return self.target.output_gradient(self.name_logits(logits.detach()))

    def describe(self, logits: Tensor, probabilities: Tensor) -> dict[str, Any]:
        """Describe the target of the only sample, with logits and probabilities (1, C), as an explanation does: a dict with the keys of its
        JSON.
        """
        named, target = self.name_logits(logits, probabilities), self.target
        probability = target.probability(named) if target.has_probability and self.classes.output != "regression" else None
        index = target.index(named)
        return {
            "label": self.labels[0],
            "index": None if index is None else int(index),
            "logit": float(target.logit(named)),
            "probability": None if probability is None else float(probability),
            **target.to_json(_name_of(self.classes, self.places, 0, spelt=True)),
        }


def _name_of(classes: Classes, places: Mapping[Any, Tensor], sample: int, *, spelt: bool = False) -> NameOf:
    """Return a function from a name in a target to its label among ``classes`` for the sample number ``sample``, or with ``spelt`` to its
    spelling on the command line. ``places`` holds the indices (B, M) of classes for each name.
    """

    def name_of(name: Any) -> str:
        if isinstance(name, ClassSet):
            return name.spelling(name_of) if spelt else name.label(name_of)
        return classes.label(int(places[name][sample, 0]))

    return name_of


def expand_targets(targets: Sequence[Target], classes: Classes, logits: Tensor) -> list[Target]:
    """Return ``targets`` in order, with each one that stands for several classes, such as ``over:0.5``, replaced by a target for each of
    these classes. Which classes these are follows from the ``classes`` of the model and its logits (B, C) for a batch.
    """
    return [each for target in targets for each in target.expand(NamedLogits(logits, {}, classes))]


def resolve(target: TargetLike, classes: Classes, logits: Tensor) -> ResolvedTarget:
    """Find the classes that ``target`` names among ``classes``, for the logits (B, C) of a batch, and return the target with them; the top
    class is each sample's own. Raises ExplainerError for a class that the model does not have.
    """
    kind = as_target(target)
    places = {name: _place(name, classes, logits) for name in kind.names()}
    kind.check(NamedLogits(logits, places, classes))
    labels = tuple(kind.label(_name_of(classes, places, sample)) for sample in range(len(logits)))
    return ResolvedTarget(kind, labels, places, classes)


def _place(name: Any, classes: Classes, logits: Tensor) -> Tensor:
    """Return the indices (B, M) of the classes that ``name`` stands for among ``classes``: a label, a group, or None for the top class of
    each sample by its ``logits`` (B, C).
    """
    if name is None:
        return logits.detach().argmax(-1, keepdim=True)
    if isinstance(name, ClassSet):
        return torch.tensor(list(name.find(classes)), device=logits.device).expand(len(logits), -1)
    index = find_class(name, classes.labels, logits.shape[-1], classes.synonyms, classes.groups)
    return torch.full((len(logits), 1), index, device=logits.device)


def resolved_class(labels: Sequence[str], index: Tensor) -> ResolvedTarget:
    """Return the target that explains for each sample of a batch the logit of one class: ``index`` (B,) holds the indices of the classes,
    ``labels`` the text that is shown for each sample, in the same order.
    """
    return ResolvedTarget(OneClass(), tuple(labels), {None: index[:, None]})


def check_names(target: TargetLike, classes: Classes) -> int | Target:
    """Check that ``classes`` has every class and group that ``target`` names. Return the index of the class if the target is a single
    class, else the target itself as a :class:`Target`. Raises ExplainerError for a class or a group that the model does not have.
    """
    kind = as_target(target)
    logits = torch.zeros(1, len(classes.labels))
    places = {name: _place(name, classes, logits) for name in kind.names()}
    return int(places[kind.name]) if isinstance(kind, OneClass) else kind


def refuse_repeated(targets: Sequence[Target], chosen: Sequence[ResolvedTarget]) -> None:
    """Raise ExplainerError if two of ``targets`` explain the same number, because their maps could not be distinguished. ``chosen`` are the
    same targets, in the same order, resolved for a batch; a target whose top class was not named beforehand is ignored.
    """
    known: list[ResolvedTarget] = []
    for target, resolved in zip(targets, chosen, strict=True):
        if any(name is None or isinstance(name, TopClass) for name in target.names()):
            continue  # which class is the top one was not known beforehand
        if any(resolved.asks_the_same_as(other) for other in known):
            raise ExplainerError(f"The target {resolved.labels[0]!r} is named twice: name each target once.")
        known.append(resolved)


def prompts_of(targets: Sequence[Target], alone: bool = False) -> list[str]:
    """Return all prompts that the targets of a CLIP model name, each once, in order. Raises ExplainerError for a target that names
    anything but a text, and with ``alone`` for any that is not a single prompt.
    """
    named: list[str] = []
    for target in targets:
        if alone and not (isinstance(target, OneClass) and isinstance(target.name, str)):
            raise ExplainerError(
                f"The words of one prompt are explained here, and {target!r} is no prompt: write one, such as 'a photo of a zebra'."
            )
        for name in target.names():
            if not isinstance(name, str) or not name.strip():
                raise ExplainerError(
                    f"A CLIP model is asked with prompts, and {name!r} is no prompt: write one, such as 'a photo of a zebra'."
                )
            named.append(name)
    return list(dict.fromkeys(named))
