"""Rules put together choice by choice: the mix that is a known rule gives its map, and every choice is one that the rules declare."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import explainers
from explainers import METHODS, OPERATOR_KINDS, RULES, ExplainerError, Probability, Rule, mix
from explainers.autograd.rules import LIBRA_WITHOUT, rule_of
from explainers.records.targets import Target
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

GRADIENTS = [name for name, rule in RULES.items() if not rule.is_relevance]


def mixed(name: str, method: str, choices: dict[str, Any], target: Target = 1) -> explainers.Mix:
    return mix(wrapped(name), inputs(name, 1), target, method, choices)


def explained(name: str, spec: str) -> explainers.Explanation:
    result: explainers.Explanation = explainers.explain(wrapped(name), inputs(name, 1), 1, spec)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "gpt2"])
@pytest.mark.parametrize("rule", GRADIENTS)
def test_a_mix_that_is_a_known_rule_is_that_rule(name: str, rule: str) -> None:
    ours = mixed(name, "fullgrad_plus", dict(RULES[rule].choices))
    result = explained(name, f"fullgrad_plus:{rule}")
    assert ours.rule is RULES[rule]
    assert ours.map.rule == rule
    assert ours.map.method == ("fullgrad_plus" if rule == "gradient" else f"fullgrad_plus:{rule}")
    assert torch.equal(ours.map.scores, result.maps[0].scores)
    assert ours.completeness_error == pytest.approx(result.completeness(rule), abs=1e-9)
    assert ours.value == pytest.approx(float(result.logits[1]))


@pytest.mark.parametrize("part", LIBRA_WITHOUT)
def test_taking_one_choice_back_is_the_ablation(part: str) -> None:
    """LibraGrad's Table 5."""
    ours = mixed("vit", "fullgrad_plus", RULES["libra"].choices | LIBRA_WITHOUT[part])
    assert ours.map.method == f"fullgrad_plus:libra-{part}"
    assert torch.equal(ours.map.scores, explained("vit", ours.map.method).maps[0].scores)
    whole = mixed("vit", "fullgrad_plus", RULES["libra"].choices).completeness_error
    assert ours.completeness_error is not None
    assert whole is not None
    assert whole < 1e-9
    if part in ("attention", "norm", "activation", "bias"):  # a ViT multiplies no two paths
        assert ours.completeness_error > 1e-3


@pytest.mark.parametrize("rule", ["deep_taylor", "lrp"])
def test_a_mix_that_carries_relevance(rule: str) -> None:
    ours = mixed("vit", "transformer_attribution", dict(RULES[rule].choices))
    assert torch.equal(ours.map.scores, explained("vit", f"transformer_attribution:{rule}").maps[0].scores)
    assert ours.completeness_error is None
    changed = mixed("vit", "transformer_attribution", RULES[rule].choices | {"norm": "jacobian"})
    assert changed.rule.name == "custom"
    assert changed.map.method == "transformer_attribution:custom"
    assert not torch.allclose(changed.map.scores, ours.map.scores)


def test_a_mix_of_its_own() -> None:
    """Twice the same by hand: a :class:`Rule` made in Python, and the same choices as data; what is left out is the ordinary gradient's."""
    ours = mixed("vit", "input_x_gradient", {"attention": "constant", "activation": "gate"})
    rule = Rule(attention="constant", activation="gate")
    again = mix(wrapped("vit"), inputs("vit", 1), 1, "input_x_gradient", rule)
    assert torch.equal(ours.map.scores, again.map.scores)
    assert ours.rule == rule
    assert ours.map.rule == "custom"
    made = explainers.explain(wrapped("vit"), inputs("vit", 1), 1, [("fullgrad", rule)])
    assert ours.completeness_error == made.maps[0].completeness_error
    document = ours.to_json()
    assert document["rule"]["choices"] == rule.choices
    assert document["map"] == ours.map.to_json() | {"seconds": document["map"]["seconds"]}


def test_the_probability_of_a_prompt_is_shared_with_the_other_prompts() -> None:
    model = explainers.wrap(FAMILIES["hf-clip"].build(), tokenizer=wordpiece(16))
    pixels = {"pixel_values": FAMILIES["hf-clip"].inputs(1)["pixel_values"]}
    both = explainers.explain(model, pixels, [Probability("a film"), Probability("a movie")], "input_x_gradient")
    ours = mix(model, pixels, Probability("a film"), "input_x_gradient", {}, prompts=["a film", "a movie"])
    assert torch.equal(ours.map.scores, both.maps[0].scores)


@pytest.mark.parametrize(
    ("method", "choices", "said"),
    [
        ("fullgrad_plus", {"attention": "relevance"}, "attention=relevance for relevance"),
        ("fullgrad_plus", {"softmax": "jacobian"}, "no 'softmax': there are attention, norm"),
        ("fullgrad_plus", {"norm": "halved"}, "norm='halved': there are jacobian, constant, constant_mean, identity"),
        ("fullgrad_plus", {"bias": 1}, "bias=1: there are True, False"),
        ("fullgrad_plus", {"norm": ["jacobian"]}, "norm="),
        ("fullgrad_plus:libra", {}, "names a rule"),
        ("fullgrad_plus", RULES["lrp"].choices | {"norm": "constant"}, "relevance is already multiplied"),
        ("rollout", {"attention": "constant"}, "reads no backward signal"),
        ("nothing", {}, "no method 'nothing'"),
    ],
)
def test_what_cannot_be_mixed_says_why(method: str, choices: dict[str, Any], said: str) -> None:
    with pytest.raises(ExplainerError, match=said):
        mixed("vit", method, choices)


def test_the_declaration_is_whole() -> None:
    """Every known rule is made of declared choices; the first choice of a kind is the ordinary gradient."""
    assert set(OPERATOR_KINDS) == set(RULES["gradient"].choices)
    for field, kind in OPERATOR_KINDS.items():
        values = [one.value for one in kind.choices]
        assert len(set(values)) == len(values) > 1
        assert {rule.choices[field] for rule in RULES.values()} <= set(values)
        assert kind.choices[0].value == Rule().choices[field]
        assert all(one.says.endswith(".") for one in kind.choices)
    for rule in RULES.values():
        assert rule_of(rule.choices) is rule
    assert all(METHODS[name].rule is None or METHODS[name].rule in RULES for name in METHODS)
