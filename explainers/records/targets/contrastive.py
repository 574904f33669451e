"""One class rather than all others: the contrastive starts of relevance, CLRP and SGLRP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.papers import CLRP_PAPER, SGLRP_PAPER
from explainers.records.targets.names import TopClass
from explainers.records.targets.one_class import OneClass
from explainers.records.targets.registry import add_target
from explainers.records.targets.target import NamedLogits, NameOf, ReadName, Target


@dataclass(frozen=True)
class OfOneClass(Target):
    """About a class, by label or index, of a CLIP model by prompt; None is the top class."""

    name: str | int | None = None

    has_probability = True

    def __str__(self) -> str:
        return f"{self.kind}:{'' if self.name is None else self.name}"

    def names(self) -> tuple[Any, ...]:
        """The class. Raises ExplainerError for what is no single one."""
        if isinstance(self.name, Target):
            raise ExplainerError(f"{self.kind.upper()} is about one class, and {self.name!r} is none: name one.")
        return (self.name,)

    def probability(self, logits: NamedLogits) -> Tensor:
        """Of the class."""
        return logits.probability(self.name)

    def index(self, logits: NamedLogits) -> Tensor:
        """Of the class."""
        return logits.indices(self.name)[..., 0]

    def value(self, logits: NamedLogits) -> Tensor:
        """The sum of the logits, each times its start."""
        return (self.output_gradient(logits) * logits.logits).sum(-1)

    def check(self, logits: NamedLogits) -> None:
        """Refuse a model of one class."""
        if logits.logits.shape[-1] < 2:
            raise ExplainerError(f"{self.kind.upper()} sets a class against the others, and this model has one: explain its logit.")

    def with_top_class(self, index: int) -> Target:
        """Of this class where none is named."""
        return replace(self, name=TopClass(index)) if self.name is None else self

    def label(self, name_of: NameOf) -> str:
        """``zebra (CLRP)``."""
        return f"{name_of(self.name)} ({self.kind.upper()})"

    def text(self, name_of: NameOf) -> str:
        """The class."""
        return name_of(self.name)

    @classmethod
    def parse(cls, text: str, read_name: ReadName) -> Target:
        """Of the class of this name; nothing is the top class."""
        return cls(read_name(text) if text else None)


@dataclass(frozen=True)
class _Others(OfOneClass):
    """All classes but one together: 1/(C - 1) at each, the dual concept of CLRP."""

    kind = "others"

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """1/(C - 1) at every other class."""
        count = logits.logits.shape[-1] - 1
        return torch.full_like(logits.logits, 1 / count).scatter(-1, logits.indices(self.name), 0.0)


@add_target
@dataclass(frozen=True)
class CLRP(OfOneClass):
    """A class rather than all others, contrastive LRP (Gu et al. 2018): of each token the positive part of its score for the class less its
    score for the other classes together.

    Two maps are made by the same method. One starts with 1 at the class, the other with 1/(C - 1) at each of the other classes. Rules of
    relevance do not add up two starts, so no single start stands for both. The positive part is taken last, of the score of each token (at
    the pixels, of each pixel); so the map adds up to nothing. The explained number is the logit less the mean logit of the other classes.
    """

    kind = "clrp"
    source = CLRP_PAPER
    note = (
        "CLRP (Gu et al., 2018): this method's map of the class, less its map of all other classes together, of which the positive part is "
        "kept in each token; zero is what speaks as much for the others."
    )

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """1 at the class, -1/(C - 1) at each other."""
        towards, others = (half.output_gradient(logits) for half in self.halves)
        return towards - others

    @property
    def halves(self) -> tuple[Target, Target]:
        """The class, and the others together."""
        return OneClass(self.name), _Others(self.name)


@add_target
@dataclass(frozen=True)
class SGLRP(OfOneClass):
    """A class rather than all others, softmax-gradient LRP (Iwana et al. 2019): relevance starts as the gradient of the class's probability
    p_t does, with p_t (1 - p_t) at the class and -p_t p_c at each other class c. p is the softmax of the logits, not calibrated.

    The explained number is p_t times how far the logit is above the mean of all logits, each counted by its probability.
    """

    kind = "sglrp"
    source = SGLRP_PAPER
    note = (
        "SGLRP (Iwana et al., 2019): what goes back starts with p (1 - p) at the class of probability p and with -p q at each other of "
        "probability q, so that a class that the model is sure of starts with little."
    )

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """p_t (1 - p_t) at the class, -p_t p_c at the others."""
        p = logits.logits.softmax(-1)
        of_class = p.gather(-1, logits.indices(self.name))
        return of_class * (torch.zeros_like(p).scatter(-1, logits.indices(self.name), 1.0) - p)

    def check(self, logits: NamedLogits) -> None:
        """Refuse what has no softmax."""
        super().check(logits)
        if logits.classes.output != "softmax":
            raise ExplainerError("SGLRP starts from a softmax, and the classes of this model exclude nothing: explain clrp, or a class.")
