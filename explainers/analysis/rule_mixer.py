"""The rule mixer: a method under a rule that a person puts together, and how full an account it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from explainers.autograd.rules import Rule, rule_of
from explainers.json_records import Record, describe
from explainers.methods import METHODS
from explainers.methods.specs import Spec
from explainers.models.inputs.types import Side, Single
from explainers.pipeline.explain import explain
from explainers.records.result import Attribution, Explanation
from explainers.records.targets import TargetLike


@dataclass(frozen=True)
class MixedRule(Record):
    """The name and the title of a rule that was put together, and its choice (``choices``) for each kind of operator."""

    name: str
    title: str
    choices: Mapping[str, str | bool]


def _mixed_rule(rule: Rule) -> dict[str, Any]:
    return MixedRule(rule.name, rule.title, rule.choices).to_json()


@dataclass(frozen=True, eq=False)
class Mix(Record):
    """The map of a method under a rule that was put together, with that rule, the explained number and the completeness error."""

    rule: Annotated[Rule, describe("The rule; a known one where that has the same choices.", kind=MixedRule, write=_mixed_rule)]
    map: Attribution
    completeness_error: Annotated[
        float | None,
        describe(
            "By how much the sum of all FullGrad terms under that rule misses ``value``: 0 is a full account; null where the rule carries "
            "relevance, for which FullGrad is not defined."
        ),
    ]
    value: Annotated[float, describe("The number that is explained.", kind=float | None)]


def mix(
    model: Any,
    inputs: Single,
    target: TargetLike,
    method: str,
    choices: Mapping[str, Any] | Rule | None = None,
    *,
    side: Side | None = None,
    prompts: Sequence[str] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Mix:
    """Explain one input by ``method`` (a spec without a rule) under a rule of these ``choices``, as :func:`rule_of` reads them; None is the
    ordinary gradient.

    ``model``, ``inputs``, ``target``, ``side``, ``prompts`` and ``cancelled`` are as in :func:`explain`. Raises ExplainerError for a rule
    that does not exist or that the method cannot use.
    """
    rule = choices if isinstance(choices, Rule) else rule_of(choices or {})
    parts = Spec.parse(method)
    is_usual = parts.method in METHODS and METHODS[parts.method].rule == rule.name and parts.rule is None
    specs: list[str | tuple[str, Rule]] = [method if is_usual else (method, rule)]
    if not rule.is_relevance:
        specs.append(("fullgrad", rule))
    result = explain(model, inputs, target, specs, side=side, prompts=prompts, cancelled=cancelled)
    assert isinstance(result, Explanation)
    account = None if rule.is_relevance else result.maps[-1].completeness_error
    target_info = result.target
    value = target_info.probability if target_info.explains == "probability" else target_info.logit
    assert value is not None
    return Mix(rule, result.maps[0], account, value)
