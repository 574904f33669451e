"""A choice: one way back through the operators of one kind."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from explainers.autograd.rules.strength import Strength
from explainers.json_records import Record, describe

SignalKind = Literal["gradient", "relevance"]


@dataclass(frozen=True)
class RuleChoice(Record):
    """One choice that rules can make for a kind of operator: its name in rules (``value``), its title, a sentence on its effect (``says``),
    and whether such a rule must carry gradients or relevance.
    """

    value: str | bool
    title: str
    says: str
    carries: Annotated[SignalKind | None, describe("What a rule with it must carry; null where both will do.", kind=str | None)]


class Choice(ABC):
    """One way to propagate a signal back through the operators of one kind, with a method for each operator.

    kind      the field of a rule for which it is a choice
    value     its name in a rule
    title     its name for people
    says      what it does, in one sentence
    carries   what a rule with this choice must carry, gradients or relevance; None if both are possible
    holds     whether a gate, a scale or attention weights of this kind are constant when they multiply a path, which then gets the whole
              signal
    accounts  whether it passes on the whole signal, to tokens and biases: FullGrad-completeness
    has_linear_form  whether contributions of single tokens can be propagated forward under it, with non-linearities held constant
    is_ordinary      whether it is the ordinary gradient
    """

    kind: ClassVar[str]
    value: ClassVar[str | bool]
    title: ClassVar[str]
    says: ClassVar[str]
    carries: ClassVar[SignalKind | None] = None
    holds: ClassVar[bool] = False
    accounts: ClassVar[bool] = False
    has_linear_form: ClassVar[bool] = False
    is_ordinary: ClassVar[bool] = False

    @property
    def described(self) -> RuleChoice:
        """The choice as a record for the rule mixer: its value, its title and what it does."""
        return RuleChoice(self.value, self.title, self.says, self.carries)

    def with_strength(self, strength: Strength) -> Self:
        """Return the choice with the parameters in ``strength`` that it has; unchanged if it has none."""
        return self
