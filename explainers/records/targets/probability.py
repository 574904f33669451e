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
    """The probability of a class, or of all classes of a group together; None is the top class. It is a softmax or a sigmoid, depending on
    the model.
    """

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
        """Return the names of the class or group whose probability is explained."""
        return self._class.names()

    def value(self, logits: NamedLogits) -> Tensor:
        """Return the probability (B,) of the class or group, from the logits of a batch."""
        return self._class.probability(logits)

    def output_gradient(self, logits: NamedLogits) -> Tensor:
        """Return the gradient (B, C) of the probability with respect to ``logits``, through the softmax or the sigmoids."""
        return logits.probability_gradient(*self.names())

    def account(self, logits: NamedLogits) -> Tensor:
        """Return the probability itself (B,), from ``logits``; no rule has terms that add up to it."""
        return self.value(logits)

    def logit(self, logits: NamedLogits) -> Tensor:
        """Return the logit (B,) of the class; for a group the log-sum-exp."""
        return self._class.value(logits)

    def probability(self, logits: NamedLogits) -> Tensor:
        """Return the probability (B,), which is the explained number, from ``logits``."""
        return self.value(logits)

    def index(self, logits: NamedLogits) -> Tensor | None:
        """Return the index (B,) of the class, for each sample of ``logits``; None for a group."""
        return self._class.index(logits)

    def check(self, logits: NamedLogits) -> None:
        """Raise ExplainerError if these logits belong to a model that gives no probabilities."""
        if logits.classes.output == "regression":
            raise ExplainerError("This model gives values, not probabilities: explain the value itself.")

    def with_top_class(self, index: int) -> Probability:
        """Return the probability of the class ``index`` if no class is named, else the same target."""
        return Probability(TopClass(index)) if self.of is None else self

    def label(self, name_of: NameOf) -> str:
        """Return the label of this target for people, such as ``p(zebra)``; ``name_of`` returns the label of an entry of :meth:`names`."""
        return f"p({self._class.label(name_of)})"

    def to_json(self, name_of: NameOf) -> dict[str, Any]:
        """Return the description in JSON of the class or group whose probability is explained, as a dict with the fields of
        :class:`TargetInfo`: ``read`` is "probability", ``of`` the class or group as it is written, such as ``zebra`` or ``any:dog``; a
        group has its name in ``group`` as well. ``name_of`` returns the text of an entry of :meth:`names`.
        """
        of_class = self._class
        return {**of_class.to_json(name_of), "read": self.explains, "of": of_class.spelling(name_of)}

    @classmethod
    def from_json(cls, info: Mapping[str, Any], read_name: ReadName) -> Probability:
        """Return the probability of the class or group that ``info``, the dict of :meth:`to_json` with the index and label of the class,
        describes; ``read_name`` turns the text of a class or group into its name or a target.
        """
        of_class = OneClass.from_json(info, read_name)
        return cls(of_class.name if isinstance(of_class, OneClass) else of_class)  # type: ignore[arg-type]
