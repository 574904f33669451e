"""Every label over a line, each by itself: what a model of many labels says yes to."""

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
    """Every class whose probability is at least ``line``, the surest first: a target, and a map, each.

    ``explain`` puts the classes in its place once the model has answered, so it can't be a side of a contrast.
    """

    line: float

    kind = "over"

    def __post_init__(self) -> None:
        """Raise ExplainerError for what is no probability."""
        if not isinstance(self.line, int | float) or isinstance(self.line, bool) or not 0 < self.line <= 1:
            raise ExplainerError(f"over:{self.line} is no line among probabilities: send one such as over:0.5.")

    def names(self) -> tuple[Any, ...]:
        """None: which they are shows when the model has answered."""
        return ()

    def expand(self, logits: NamedLogits) -> Sequence[Target]:
        """The classes over the line. Raises ExplainerError where there is none, too many, no probability, or more than one input."""
        if logits.classes.output == "regression":
            raise ExplainerError(f"over:{self.line:g} asks for probabilities, and this model gives values: name them.")
        if len(logits.logits) != 1:
            raise ExplainerError(f"over:{self.line:g} is asked of one input at a time, and {len(logits.logits)} were sent.")
        p = logits.classes.calibration.probabilities(logits.logits.detach().float(), logits.classes.output)[0]
        order = p.argsort(descending=True, stable=True).tolist()
        reached = [index for index in order if p[index] >= self.line]
        if not reached:
            top = f"the highest is {logits.classes.label(order[0])} with {float(p[order[0]]):.3g}"
            raise ExplainerError(f"No label reaches {self.line:g}: {top}. Send a lower line.")
        if len(reached) > MOST:
            raise ExplainerError(f"{len(reached)} labels reach {self.line:g}, and at most {MOST} are explained at once: send a higher one.")
        return [OneClass(index) for index in reached]

    def value(self, logits: NamedLogits) -> Tensor:
        """None: it stands for several numbers. Raises ExplainerError."""
        raise ExplainerError(f"over:{self.line:g} stands for several labels, each explained by itself: name one of them here.")

    def check(self, logits: NamedLogits) -> None:
        """Refuse to be one number."""
        self.value(logits)

    def text(self, name_of: NameOf) -> str:
        """The line."""
        return f"{self.line:g}"

    @classmethod
    def parse(cls, text: str, read_name: ReadName) -> Over:
        """The line of this text."""
        try:
            return cls(float(text))
        except ValueError as error:
            if isinstance(error, ExplainerError):
                raise
            raise ExplainerError(f"over:{text} is no line among probabilities: send one such as over:0.5.") from None
