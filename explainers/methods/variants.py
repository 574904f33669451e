"""Methods with their rules, as the pages list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from explainers.autograd.rules import RULES
from explainers.citation import Citation
from explainers.methods.declaration import Method, name_of
from explainers.methods.registry import METHODS


@dataclass(frozen=True)
class Variant:
    """A method with a rule, as the pages list it. ``adds_up_to``: what its scores promise to add up to, if anything. ``reason``: why the
    pair makes no sense, or cannot run for the model asked about; None if it can. ``remedies``: options, as a spec spells them, with one of
    which it runs for that model all the same. ``names_rule``: whether the title says the rule.
    """

    spec: str
    method_name: str
    rule: str | None
    title: str
    source: Citation
    signed: bool
    class_specific: bool
    slow: bool
    default: bool
    description: str
    passes: str
    names_rule: bool = False
    adds_up_to: str | None = None
    reason: str | None = None
    remedies: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the source as ``by``, ``year`` and ``paper``."""
        document: dict[str, Any] = {}
        for declared in fields(self):
            key = _JSON_KEYS.get(declared.name, declared.name)
            document |= self.source.to_json() if declared.name == "source" else {key: getattr(self, declared.name)}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Variant:
        """The variant of a ``document`` of :meth:`to_json`."""
        keys = {declared.name: _JSON_KEYS.get(declared.name, declared.name) for declared in fields(cls) if declared.name != "source"}
        return cls(**{name: document[key] for name, key in keys.items()}, source=Citation.from_json(document))

    @property
    def readout(self) -> str:
        """What ``method_name`` was called in 0.1."""
        return self.method_name


#: Fields of a :class:`Variant` whose keys in JSON are the names of 0.1.
_JSON_KEYS = {"method_name": "readout"}


def all_variants_of(method: Method) -> list[Variant]:
    """A method with every rule there is, its own first; one without a rule first stands alone."""
    return variants_of(method) + [_variant(method, name) for name in RULES if name not in method.rules]


def variants_of(method: Method) -> list[Variant]:
    """A method with each of its own rules."""
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


def count_methods(variants: Iterable[Variant]) -> dict[str, int]:
    """How many methods these variants are of, as every list of them says it: ``readouts``, the methods themselves; ``methods``, each with
    every rule that makes sense; of these ``listed`` with a rule of their own, and ``parts`` with the other rules, most of them Libra less
    one of its parts.
    """
    possible = [variant for variant in variants if variant.reason is None]
    listed = sum(variant.rule is None or variant.rule in METHODS[variant.method_name].rules for variant in possible)
    names = {variant.method_name for variant in possible}
    return {"readouts": len(names), "methods": len(possible), "listed": listed, "parts": len(possible) - listed}
