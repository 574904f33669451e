"""Choices as objects: one that a package adds, held against a second writing at every operator; and what a rule refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.autograd.rules import OPERATOR_KINDS, RULES, Choice, Rule, Strength, add_choice, operands, rule_of
from explainers.autograd.rules.choices import ActivationChoice, LinearChoice
from explainers.autograd.rules.choices.attention import softened
from explainers.autograd.rules.operands import ActivationCurve
from explainers.autograd.rules.strength import MAX_TEMPERATURE
from tests.conftest import ROOT
from tests.explainers.support.formulas import Twin
from tests.explainers.support.operator_cases import CASES, Case
from tests.explainers.support.operator_cases.case import normal
from tests.explainers.support.toys import autograd, record, signal
from tests.explainers.support.wrapped import inputs, wrapped
from tests.support.example_package import installed_example


@pytest.fixture(scope="module")
def guided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rule]:
    """The rule of docs/extending.md that has a choice of its own, as its package adds it; this process forgets it afterwards."""
    with installed_example(tmp_path_factory.mktemp("example")):
        yield RULES["guided"]


class GuidedTwin(Twin):
    """Guided backpropagation a second time: a hook takes away what is negative where the signal arrives at a curve."""

    def curve(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return guided_at(function(x))

    def written_act(self, function: Callable[[Tensor], Tensor], x: Tensor, parts: Callable[[Tensor], Tensor]) -> Tensor:
        """A choice of a package is asked at the curves that a model runs: here at the gate alone."""
        return parts(x)


def guided_at(y: Tensor) -> Tensor:
    """The same numbers; of the signal that arrives at them what is positive goes on."""
    if not y.requires_grad:
        return y
    same = y.view_as(y)
    same.register_hook(lambda arrived: arrived.clamp(min=0))
    return same


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_a_choice_of_another_package_goes_through_every_operator(guided: Rule, case: Case) -> None:
    function = case.make()
    if isinstance(function, nn.Module):
        function.requires_grad_(False)
    recording = record(function, case.x)
    seed = normal(*recording.logits.shape, seed=21)
    x = case.x.detach().clone().requires_grad_()
    value = case.twin(GuidedTwin(guided), x).flatten(1)
    expected = torch.autograd.grad(value, x, seed)[0] if value.requires_grad else torch.zeros_like(x)
    torch.testing.assert_close(signal(recording, guided, seed), expected, rtol=1e-11, atol=1e-11)


def test_it_is_the_published_formula_in_a_network_of_rectifiers(guided: Rule) -> None:
    """Springenberg et al. (2015): what arrives passes where it is positive and so was the rectifier's input."""
    first, second, x = normal(5, 6, seed=1), normal(4, 5, seed=2), normal(1, 3, 6, seed=3)
    seed = normal(1, 12, seed=4)
    recording = record(lambda tokens: F.relu(tokens @ first.mT) @ second.mT, x)
    arrived = seed.view(1, 3, 4) @ second
    expected = (arrived * (arrived > 0) * (x @ first.mT > 0)) @ first
    assert bool((arrived < 0).any())
    torch.testing.assert_close(signal(recording, guided, seed), expected)


def test_methods_take_it_and_what_it_does_not_promise_is_refused(guided: Rule) -> None:
    assert not any((guided.accounts, guided.has_linear_form, guided.is_ordinary, guided.is_relevance))
    specs = ["input_x_gradient:guided", "input_x_gradient:gradient"]
    ours, plain = explainers.explain(wrapped("vit"), inputs("vit", 1), target=1, methods=specs).maps  # type: ignore[union-attr]
    assert not torch.allclose(ours.scores, plain.scores)
    with pytest.raises(ExplainerError, match="propagates tokens forward"):
        explainers.explain(wrapped("vit"), inputs("vit", 1), target=1, methods=["decompx:guided"])
    assert rule_of({"activation": "guided"}) is guided
    assert OPERATOR_KINDS["activation"].to_json()["choices"][-1] == {
        "value": "guided",
        "title": "guided",
        "says": "What is positive of the signal is multiplied by the slope of the curve.",
        "carries": "gradient",
    }


def test_names_of_0_2_are_read() -> None:
    x = normal(2, 3, seed=1)
    curve = operands.Curve(F.gelu, lambda: (x,))
    assert isinstance(curve, ActivationCurve)
    torch.testing.assert_close(curve.gate, F.gelu(x) / x)
    assert operands.Sum((x, x), False, True, print, float).shares
    for name in ("LinearAttention", "LinearMap", "Normaliser", "Pool"):
        assert getattr(operands, name) is getattr(operands, f"{name}Operand")


class Doubled(ActivationChoice):
    value: ClassVar[str | bool] = "doubled"
    title = "doubled"
    says = "Twice the slope."

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        return 2 * signal * curve.slope


class Known(Doubled):
    value = "gate"


class Unspeakable(Doubled):
    value = "Twice!"


class Wordless(ActivationChoice):
    value = "wordless"

    def curve(self, curve: ActivationCurve, signal: Tensor) -> Tensor:
        return signal


class OfNoKind(Choice):
    kind = "activation"
    value = "nothing"


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (Known, "already a choice activation=gate"),
        (Unspeakable, "cannot be called 'Twice!': send lower-case letters"),
        (Wordless, "Wordless lacks title, says"),
        (OfNoKind, "not a choice for any kind of operator: derive its class from one of AttentionChoice, NormChoice, ActivationChoice"),
    ],
)
def test_a_choice_that_cannot_stand_in_a_rule_is_refused(choice: type[Choice], said: str) -> None:
    before = OPERATOR_KINDS["activation"]
    with pytest.raises(ExplainerError, match=re.escape(said)):
        add_choice(choice())
    assert OPERATOR_KINDS["activation"] is before


def test_a_choice_that_lacks_an_operator_cannot_be_made() -> None:
    class Lacking(ActivationChoice):
        value = "lacking"

    with pytest.raises(TypeError, match="curve"):
        Lacking()  # type: ignore[abstract]


def test_an_unknown_choice_cannot_be_in_a_rule() -> None:
    with pytest.raises(ExplainerError, match="no choice activation='doubled': there are jacobian, gate, identity"):
        Rule(activation="doubled")


def test_a_rule_gives_its_choices_as_objects_with_its_numbers() -> None:
    rule = Rule(linear="gamma", strength=Strength(gamma=0.5))
    assert {kind: rule.choice(kind).value for kind in OPERATOR_KINDS} == rule.choices
    assert rule.choice("linear").strength.gamma == 0.5  # type: ignore[attr-defined]
    assert rule == Rule(linear="gamma", strength=Strength(gamma=0.5)) != Rule(linear="gamma")


def test_no_rule_is_left_behind_by_a_backward_pass() -> None:
    x, weight = normal(1, 3, 4, seed=1), normal(4, 4, seed=2)

    def function(tokens: Tensor) -> Tensor:
        return F.gelu(tokens @ weight)

    recording = record(function, x)
    seed = normal(1, 12, seed=3)
    libra = recording.backward(RULES["libra"], seed)
    expected = autograd(function, x, seed)
    assert not torch.allclose(libra.block_inputs[0], expected)
    (plain,) = torch.autograd.grad(recording.logits, recording.block_inputs[0], seed, retain_graph=True)
    torch.testing.assert_close(plain, expected)
    pulled = recording.pull(RULES["libra"], recording.logits, recording.block_inputs[0], seed)
    assert pulled is not None
    torch.testing.assert_close(pulled, libra.block_inputs[0])
    assert not recording.rule.choice("activation").holds


def test_what_a_rule_chose_is_read_by_no_other_module() -> None:
    """Outside ``rules/`` nothing compares a choice's string: a new choice needs no other change."""
    reads = re.compile(r"\brule\.(attention|norm|activation|product|linear)\b")
    folder = ROOT / "explainers" / "autograd" / "rules"
    others = [path for path in (ROOT / "explainers").rglob("*.py") if not path.is_relative_to(folder)]
    assert others
    assert not [str(path.relative_to(ROOT)) for path in others if reads.search(path.read_text("utf-8"))]


def test_a_linear_choice_that_uses_the_old_name_of_a_method_still_works() -> None:
    """``beside``, by which version 0.2 called ``factor_of_constant``."""

    class OfAnotherPackage(LinearChoice):
        def beside(self, constant: Tensor, signal: Tensor) -> Tensor:
            return 2 * constant

    assert OfAnotherPackage.factor_of_constant is OfAnotherPackage.beside
    assert "factor_of_constant" not in OfAnotherPackage.__abstractmethods__


@pytest.mark.parametrize("temperature", [0.0, -1.0, 10.5, float("nan")])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    with pytest.raises(ExplainerError, match="above 0 and at most 10"):
        Strength(temperature=temperature)


@pytest.mark.parametrize("temperature", [0.5, 2.0, 10.0])
def test_weights_at_a_temperature_are_those_of_the_scores_divided_by_it(temperature: float) -> None:
    """A key that is masked stays so, a row without any other key is all its, and what comes back can be differentiated."""
    scores = 5 * normal(2, 4, 6, seed=3)
    scores[0, 0, 2:] = -torch.inf
    scores[0, 1, 1:] = -torch.inf
    scores.requires_grad_()
    found = softened(scores.softmax(-1), -1, temperature)
    expected = (scores / temperature).softmax(-1)
    torch.testing.assert_close(found, expected)
    seed = normal(2, 4, 6, seed=4)
    (ours,), (theirs,) = (torch.autograd.grad(value, scores, seed) for value in (found, expected))
    torch.testing.assert_close(ours, theirs)
    assert bool(ours.isfinite().all())


def test_in_float32_a_weight_rounded_to_zero_is_less_than_a_thousandth_at_the_highest_temperature() -> None:
    """What MAX_TEMPERATURE bounds: weights are all that is known of the scores."""
    scores = torch.tensor([0.0, -110.0])
    assert float(scores.softmax(-1)[1]) == 0
    assert float((scores / MAX_TEMPERATURE).softmax(-1)[1]) < 1e-3
