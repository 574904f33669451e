"""Methods with their rules, as the pages list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from explainers.autograd.rules import RULES
from explainers.citation import Citation
from explainers.json_records import INLINE, Record, describe, written_fields
from explainers.methods.declaration import Method, name_of
from explainers.methods.registry import METHODS


@dataclass(frozen=True)
class Variant(Record):
    """A method with one of its rules, as lists of methods show it: its spec and title, whether scores have a sign and depend on the class,
    what it computes (``description``) and costs (``passes``, ``slow``), and why it cannot run for a model, if so.

    method_name     name of the method, the first part of the spec
    rule            name of the backward rule; None for a method that reads no signal
    source          the publication
    signed          whether scores tell evidence for the target from evidence against it
    class_specific  whether another target can have another map
    default         whether the pages ask for it if nobody chooses methods
    """

    spec: str
    method_name: Annotated[str, describe(key="readout")]
    rule: str | None
    title: str
    source: Annotated[Citation, INLINE]
    signed: bool
    class_specific: bool
    slow: bool
    default: bool
    description: str
    passes: str
    names_rule: Annotated[bool, describe("Whether the title says the rule.")] = False
    adds_up_to: Annotated[str | None, describe("The number that its scores promise to add up to; null where they promise nothing.")] = None
    reason: Annotated[str | None, describe("Why it makes no sense, or cannot run for the model asked about; null where it can.")] = None
    remedies: Annotated[tuple[str, ...], describe("Options, as a spec spells them: with any one of these it can run for that model.")] = ()

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Variant:
        """Return the variant from a ``document`` of :meth:`to_json`."""
        record: Any = cls
        values = {name: document[key] for name, key, mark in written_fields(record) if not mark.is_inline}
        return cls(**{**values, "remedies": tuple(values["remedies"])}, source=Citation.from_json(document))


def all_variants_of(method: Method) -> list[Variant]:
    """Return a method with every known rule, its own rules first; if it needs no rule, the variant without a rule comes first."""
    return variants_of(method) + [_variant(method, name) for name in RULES if name not in method.rules]


def variants_of(method: Method) -> list[Variant]:
    """Return a method with each of its own rules; a method without a rule gives one variant."""
    return [_variant(method, name) for name in method.rules or (None,)]


def _variant(method: Method, rule_name: str | None) -> Variant:
    rule = None if rule_name is None else RULES[rule_name]
    name = name_of(method, rule)
    return Variant(
        spec=method.name if rule_name in (None, method.rule) else f"{method.name}:{rule_name}",
        method_name=method.name,
        rule=rule_name,
        title=name.title,
        source=name.source,
        signed=method.signed,
        class_specific=method.class_specific,
        slow=method.slow,
        default=name.default,
        description=method.description,
        passes=method.passes,
        names_rule=name.names_rule,
        adds_up_to=method.adds_up_to(rule),
        reason=None if rule is None else method.refusal(rule),
    )


@dataclass(frozen=True)
class MethodCounts(Record):
    """The numbers of readouts, methods, listed methods and parts.

    readouts  the methods themselves
    methods   the methods, each with every rule that makes sense
    listed    of these, those with a rule of their own
    parts     of these, those with another rule, most often Libra without one of its parts
    """

    readouts: int
    methods: int
    listed: int
    parts: int


def count_methods(variants: Iterable[Variant]) -> MethodCounts:
    """Return how many methods these ``variants`` belong to, as :class:`MethodCounts`."""
    possible = [variant for variant in variants if variant.reason is None]
    listed = sum(variant.rule is None or variant.rule in METHODS[variant.method_name].rules for variant in possible)
    names = {variant.method_name for variant in possible}
    return MethodCounts(len(names), len(possible), listed, len(possible) - listed)
