"""One class rather than another: the difference of two logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from explainers.errors import ExplainerError
from explainers.records.targets.one_class import OneClass
from explainers.records.targets.registry import add_target, as_target
from explainers.records.targets.target import ClassSet, NamedLogits, NameOf, ReadName, Target


@add_target
@dataclass(frozen=True)
class Contrast(Target):
    """The logit of ``towards`` minus the logit of ``against``: why this class and not that one.

    Each side is a label, an index, :class:`AnyOf`, or for CLIP a prompt.
    """

    towards: str | int | Target
    against: str | int | Target

    kind = "contrast"
    has_prefix = False
    is_between_two = True

    @property
    def sides(self) -> tuple[Target, Target]:
        """Return both sides of this contrast as targets, the one for and the one against. Raises ExplainerError for a target that cannot be
        a side of a contrast.
        """
        sides = as_target(self.towards), as_target(self.against)
        for side in sides:
            if not (side.has_prefix or isinstance(side, OneClass)) or side.explains != "logit" or side.halves:
                raise ExplainerError(f"{side!r} cannot be set against another target: name a class, or a group as AnyOf(group).")
        return sides

    def names(self) -> tuple[Any, ...]:
        """Return the names of the classes of both sides."""
        towards, against = self.sides
        return (*towards.names(), *against.names())

    def value(self, logits: NamedLogits) -> Tensor:
        """Return the logit of ``towards`` minus the logit of ``against``, (B,), from the logits of a batch."""
        towards, against = self.sides
        return towards.value(logits) - against.value(logits)

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Return the gradient (B, C) of the difference with respect to ``logits``: 1 at the one class, -1 at the other."""
        towards, against = self.sides
        return towards.output_gradient(logits) - against.output_gradient(logits)

    def logit(self, logits: NamedLogits) -> Tensor:
        """Return the difference (B,) of the two logits as they are shown, in float64, since float32 would round again."""
        towards, against = self.sides
        return towards.logit(logits).double() - against.logit(logits).double()

    def probability(self, logits: NamedLogits) -> Tensor | None:
        """Return the probability (B,) of the side ``towards``, from ``logits``; None if it has none."""
        return self.sides[0].probability(logits)

    def check(self, logits: NamedLogits) -> None:
        """Raise ExplainerError if both sides are the same class of the model that gave ``logits``, or one side cannot be explained."""
        towards, against = self.sides
        for side in (towards, against):
            side.check(logits)
        if isinstance(towards, OneClass | ClassSet) and type(towards) is type(against):
            ours, theirs = (logits.indices(*side.names()) for side in (towards, against))
            same = ours.shape == theirs.shape and bool((ours == theirs).all(-1).any())
        else:
            same = towards == against
        if same:
            raise ExplainerError(f"The contrast of {str(self.towards)!r} with itself is zero: name two different classes.")

    def label(self, name_of: NameOf) -> str:
        """Return the label of this target for people, for example ``zebra − dog``; ``name_of`` returns the label of an entry of
        :meth:`names`.
        """
        towards, against = self.sides
        return f"{towards.label(name_of)} − {against.label(name_of)}"

    def to_json(self, name_of: NameOf) -> dict[str, Any]:
        """Return the description of this target in JSON: a dict with ``read``, and with both sides as they are written in ``of`` and
        ``against``. ``name_of`` returns the text of an entry of :meth:`names`.
        """
        towards, against = self.sides
        return {"read": self.explains, "of": towards.spelling(name_of), "against": against.spelling(name_of)}

    @classmethod
    def from_json(cls, info: Mapping[str, Any], read_name: ReadName) -> Contrast:
        """Return the contrast of the two sides, ``of`` and ``against``, in ``info``, the dict of a target in JSON; ``read_name`` turns each
        text into a label or a target.
        """
        return cls(read_name(info["of"]), read_name(info["against"]))
