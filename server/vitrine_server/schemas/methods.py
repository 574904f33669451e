"""Methods, the rules that they go with, how far they can be trusted, and what can be looked at in the heads of a model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from explainers.methods.declaration import Promise
from explainers.methods.variants import Variant
from explainers.records.result import OptionValue
from vitrine_server.schemas.base import CitationFields, Schema, absent


class MethodOption(Schema):
    """An option of a method."""

    name: str
    kind: Literal["int", "float", "bool", "str"]
    default: OptionValue | None
    help: str
    minimum: float | None
    maximum: float | None
    choices: list[str]
    allowed: str = Field(description="In words.")


class MethodPair(CitationFields):
    """A method combined with one rule."""

    spec: str
    rule: str | None
    title: str
    names_rule: bool = Field(description="Whether the title says the rule.")
    adds_up_to: str | None
    reason: str | None
    remedies: list[str]
    line: str = Field(description="What it shows, in plain words.")


class Method(CitationFields):
    """A method, and every rule with which it can be combined."""

    name: str
    title: str
    family: str
    classic: bool
    rule: str | None = Field(description="The usual one.")
    also: list[str]
    rules: list[str] = Field(description="Those that it is listed with.")
    signed: bool
    class_specific: bool
    description: str
    needs: dict[str, str] = Field(description="What the model must have, in words.")
    passes: str
    slow: bool
    default: bool
    promise: Promise | None
    summed: bool
    class_attention: str | None
    options: list[MethodOption]
    pairs: list[MethodPair]


class Rule(CitationFields):
    """A backward rule: a choice for each kind of operator."""

    name: str
    title: str
    label: str
    short: str
    group: str
    attention: str
    norm: str
    activation: str
    product: str
    linear: str
    bias: bool
    strength: dict[str, float]


class RuleChoice(Schema):
    """One choice of a rule for operators of a kind."""

    value: str | bool
    title: str
    says: str
    carries: str | None = Field(description="What a rule with it must carry; null where both will do.")


class OperatorKind(Schema):
    """A kind of operators, and the choices that a rule can make for them."""

    name: str
    title: str
    covers: str
    choices: list[RuleChoice]


class Rules(Schema):
    """All backward rules, and the choices from which one's own rule can be made."""

    rules: list[Rule]
    kinds: list[OperatorKind]


class MethodFamily(Schema):
    """A family of methods that work in a similar way."""

    name: str
    title: str
    line: str


class Preset(Schema):
    """A named set of methods to start with."""

    name: str
    title: str
    says: str
    specs: list[str]


class RankingMetric(Schema):
    """A metric by which methods are ranked, and the sentence that reports its value."""

    name: str
    title: str
    unit: str
    direction: str
    says: str = Field(description="What it found of a method, in words, with ``{value}`` and ``{random}`` in per cent.")


class Place(Schema):
    """The rank and figures of a method in a run."""

    rank: int
    of: int
    value: float
    low: float | None
    high: float | None
    tied: bool = Field(description="Whether it cannot be told from the best.")
    second_value: float | None


class Standing(Schema):
    """The ranks of methods in a run that ships with Vitrine: how far each can be trusted."""

    run: str
    model: str
    measured: str = Field(description="On what, in words.")
    inputs: str = Field(description="On how many inputs, in words: the beginning of ``measured``.")
    metric: RankingMetric
    second: RankingMetric | None = Field(description="By what those that are tied with the best are no worse either.")
    random: float | None = Field(description="What random scores have.")
    random_second: float | None
    ranks: dict[str, Place]
    here: bool = Field(description="Whether it was measured on this very model.")


class MethodCounts(Schema):
    """The numbers of readouts, methods, listed methods and parts."""

    readouts: int
    methods: int
    listed: int
    parts: int


class SpecParts(Schema):
    """A requested spec, split into method, rule and options."""

    spec: str
    pair: str = Field(description="The spec of the method with its rule alone, as ``pairs`` and ``variants`` list it.")
    readout: str
    rule: str | None
    options: dict[str, OptionValue]


class TogetherMethods(Schema):
    """The methods for several prompts that are asked together of a CLIP model."""

    standing: Standing
    usual: list[str] = Field(description="The specs that are computed where a question names none.")
    specs: list[SpecParts] = Field(description="The parts of those that have options.")


class Methods(Schema):
    """All methods, their rules, and the measurements and sets that help to choose among them."""

    methods: list[Method]
    variants: list[Variant]
    rules: list[Rule]
    counts: MethodCounts = absent("Where no model is named.")
    families: list[MethodFamily]
    presets: list[Preset]
    standing: Standing | None
    together: TogetherMethods = absent("Of a CLIP model's image side.")
    specs: list[SpecParts] = absent("The parts of the specs that were asked about.")


class Quantity(Schema):
    """A quantity that every attention head has for each pair of tokens."""

    name: str
    title: str
    says: str
    signed: bool


class Quantities(Schema):
    """The quantities that can be shown for the attention heads of a model."""

    quantities: list[Quantity]
