"""The kinds of operators that a rule chooses for, with all choices there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from explainers.autograd.rules.choices import activation, attention, bias, linear, norm, product
from explainers.autograd.rules.choices.base import Choice, RuleChoice
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, Record, describe


def _described(choices: Sequence[Choice]) -> list[dict[str, Any]]:
    return [choice.described.to_json() for choice in choices]


@dataclass(frozen=True)
class Kind(Record, name="OperatorKind"):
    """A kind of operators: its name and title, what it covers, and the choices that a rule can make for it, the ordinary gradient's first.

    ``base`` is the class from which all of them derive.
    """

    name: str
    title: str
    covers: str
    base: Annotated[type[Choice], HIDDEN]
    choices: Annotated[tuple[Choice, ...], describe(kind=list[RuleChoice], write=_described)]

    @property
    def values(self) -> list[str]:
        """The names of the kind's choices as rules spell them, such as "jacobian"."""
        return [str(choice.value) for choice in self.choices]

    def choice(self, value: object) -> Choice | None:
        """Return the choice with this ``value``, its name in a rule, or None."""
        return next((choice for choice in self.choices if choice.value == value and type(choice.value) is type(value)), None)


def _kind(title: str, covers: str, base: type[Choice], choices: Sequence[Choice]) -> tuple[str, Kind]:
    return base.kind, Kind(base.kind, title, covers, base, tuple(choices))


#: The kinds of operators for which a rule names a choice: a dict from the field of :class:`Rule` (attention, norm, ...) to the kind,
#: with its title and its choices, each in one sentence.
OPERATOR_KINDS: dict[str, Kind] = dict(
    (
        _kind("Attention", "the softmax and the two matrix products of attention", attention.AttentionChoice, attention.CHOICES),
        _kind("Normalisation", "LayerNorm, RMSNorm, L2 normalisation, division", norm.NormChoice, norm.CHOICES),
        _kind("Activation", "GELU, SiLU, tanh and other curves", activation.ActivationChoice, activation.CHOICES),
        _kind(
            "Product", "two paths multiplied element by element, as in gated feed-forward layers", product.ProductChoice, product.CHOICES
        ),
        _kind("Linear, add", "linear layers, and sums of two paths", linear.LinearChoice, linear.CHOICES),
        _kind("Biases", "constants that are added; only the methods of FullGrad count them", bias.BiasChoice, bias.CHOICES),
    )
)


def add_choice(choice: Choice) -> Choice:
    """Register ``choice``, for one kind of operator, and return it: from then on rules can name it, and the rule mixer shows it.

    Raises ExplainerError for a choice that derives from none of the known base classes, and for a value that is no valid name or that
    another choice of its kind has.
    """
    kind = OPERATOR_KINDS.get(getattr(choice, "kind", ""))
    if kind is None or not isinstance(choice, kind.base):
        bases = ", ".join(known.base.__name__ for known in OPERATOR_KINDS.values())
        raise ExplainerError(f"{type(choice).__name__} is not a choice for any kind of operator: derive its class from one of {bases}.")
    if missing := [name for name in ("value", "title", "says") if not hasattr(choice, name)]:
        raise ExplainerError(f"The class {type(choice).__name__} lacks {', '.join(missing)}: a choice must define value, title and says.")
    if not (isinstance(choice.value, str) and re.fullmatch(r"[a-z0-9_]+", choice.value)):
        raise ExplainerError(f"A choice cannot be called {choice.value!r}: send lower-case letters, digits and _.")
    if kind.choice(choice.value) is not None:
        raise ExplainerError(f"There is already a choice {choice.kind}={choice.value}.")
    OPERATOR_KINDS[choice.kind] = replace(kind, choices=(*kind.choices, choice))
    return choice
