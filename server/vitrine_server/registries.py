"""The registries of ``explainers`` as the calls and the pages list them. Each record here is an answer and its schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import explainers
from explainers.analysis.inspection import Quantity
from explainers.autograd.rules.kinds import Kind
from explainers.json_records import INLINE, Record, describe, inline, optional
from explainers.methods import METHOD_NEEDS, Method, Variant, parse
from explainers.methods.families import METHOD_FAMILIES, MethodFamily
from explainers.methods.presets import PRESETS, PresetOfVariants
from explainers.methods.specs import Option
from explainers.methods.variants import MethodCounts, count_methods
from explainers.records.result import OptionValue
from vitrine_server.method_ranking import Standing, asides, default_specs, ranking_for


@dataclass(frozen=True)
class Rules(Record):
    """All backward rules (``rules``), and the kinds of operators with the choices from which one's own rule can be made (``kinds``)."""

    rules: Sequence[explainers.Rule]
    kinds: Sequence[Kind]


@dataclass(frozen=True)
class Quantities(Record):
    """The quantities that can be shown for the attention heads of a model."""

    quantities: Sequence[Quantity]


@dataclass(frozen=True)
class MethodOption(Record):
    """The name of a method's option, and its type, default and bounds."""

    name: str
    option: Annotated[Option, INLINE]


@dataclass(frozen=True)
class MethodPair(Record):
    """A method combined with one rule, and a sentence on what the pair shows."""

    variant: Annotated[Variant, inline(without=("readout", "signed", "class_specific", "slow", "default", "description", "passes"))]
    line: Annotated[str, describe("What it shows, in plain words.")]


@dataclass(frozen=True)
class ListedMethod(Record, name="Method"):
    """A method with what it needs of a model, its options, and every rule with which it can be combined."""

    method: Annotated[Method, INLINE]
    needs: Annotated[dict[str, str], describe("What the model must have, in words.")]
    options: list[MethodOption]
    pairs: list[MethodPair]


@dataclass(frozen=True)
class SpecParts(Record):
    """A requested spec, split into method, rule and options, with the pair of method and rule.

    spec     as it was requested
    readout  name of the method; ``rule`` is None if it reads no signal
    options  values of the options by name
    """

    spec: str
    pair: Annotated[str, describe("The spec of the method with its rule alone, as ``pairs`` and ``variants`` list it.")]
    readout: str
    rule: str | None
    options: Mapping[str, OptionValue]


@dataclass(frozen=True)
class Methods(Record):
    """All methods, the methods with their own rules (``variants``), the rules, and what helps to choose among them: families, ready sets,
    how methods rank in a run, and their numbers.
    """

    methods: Annotated[Sequence[Mapping[str, Any]], describe(kind=list[ListedMethod])]
    variants: Annotated[Sequence[Mapping[str, Any]], describe(kind=list[Variant])]
    rules: Sequence[explainers.Rule]
    counts: Annotated[MethodCounts | None, optional("Where no model is named.")]
    families: Sequence[MethodFamily]
    presets: Sequence[PresetOfVariants]
    standing: Standing | None
    asides: Annotated[Mapping[str, str], describe("Why a method is listed behind the others, by its name.")]
    specs: Annotated[Sequence[SpecParts] | None, optional("The parts of the specs that were asked about.", keep_empty=True)]


def rules() -> Rules:
    """List the backward rules, and the kinds of operators with the choices that a rule has for each."""
    return Rules(list(explainers.RULES.values()), list(explainers.OPERATOR_KINDS.values()))


def quantities() -> Quantities:
    """List the quantities that can be shown for the attention heads of a model."""
    return Quantities(list(explainers.HEAD_QUANTITIES.values()))


def default_methods(model: explainers.Model) -> list[str]:
    """List the specs to compute for ``model`` if a question names none."""
    measured = not (model.kind == "clip" and model.reads_text)  # methods were not measured on the words of prompts
    return default_specs(ranking_for(model.kind, model.name) if measured else None, explainers.variants(model))


def variants(model: explainers.Model | None) -> list[dict[str, Any]]:
    """List the methods with their own rules as JSON; for ``model``, if it is not None, each also says why it cannot run for it, and
    ``default`` marks those to compute if a question names none.
    """
    listed = explainers.variants(model)
    if model is not None:
        usual = default_methods(model)
        listed = [replace(variant, default=variant.spec in usual) for variant in listed]
    return [variant.to_json() for variant in listed]


def methods(model: explainers.Model | None) -> list[dict[str, Any]]:
    """List the methods as JSON: their declarations, and for every rule whether the pair makes sense; for ``model``, if it is not None, also
    the bounds of their options and why a pair cannot run for it.
    """
    blocks = None if model is None else len(model.blocks)
    variants: dict[str, list[Variant]] = {name: [] for name in explainers.METHODS}
    for variant in explainers.all_variants(model):
        variants[variant.method_name].append(variant)
    return [_list_method(method, blocks, variants[method.name]).to_json() for method in explainers.METHODS.values()]


def _list_method(method: Method, blocks: int | None, variants: list[Variant]) -> ListedMethod:
    return ListedMethod(
        method,
        needs={need: METHOD_NEEDS[need] for need in METHOD_NEEDS if need in method.needs},
        options=[MethodOption(name, option.within(blocks)) for name, option in method.options.items()],
        pairs=[MethodPair(variant, method.line_under(variant.rule)) for variant in variants],
    )


def all_methods(specs: Sequence[SpecParts] | None) -> Methods:
    """List the methods for no model in particular; ``specs`` are the parts of the specs that were asked about."""
    counts = count_methods(explainers.all_variants())
    return _listing(methods(None), variants(None), None, None, counts, specs)


def methods_of(
    model: str,
    kind: str | None,
    methods: Sequence[Mapping[str, Any]],
    variants: Sequence[Mapping[str, Any]],
    specs: Sequence[SpecParts] | None,
) -> Methods:
    """Return the ``methods`` and ``variants`` of ``model`` as one list of methods; ``specs`` are the parts of the specs that were asked
    about. How far each can be trusted comes from the model's own measurement, else from that of the embedded model of the ``kind``; for
    ``kind`` None nothing was measured.
    """
    return _listing(methods, variants, model, kind, None, specs)


def _listing(
    methods: Sequence[Mapping[str, Any]],
    variants: Sequence[Mapping[str, Any]],
    model: str | None,
    kind: str | None,
    counts: MethodCounts | None,
    specs: Sequence[SpecParts] | None,
) -> Methods:
    listed = [Variant.from_json(variant) for variant in variants]
    ranking = None if kind is None else ranking_for(kind, model)
    return Methods(
        methods=methods,
        variants=variants,
        rules=list(explainers.RULES.values()),
        counts=counts,
        families=list(METHOD_FAMILIES.values()),
        presets=presets(listed),
        standing=None if ranking is None else ranking.standing(model),
        asides=asides(),
        specs=specs,
    )


def presets(variants: Iterable[Variant]) -> list[PresetOfVariants]:
    """List the ready sets of methods as records, each with the ``variants`` that belong to it and can run."""
    listed = list(variants)
    return [preset.among(listed) for preset in PRESETS]


def spec_parts(spec: str) -> SpecParts:
    """Split ``spec`` into its parts: method, rule, options, and the pair of method and rule. Raises ExplainerError if it is invalid."""
    request = parse(spec)
    rule = None if request.rule is None else request.rule.name
    pair = request.method.name if rule in (None, request.method.rule) else f"{request.method.name}:{rule}"
    return SpecParts(spec, pair, request.method.name, rule, request.options)
