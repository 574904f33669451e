"""Every label above a threshold, each by itself: the labels that a model of many labels says yes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from explainers.errors import ExplainerError
from explainers.records.targets.one_class import OneClass
from explainers.records.targets.registry import add_target
from explainers.records.targets.target import NamedLogits, NameOf, ReadName, Target

MOST = 50  # labels that are explained at once


@add_target
@dataclass(frozen=True)
class Over(Target):
    """Every class whose probability is at least ``line``, the most probable first: each is a target with a map of its own.

    ``explain`` replaces it by the classes after the model has answered, so it cannot be a side of a contrast.
    """

    line: float

    kind = "over"

    def __post_init__(self) -> None:
        """Raise ExplainerError if ``line`` is no probability."""
        if not isinstance(self.line, int | float) or isinstance(self.line, bool) or not 0 < self.line <= 1:
            raise ExplainerError(f"over:{self.line} is no threshold for probabilities: send one such as over:0.5.")

    def names(self) -> tuple[Any, ...]:
        """Return no names: the classes are known only when the model has answered."""
        return ()

    def expand(self, logits: NamedLogits) -> Sequence[Target]:
        """Return as targets the classes whose probability, from ``logits``, reaches the threshold, the likeliest first. Raises
        ExplainerError if there are none or too many, if the model has no probabilities, or for more than one input.
        """
        if logits.classes.output == "regression":
            raise ExplainerError(f"over:{self.line:g} asks for probabilities, and this model gives values: name them.")
        if len(logits.logits) != 1:
            raise ExplainerError(f"over:{self.line:g} is asked of one input at a time, and {len(logits.logits)} were sent.")
        p = logits.classes.calibration.probabilities(logits.logits.detach().float(), logits.classes.output)[0]
        order = p.argsort(descending=True, stable=True).tolist()
        reached = [index for index in order if p[index] >= self.line]
        if not reached:
            top = f"the highest is {logits.classes.label(order[0])} with {float(p[order[0]]):.3g}"
            raise ExplainerError(f"No label reaches {self.line:g}: {top}. Send a lower threshold.")
        if len(reached) > MOST:
            raise ExplainerError(f"{len(reached)} labels reach {self.line:g}, and at most {MOST} are explained at once: send a higher one.")
        return [OneClass(index) for index in reached]

    def value(self, logits: NamedLogits) -> Tensor:
        """Raise ExplainerError, whatever the ``logits``: this target stands for several numbers."""
        raise ExplainerError(f"over:{self.line:g} stands for several labels, each explained by itself: name one of them here.")

    def check(self, logits: NamedLogits) -> None:
        """Raise ExplainerError, whatever the ``logits``: this target is not one number."""
        self.value(logits)

    def text(self, name_of: NameOf) -> str:
        """Return the threshold as text, as it is written after ``over:``. ``name_of`` is not used."""
        return f"{self.line:g}"

    @classmethod
    def parse(cls, text: str, read_name: ReadName) -> Over:
        """Return the target whose threshold ``text`` spells, such as ``0.5``. Raises ExplainerError if it is no threshold. ``read_name`` is
        not used.
        """
        try:
            return cls(float(text))
        except ValueError as error:
            if isinstance(error, ExplainerError):
                raise
            raise ExplainerError(f"over:{text} is no threshold for probabilities: send one such as over:0.5.") from None
