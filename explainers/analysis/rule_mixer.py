"""The rule mixer: a method under a rule that a person puts together, and how full an account it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explainers.autograd.rules import Rule, rule_of
from explainers.errors import ExplainerError
from explainers.methods import METHODS
from explainers.methods.specs import split_spec
from explainers.models.inputs.types import Input, Side
from explainers.pipeline.explain import explain
from explainers.records.result import Attribution
from explainers.records.targets import TargetLike


@dataclass(frozen=True, eq=False)
class Mix:
    """A map under a mixed rule.

    rule                that one; a known rule where one has the same choices
    map                 what the method says under it
    completeness_error  |f(x) - sum of all FullGrad terms| under the rule, whatever the method: 0 is a full account. None where the
                        rule carries relevance, for which FullGrad is not defined
    value               f(x), the number that is explained
    """

    rule: Rule
    map: Attribution
    completeness_error: float | None
    value: float

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "rule": {"name": self.rule.name, "title": self.rule.title, "choices": self.rule.choices},
            "map": self.map.to_json(),
            "completeness_error": self.completeness_error,
            "value": self.value,
        }


def mix(
    model: Any,
    inputs: Input,
    target: TargetLike,
    method: str | None = None,
    choices: Mapping[str, Any] | Rule | None = None,
    *,
    side: Side | None = None,
    prompts: Sequence[str] | None = None,
    cancelled: Callable[[], bool] | None = None,
    readout: str | None = None,
) -> Mix:
    """Explain one input by ``method`` (a spec without a rule) under a rule of these ``choices``, as :func:`rule_of` reads them; None is the
    ordinary gradient.

    ``readout`` is what ``method`` was called in 0.1. The other arguments are those of :func:`explain`. Raises ExplainerError for a rule
    that does not exist or that the method cannot use.
    """
    spec = readout if method is None else method
    if spec is None:
        raise ExplainerError("mix needs a method that reads a backward signal: name one, such as fullgrad_plus.")
    rule = choices if isinstance(choices, Rule) else rule_of(choices or {})
    method_name, rule_name, _ = split_spec(spec)
    is_usual = method_name in METHODS and METHODS[method_name].rule == rule.name and rule_name is None
    specs: list[str | tuple[str, Rule]] = [spec if is_usual else (spec, rule)]
    if not rule.is_relevance:
        specs.append(("fullgrad", rule))
    result = explain(model, inputs, target, specs, side=side, prompts=prompts, cancelled=cancelled)
    account = None if rule.is_relevance else result.maps[-1].completeness_error
    target_info = result.target
    value = target_info.probability if target_info.explains == "probability" else target_info.logit
    return Mix(rule, result.maps[0], account, value)
