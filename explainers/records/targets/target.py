"""The base class of targets: the number of the output that is explained, its label, and how a person writes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from explainers.citation import Citation
from explainers.models.outputs import probabilities
from explainers.records.targets.names import Classes

#: Which number of the output is explained.
ExplainedNumber = Literal["logit", "probability"]
#: The name of a class as it is shown, or as it is written.
NameOf = Callable[[Any], str]
#: A class name from its text: a label, an index, or a set of classes such as ``any:dog``.
ReadName = Callable[[str], Any]


@dataclass(frozen=True, eq=False)
class NamedLogits:
    """The logits (B, C) of a batch, read by the names of classes.

    places    for each name that a target gives, the indices (B, M) of its classes: of a single class M is 1
    classes   what the logits mean
    known     the probabilities (B, C), if already computed
    """

    logits: Tensor
    places: Mapping[Any, Tensor]
    classes: Classes
    known: Tensor | None = None

    def indices(self, name: Any) -> Tensor:
        """Return the indices (B, M) of the classes that ``name`` stands for."""
        return self.places[name].to(self.logits.device).expand(len(self.logits), -1)

    def logit(self, name: Any) -> Tensor:
        """Return the logit (B,) of the class ``name``; for a name of several classes the log-sum-exp of their logits."""
        return self.logits.gather(-1, self.indices(name)).logsumexp(-1)

    def shares(self, name: Any) -> Tensor:
        """Return the gradient (B, C) of :meth:`logit` of ``name``: 1 at a class, among several the softmax of their logits."""
        indices = self.indices(name)
        return torch.zeros_like(self.logits).scatter(-1, indices, self.logits.gather(-1, indices).softmax(-1))

    def probability(self, name: Any) -> Tensor:
        """Return the calibrated probability (B,) of the class ``name``, or of several together."""
        known = self.classes.calibration.probabilities(self.logits, self.classes.output) if self.known is None else self.known
        return known.gather(-1, self.indices(name)).sum(-1)

    def probability_gradient(self, name: Any) -> Tensor:
        """Return the gradient (B, C) of :meth:`probability` of ``name`` with respect to the logits."""
        scale, lapse = self.classes.calibration.temperature, self.classes.calibration.lapse
        p, indices = probabilities(self.logits / scale, self.classes.output), self.indices(name)
        chosen = torch.zeros_like(p).scatter(-1, indices, p.gather(-1, indices))
        gradient = chosen - chosen.sum(-1, keepdim=True) * p if self.classes.output == "softmax" else chosen * (1 - p)
        return (1 - lapse) * gradient / scale


class Target(ABC):
    """A target: one number of a model's output that is explained. Each kind of target is a frozen dataclass that derives from this.

    A kind says which classes it names (:meth:`names`), which number it is (:meth:`value`), and how it is written after ``kind:``
    (:meth:`text` and :meth:`parse`), on the command line and over HTTP alike. Everything else has defaults that are derived from these.

    kind             its name in JSON, and before the colon where it is written
    explains         which number of the output it is; rules of relevance start from logits alone
    has_prefix       whether it is written as ``kind:text``, and can be one side of a contrast; the others have fields of their own
    has_probability  whether it has its own probability, which a deletion test then reads
    is_between_two   whether it is the log-odds of one answer where only it and another are possible
    note             a note for every map of it; None: no note
    source           the publication that it comes from, if any
    """

    kind: ClassVar[str]
    explains: ClassVar[ExplainedNumber] = "logit"
    has_prefix: ClassVar[bool] = True
    has_probability: ClassVar[bool] = False
    is_between_two: ClassVar[bool] = False
    note: ClassVar[str | None] = None
    source: ClassVar[Citation | None] = None

    @property
    def halves(self) -> tuple[Target, Target] | None:
        """The two targets, both about the same classes, if the map is the positive part of the first one's map minus the second one's; None
        for most kinds.
        """
        return None

    @abstractmethod
    def names(self) -> tuple[Any, ...]:
        """Return the classes that the target names, each a label, an index, a prompt, :class:`AnyOf`, or None for the top class."""

    @abstractmethod
    def value(self, logits: NamedLogits) -> Tensor:
        """Return the explained number f(x) (B,), made of the logits by differentiable functions."""

    def label(self, name_of: NameOf) -> str:
        """Return the label that is shown with maps; ``name_of`` returns the label of an entry of :meth:`names`."""
        return self.spelling(name_of)

    def text(self, name_of: NameOf) -> str:
        """Return the text after ``kind:`` where the target is written, which :meth:`parse` reads again; ``name_of`` returns the text of an
        entry of :meth:`names`.
        """
        raise NotImplementedError(f"a target of kind {self.kind} is not written as one text")

    @classmethod
    def parse(cls, text: str, read_name: ReadName) -> Target:
        """Return the target of this kind that ``text`` describes, the part after the colon where it is written as ``kind:text``;
        ``read_name`` turns the name of a class in it into a label, an index or a target. Raises ExplainerError for a text that cannot be
        read, and NotImplementedError for a kind that is not written in this way.
        """
        raise NotImplementedError(f"a target of kind {cls.kind} is not written as one text")

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Return the gradient (B, C) of :meth:`value` with respect to ``logits``, with which a backward pass begins; found by autograd
        unless a kind overrides it.
        """
        with torch.enable_grad():
            leaf = logits.logits.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.value(replace(logits, logits=leaf)).sum(), leaf)
        return gradient

    def account(self, logits: NamedLogits) -> Tensor:
        """Return, from ``logits``, the number (B,) that the terms of a full account add up to: the sum of each logit times its output
        gradient.
        """
        return (self.output_gradient(logits) * logits.logits).sum(-1)

    def logit(self, logits: NamedLogits) -> Tensor:
        """Return the logit (B,) that is shown with the label: the explained number, unless that is a probability."""
        return self.value(logits)

    def probability(self, logits: NamedLogits) -> Tensor | None:
        """Return the probability (B,) of the class of this target, from ``logits`` (B, C); None if the target is not about one class."""
        return None

    def index(self, logits: NamedLogits) -> Tensor | None:
        """Return the index (B,) of the class that the target is about, for each sample of ``logits``; None if it is no single class."""
        return None

    def check(self, logits: NamedLogits) -> None:  # noqa: B027  most kinds have nothing to refuse
        """Raise ExplainerError if a model with these logits does not have the number that the target explains."""

    def expand(self, logits: NamedLogits) -> Sequence[Target]:
        """Return the targets that this one stands for, given the logits (B, C): itself, unless it stands for several."""
        return (self,)

    def with_top_class(self, index: int) -> Target:
        """Return the target with the class ``index`` in place of an unnamed top class; otherwise unchanged."""
        return self

    def spelling(self, name_of: NameOf) -> str:
        """Return the target as text, ``kind:text``, as it is written on the command line and over HTTP; ``name_of`` returns the text of an
        entry of :meth:`names`.
        """
        return f"{self.kind}:{self.text(name_of)}"

    def to_json(self, name_of: NameOf) -> dict[str, Any]:
        """Return the description of the target in an explanation, without its numbers: a dict with the names of fields of
        :class:`TargetInfo`. ``name_of`` returns the text of an entry of :meth:`names`.
        """
        return {"kind": self.kind, "read": self.explains, "of": self.spelling(name_of)}

    @classmethod
    def from_json(cls, info: Mapping[str, Any], read_name: ReadName) -> Target:
        """Return the target that ``info``, the dict of a target in the JSON of an explanation, describes; ``read_name`` turns the text of a
        class into a label, an index or a target.
        """
        return cls.parse(info["of"].removeprefix(f"{cls.kind}:"), read_name)


class ClassSet(Target):
    """Several classes that stand together for one: the log-sum-exp of their logits, the sum of their probabilities."""

    has_probability = True

    @abstractmethod
    def find(self, classes: Classes) -> Sequence[int]:
        """Return the indices of the classes. Raises ExplainerError if the model has no such classes."""

    def names(self) -> tuple[Any, ...]:
        """Return the set itself as its only name."""
        return (self,)

    def value(self, logits: NamedLogits) -> Tensor:
        """Return the log-sum-exp (B,) of the logits of the classes, from the ``logits`` of a batch."""
        return logits.logit(self)

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Return the gradient (B, C): the signal divided among the classes by the softmax of their logits."""
        return logits.shares(self)

    def probability(self, logits: NamedLogits) -> Tensor:
        """Return the probability (B,) of all the classes together, from the logits of a batch."""
        return logits.probability(self)
