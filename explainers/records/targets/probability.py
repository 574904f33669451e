"""The probability of a class or of a group of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from explainers.errors import ExplainerError
from explainers.records.targets.names import TopClass
from explainers.records.targets.one_class import OneClass
from explainers.records.targets.registry import add_target, as_target
from explainers.records.targets.target import ClassSet, NamedLogits, NameOf, ReadName, Target


@add_target
@dataclass(frozen=True)
class Probability(Target):
    """The probability of a class, softmax or sigmoid as the model means it, or of all of a group together; None is the top class."""

    of: str | int | ClassSet | None = None

    kind = "probability"
    explains = "probability"
    has_prefix = False
    has_probability = True

    @property
    def _class(self) -> OneClass | ClassSet:
        of_class = as_target(self.of)
        if not isinstance(of_class, OneClass | ClassSet):
            raise ExplainerError(f"{of_class!r} has no probability: explain its logit, or the probability of a class or a group.")
        return of_class

    def names(self) -> tuple[Any, ...]:
        """The class."""
        return self._class.names()

    def value(self, logits: NamedLogits) -> Tensor:
        """The probability."""
        return self._class.probability(logits)

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Through the softmax or the sigmoids."""
        return logits.probability_gradient(*self.names())

    def account(self, logits: NamedLogits) -> Tensor:
        """The probability itself, which no rule's terms add up to."""
        return self.value(logits)

    def logit(self, logits: NamedLogits) -> Tensor:
        """Of the class."""
        return self._class.value(logits)

    def probability(self, logits: NamedLogits) -> Tensor:
        """The explained number."""
        return self.value(logits)

    def index(self, logits: NamedLogits) -> Tensor | None:
        """Of the class."""
        return self._class.index(logits)

    def check(self, logits: NamedLogits) -> None:
        """Refuse what has no probabilities."""
        if logits.classes.output == "regression":
            raise ExplainerError("This model gives values, not probabilities: explain the value itself.")

    def with_top_class(self, index: int) -> Probability:
        """Of this class where none is named."""
        return Probability(TopClass(index)) if self.of is None else self

    def label(self, name_of: NameOf) -> str:
        """``p(zebra)``."""
        return f"p({self._class.label(name_of)})"

    def to_json(self, name_of: NameOf) -> dict[str, Any]:
        """As its class, which is named."""
        of_class = self._class
        return {**of_class.to_json(name_of), "read": self.explains, "of": of_class.spelling(name_of)}

    @classmethod
    def from_json(cls, info: Mapping[str, Any], read_name: ReadName) -> Probability:
        """Of the class or group."""
        of_class = OneClass.from_json(info, read_name)
        return cls(of_class.name if isinstance(of_class, OneClass) else of_class)  # type: ignore[arg-type]
