"""A rule: one choice for each kind of operator."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Literal, overload

from explainers.autograd.rules.choices.activation import ActivationChoice
from explainers.autograd.rules.choices.attention import AttentionChoice
from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.choices.linear import LinearChoice
from explainers.autograd.rules.choices.norm import NormChoice
from explainers.autograd.rules.choices.product import ProductChoice
from explainers.autograd.rules.kinds import OPERATOR_KINDS
from explainers.autograd.rules.strength import Strength
from explainers.citation import UNKNOWN, Citation
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, INLINE, Record, describe


@dataclass(frozen=True)
class Rule(Record):
    """A backward rule: the name of a choice for each kind of operator (attention, norm, activation, product, linear), and whether it counts
    bias terms. :data:`OPERATOR_KINDS` lists the choices and what they do.

    bias      whether terms of biases are counted
    strength  parameters of the linear choices that have any, such as γ and ε
    name      its name in specs
    title     its name for people; ``short`` is its name in a label or a column below ``group``, the heading of related rules
    source    the publication

    Raises ExplainerError for a choice that does not exist, and for choices that cannot be combined.
    """

    attention: str = "jacobian"
    norm: str = "jacobian"
    activation: str = "jacobian"
    product: str = "jacobian"
    linear: str = "jacobian"
    bias: bool = True
    strength: Annotated[Strength, describe(kind=dict[str, float], write=asdict)] = Strength()  # noqa: RUF009  it is frozen
    name: str = "custom"
    title: str = "custom rule"
    short: Annotated[str, HIDDEN] = ""  # what a label or a column calls it; none: its title
    group: str = ""  # what stands before ``short``, once over the columns of the rules that share it
    source: Annotated[Citation, INLINE] = UNKNOWN
    _chosen: ClassVar[dict[str, Choice]]  # by kind: of each rule its own, and no field that rules are compared by

    @property
    def is_relevance(self) -> bool:
        """Return whether the signal is a relevance (starts one-hot, already multiplied by the tensor) and not a gradient."""
        return self._chosen["linear"].carries == "relevance"

    @property
    def is_ordinary(self) -> bool:
        """Return whether this is the ordinary gradient."""
        return all(choice.is_ordinary for choice in self._chosen.values())

    @property
    def accounts(self) -> bool:
        """Return whether the products of tokens with their signals, and the bias terms, add up to the number with which the backward pass
        began: FullGrad-completeness (Mehri et al. 2025). It holds if the surrogate that is differentiated is linear.
        """
        return all(choice.accounts for choice in self._chosen.values())

    @property
    def has_linear_form(self) -> bool:
        """Return whether contributions of single tokens can be sent forward under the rule:
        :mod:`explainers.autograd.forward_decomposition`.
        """
        return all(choice.has_linear_form for choice in self._chosen.values())

    @property
    def label(self) -> Annotated[str, describe()]:
        """The title of the rule on a plate or in a list."""
        return f"{self.group} {self._short_title}".strip()

    @property
    def _short_title(self) -> Annotated[str, describe(key="short")]:
        return self.short or self.title

    @property
    def choices(self) -> dict[str, str | bool]:
        """A dict from each kind of operator to the value of its choice."""
        return {field: getattr(self, field) for field in OPERATOR_KINDS}

    @overload
    def choice(self, kind: Literal["attention"]) -> AttentionChoice: ...
    @overload
    def choice(self, kind: Literal["norm"]) -> NormChoice: ...
    @overload
    def choice(self, kind: Literal["activation"]) -> ActivationChoice: ...
    @overload
    def choice(self, kind: Literal["product"]) -> ProductChoice: ...
    @overload
    def choice(self, kind: Literal["linear"]) -> LinearChoice: ...
    @overload
    def choice(self, kind: str) -> Choice: ...
    def choice(self, kind: str) -> Choice:
        """Return the choice for a kind of operator, which has a method for each operator of the kind."""
        return self._chosen[kind]

    def __post_init__(self) -> None:
        chosen, carried = {}, dict[str, list[str]]()
        for field, value in self.choices.items():
            choice = OPERATOR_KINDS[field].choice(value)
            if choice is None:
                raise ExplainerError(f"A rule has no choice {field}={value!r}: there are {', '.join(OPERATOR_KINDS[field].values)}.")
            chosen[field] = choice.with_strength(self.strength)
            if choice.carries is not None:
                carried.setdefault(choice.carries, []).append(f"{field}={value}")
        if len(carried) > 1:
            raise ExplainerError(
                f"A rule carries either gradients or relevance: {', '.join(carried['gradient'])} are for gradients, "
                f"{', '.join(carried['relevance'])} for relevance."
            )
        object.__setattr__(self, "_chosen", chosen)
