"""What is explained: the logit of a class, its probability, a contrast of two logits, the similarity to a prompt."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.rules import Rule


@dataclass(frozen=True)
class Contrast:
    """The logit of ``towards`` minus the logit of ``against``: why this and not that. Each a label, an index, or for CLIP a prompt."""

    towards: str | int
    against: str | int


@dataclass(frozen=True)
class Probability:
    """The softmax probability of a class instead of its logit; None is the top class."""

    of: str | int | None = None


Target = None | int | str | Contrast | Probability


@dataclass(frozen=True)
class Chosen:
    """A target of one batch, resolved: a label for each sample, class indices (B,), and how it is computed."""

    labels: tuple[str, ...]
    index: Tensor
    against: Tensor | None = None
    probability: bool = False

    def repeat(self, times: int) -> Chosen:
        """The same targets for a batch in which each sample stands ``times`` times in a row."""
        labels = tuple(label for label in self.labels for _ in range(times))
        against = None if self.against is None else self.against.repeat_interleave(times)
        return Chosen(labels, self.index.repeat_interleave(times), against, self.probability)

    def only(self, sample: int) -> Chosen:
        """The target of one sample of the batch."""
        own = slice(sample, sample + 1)
        return Chosen(self.labels[own], self.index[own], None if self.against is None else self.against[own], self.probability)

    def value(self, logits: Tensor) -> Tensor:
        """f(x) (B,) from the logits (B, C): what the scores explain."""
        rows = torch.arange(len(logits), device=logits.device)
        if self.probability:
            return logits.softmax(-1)[rows, self.index]
        value = logits[rows, self.index]
        return value if self.against is None else value - logits[rows, self.against]

    def seed(self, logits: Tensor, rule: Rule) -> Tensor:
        """The signal at the logits (B, C). Raises ExplainerError for a probability under a relevance rule, which starts one-hot."""
        rows = torch.arange(len(logits), device=logits.device)
        seed = torch.zeros_like(logits)
        seed[rows, self.index] = 1
        if self.against is not None:
            seed[rows, self.against] -= 1
        if self.probability:
            if rule.is_relevance:
                raise ExplainerError(
                    f"The rule {rule.name} starts from one class, not from a probability: explain the logit (target=label) instead."
                )
            p = logits.detach().softmax(-1)
            seed = p[rows, self.index, None] * (seed - p)
        return seed


def as_list(target: object) -> list[Target]:
    """One target or several as a list; raises ExplainerError for what is no target."""
    several: list[Any] = list(target) if isinstance(target, list | tuple) else [target]
    if not several:
        raise ExplainerError("The list of targets is empty: name at least one class, or pass None for the top class.")
    for one in several:
        if isinstance(one, bool) or not isinstance(one, int | str | Contrast | Probability | None):
            raise ExplainerError(
                f"{one!r} is no target: pass a label, a class index, Contrast(a, b), Probability(a), or for CLIP a prompt."
            )
    return several


def prompts_of(targets: Sequence[Target], alone: bool = False) -> list[str]:
    """All prompts that the targets of a CLIP model name, each once, in order. Raises ExplainerError where there is none, and for a
    contrast or a probability, which belong to several prompts, where each prompt is explained ``alone``.
    """
    named: list[str] = []
    for target in targets:
        if alone and not isinstance(target, str):
            raise ExplainerError("The words of one prompt are explained here: pass target='a photo of a zebra', or a list of prompts.")
        parts = (
            (target.towards, target.against)
            if isinstance(target, Contrast)
            else (target.of,)
            if isinstance(target, Probability)
            else (target,)
        )
        for part in parts:
            if not isinstance(part, str) or not part.strip():
                raise ExplainerError("A CLIP model is asked with prompts: pass target='a photo of a zebra', or a list of prompts.")
            named.append(part)
    return list(dict.fromkeys(named))


def find_class(name: str | int, labels: Sequence[str], classes: int) -> int:
    """Index of a class by label (exact, else without regard to case) or index. Raises ExplainerError naming near misses."""
    if isinstance(name, int):
        if not -classes <= name < classes:
            raise ExplainerError(f"Class {name} does not exist: the model has {classes} classes, 0 to {classes - 1}.")
        return name % classes
    if name in labels:
        return list(labels).index(name)
    folded = [label.casefold() for label in labels]
    if folded.count(name.casefold()) == 1:
        return folded.index(name.casefold())
    near = difflib.get_close_matches(name.casefold(), folded, n=3)
    hint = f"did you mean {', '.join(labels[folded.index(n)] for n in near)}?" if near else f"the model knows {', '.join(labels[:6])}, ..."
    raise ExplainerError(f"There is no class {name!r}; {hint}")


def choose(target: Target, labels: Sequence[str], logits: Tensor) -> Chosen:
    """Resolve a target for the logits (B, C) of a batch; None is each sample's top class."""
    batch, classes = logits.shape

    def index_of(name: str | int | None) -> Tensor:
        if name is None:
            return logits.detach().argmax(-1)
        return torch.full((batch,), find_class(name, labels, classes), device=logits.device)

    def label_of(index: Tensor) -> list[str]:
        return [labels[int(i)] if int(i) < len(labels) else f"class {int(i)}" for i in index]

    if isinstance(target, Contrast):
        a, b = index_of(target.towards), index_of(target.against)
        if bool((a == b).any()):
            raise ExplainerError(f"The contrast of {target.towards!r} with itself is zero: name two different classes.")
        return Chosen(tuple(f"{x} − {y}" for x, y in zip(label_of(a), label_of(b), strict=True)), a, against=b)
    if isinstance(target, Probability):
        index = index_of(target.of)
        return Chosen(tuple(f"p({x})" for x in label_of(index)), index, probability=True)
    index = index_of(target)
    return Chosen(tuple(label_of(index)), index)
