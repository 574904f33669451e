"""The registries of ``explainers`` as plain data, as the calls and the pages list them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import explainers
from explainers.methods import METHOD_NEEDS, Method, Variant, parse
from explainers.methods.families import METHOD_FAMILIES
from explainers.methods.presets import PRESETS
from explainers.methods.specs import Spec
from vitrine_server.method_ranking import MethodRanking, default_specs, ranking_for


def rules() -> list[dict[str, Any]]:
    """List the backward rules as JSON."""
    return [_rule(rule) for rule in explainers.RULES.values()]


def kinds() -> list[dict[str, Any]]:
    """List the kinds of operators, and the choices that a rule has for each, as JSON."""
    return [{"name": name, **kind.to_json()} for name, kind in explainers.OPERATOR_KINDS.items()]


def quantities() -> list[dict[str, Any]]:
    """List the quantities that can be shown for the attention heads of a model, as JSON."""
    return [
        {"name": name, "title": quantity.title, "says": quantity.says, "signed": quantity.signed}
        for name, quantity in explainers.HEAD_QUANTITIES.items()
    ]


def default_methods(model: explainers.Model, together: bool = False) -> list[str]:
    """List the specs to compute if a question names none; with ``together`` for a question with several prompts."""
    measured = not (model.kind == "clip" and model.reads_text)  # methods were not measured on the words of prompts
    return default_specs(ranking_for(model.kind, model.name, together) if measured else None, explainers.variants(model))


def variants(model: explainers.Model | None) -> list[dict[str, Any]]:
    """List the methods with their own rules as JSON; for a model, ``default`` marks those to compute if a question names none."""
    listed = explainers.variants(model)
    if model is not None:
        usual = default_methods(model)
        listed = [replace(variant, default=variant.spec in usual) for variant in listed]
    return [variant.to_json() for variant in listed]


def methods(model: explainers.Model | None) -> list[dict[str, Any]]:
    """List the methods as JSON: their declarations, and for every rule whether the pair can run; for a model with its bounds
    and reasons.
    """
    blocks = None if model is None else len(model.blocks)
    variants: dict[str, list[Variant]] = {name: [] for name in explainers.METHODS}
    for variant in explainers.all_variants(model):
        variants[variant.method_name].append(variant)
    return [_method(method, blocks, variants[method.name]) for method in explainers.METHODS.values()]


def _rule(rule: explainers.Rule) -> dict[str, Any]:
    document = {name: value for name, value in asdict(rule).items() if name != "source"}
    return {**document, **rule.source.to_json(), "label": rule.label, "short": rule.short or rule.title}


def _method(method: Method, blocks: int | None, variants: list[Variant]) -> dict[str, Any]:
    left_out = ("function", "named", "pixels", "refuses", "promise", "source", "reads", "reads_under", "about")
    document = {declared.name: getattr(method, declared.name) for declared in fields(method) if declared.name not in left_out}
    shown = ("spec", "rule", "title", "names_rule", "adds_up_to", "reason", "remedies")
    return {
        **document,
        **method.source.to_json(),
        "rules": list(method.rules),
        "promise": None if method.promise is None else method.promise.to_json(),
        "needs": {need: METHOD_NEEDS[need] for need in METHOD_NEEDS if need in method.needs},
        "options": [{"name": name, **option.within(blocks).to_json()} for name, option in method.options.items()],
        "pairs": [
            {
                **{name: getattr(variant, name) for name in shown},
                **variant.source.to_json(),
                "line": method.line_under(variant.rule),
            }
            for variant in variants
        ],
    }


def help_to_choose(model: str | None, kind: str | None, variants: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what helps to choose among ``variants``: families, ready sets, and how far each method can be trusted on models of ``kind``.

    Trust comes from the model's own measurement where there is one; for ``kind`` None nothing was measured.
    """
    listed = [Variant.from_json(variant) for variant in variants]
    ranking = None if kind is None else ranking_for(kind, model)
    together = ranking_for(kind, model, together=True) if kind == "clip" else None
    return {
        "families": [{"name": name, **asdict(family)} for name, family in METHOD_FAMILIES.items()],
        "presets": [{"name": preset.name, "title": preset.title, "says": preset.says, "specs": preset.specs(listed)} for preset in PRESETS],
        "standing": None if ranking is None else _standing(ranking, model),
        **({} if together is None else {"together": _together(together, model, listed)}),
    }


def _standing(ranking: MethodRanking, model: str | None) -> dict[str, Any]:
    return {**ranking.to_json(), "here": ranking.run.report["plan"]["model"] == model}


def _together(ranking: MethodRanking, model: str | None, variants: list[Variant]) -> dict[str, Any]:
    usual = default_specs(ranking, variants)
    return {
        "standing": _standing(ranking, model),
        "usual": usual,
        "specs": [spec_parts(spec) for spec in usual if Spec.parse(spec).options],
    }


def spec_parts(spec: str) -> dict[str, Any]:
    """Split a spec into its parts, as JSON. Raises ExplainerError if it is invalid."""
    request = parse(spec)
    rule = None if request.rule is None else request.rule.name
    pair = request.method.name if rule in (None, request.method.rule) else f"{request.method.name}:{rule}"
    return {"spec": spec, "pair": pair, "readout": request.method.name, "rule": rule, "options": request.options}
