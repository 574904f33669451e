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
    """A target about one class, named by label or index, for a CLIP model by prompt; None is the top class."""

    name: str | int | None = None

    has_probability = True

    def __str__(self) -> str:
        return f"{self.kind}:{'' if self.name is None else self.name}"

    def names(self) -> tuple[Any, ...]:
        """Return the name of the class that the target is about, in a tuple. Raises ExplainerError if it is no single class."""
        if isinstance(self.name, Target):
            raise ExplainerError(f"{self.kind.upper()} explains a single class, and {self.name!r} is not a single class: name a class.")
        return (self.name,)

    def probability(self, logits: NamedLogits) -> Tensor:
        """Return the probability (B,) of the named class, from the logits of a batch."""
        return logits.probability(self.name)

    def index(self, logits: NamedLogits) -> Tensor:
        """Return the index (B,) of the named class, for each sample of ``logits``."""
        return logits.indices(self.name)[..., 0]

    def value(self, logits: NamedLogits) -> Tensor:
        """Return the sum (B,) of the logits, each multiplied by the relevance with which the backward pass starts there."""
        return (self.output_gradient(logits) * logits.logits).sum(-1)

    def check(self, logits: NamedLogits) -> None:
        """Raise ExplainerError if these logits belong to a model with a single class."""
        if logits.logits.shape[-1] < 2:
            raise ExplainerError(f"{self.kind.upper()} sets a class against the others, and this model has one: explain its logit.")

    def with_top_class(self, index: int) -> Target:
        """Return the target of the class ``index`` if no class is named, else the same target."""
        return replace(self, name=TopClass(index)) if self.name is None else self

    def label(self, name_of: NameOf) -> str:
        """Return the label of this target for people, such as ``zebra (CLRP)``; ``name_of`` returns the label of a class from its name."""
        return f"{name_of(self.name)} ({self.kind.upper()})"

    def text(self, name_of: NameOf) -> str:
        """Return the label of the class, as it is written after the kind of target and a colon; ``name_of`` returns the label of a class
        from its name.
        """
        return name_of(self.name)

    @classmethod
    def parse(cls, text: str, read_name: ReadName) -> Target:
        """Return the target for the class that ``text`` names, or for the top class if it is empty; ``read_name`` turns the text into a
        label or an index.
        """
        return cls(read_name(text) if text else None)


@dataclass(frozen=True)
class _Others(OfOneClass):
    """All classes but one together, each with weight 1/(C - 1): the dual concept of CLRP."""

    kind = "others"

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Return the start (B, C) of relevance at ``logits``: 1/(C - 1) at every other class, 0 at the class itself."""
        count = logits.logits.shape[-1] - 1
        return torch.full_like(logits.logits, 1 / count).scatter(-1, logits.indices(self.name), 0.0)


@add_target
@dataclass(frozen=True)
class CLRP(OfOneClass):
    """A class rather than all others, by contrastive LRP (Gu et al. 2018): for each token the positive part of its score for the class
    minus its score for the other classes together.

    Two maps are made by the same method. One starts with 1 at the class, the other with 1/(C - 1) at each of the other classes. Rules of
    relevance do not add up two starts, so no single start stands for both. The positive part of each token's (or pixel's) score is taken
    last, so the scores of the map have no meaningful sum. The explained number is the logit less the mean logit of the other classes.
    """

    kind = "clrp"
    source = CLRP_PAPER
    note = (
        "CLRP (Gu et al., 2018): this method's map of the class, less its map of all other classes together, of which the positive part is "
        "kept in each token; zero is what speaks as much for the others."
    )

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Return the gradient (B, C) of the explained number with respect to ``logits``: 1 at the class, -1/(C - 1) at each other."""
        towards, others = (half.output_gradient(logits) for half in self.halves)
        return towards - others

    @property
    def halves(self) -> tuple[Target, Target]:
        """The two targets whose maps are subtracted: the class, and the other classes together."""
        return OneClass(self.name), _Others(self.name)


@add_target
@dataclass(frozen=True)
class SGLRP(OfOneClass):
    """A class rather than all others, by softmax-gradient LRP (Iwana et al. 2019): relevance starts as the gradient of the class's
    probability p_t, with p_t (1 - p_t) at the class and -p_t p_c at each other class c. p is the softmax of the logits, not calibrated.

    The explained number is p_t times how far the logit is above the mean of all logits, each counted by its probability.
    """

    kind = "sglrp"
    source = SGLRP_PAPER
    note = (
        "SGLRP (Iwana et al., 2019): what goes back starts with p (1 - p) at the class of probability p and with -p q at each other of "
        "probability q, so that a class that the model is sure of starts with little."
    )

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Return the start (B, C) of relevance at ``logits``, with their softmax p: p_t (1 - p_t) at the class, -p_t p_c at the others."""
        p = logits.logits.softmax(-1)
        of_class = p.gather(-1, logits.indices(self.name))
        return of_class * (torch.zeros_like(p).scatter(-1, logits.indices(self.name), 1.0) - p)

    def check(self, logits: NamedLogits) -> None:
        """Raise ExplainerError if these logits belong to a model without softmax, or with a single class."""
        super().check(logits)
        if logits.classes.output != "softmax":
            raise ExplainerError("SGLRP starts from a softmax, and the classes of this model exclude nothing: explain clrp, or a class.")
