"""Every torch function that has a handler, under every rule: torch's value, autograd's gradient, and the rule written out a second time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.autograd import dispatch
from explainers.autograd.dispatch import _HANDLERS
from explainers.autograd.handlers.linear import _TRANSFORMS
from explainers.autograd.rules import OPERATOR_KINDS, RULES, Rule, rule_of
from tests.explainers.support.formulas import twin_of
from tests.explainers.support.operator_cases import CASES, Case
from tests.explainers.support.operator_cases.case import CLOSE, NEAR, W, X, assert_close, seed_for
from tests.explainers.support.operator_cases.rearranged import TRANSFORMED
from tests.explainers.support.toys import Function, autograd, record, signal

#: Choices that go with gradients, but are written a second time for the rules with a name that have them alone.
WITH_OTHERS = {("norm", "identity"), ("activation", "identity"), ("linear", "gamma"), ("linear", "epsilon")}
#: Beside the rules with a name, every other choice that goes with gradients on its own.
SINGLE = [
    rule_of({name: choice.value})
    for name, kind in OPERATOR_KINDS.items()
    for choice in kind.choices
    if choice.carries != "relevance" and (name, choice.value) not in WITH_OTHERS
]
SINGLE.append(Rule(attention="constant", norm="constant", activation="gate"))
#: Where each choice is written a second time.
WRITTEN_AGAIN = "Twin (of gradients) or Split (of relevance) in tests/explainers/support/formulas.py"
EVERY = [*RULES.values(), *(replace(rule, name=str(rule.choices)) for rule in SINGLE if rule.name not in RULES)]


def frozen(function: Function, trainable: bool) -> Function:
    if isinstance(function, nn.Module):
        function.requires_grad_(trainable)
    return function


@pytest.mark.parametrize("trainable", [pytest.param(True, id="trainable", marks=pytest.mark.slow), pytest.param(False, id="frozen")])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_value_gradient_and_the_formula_of_each_rule(case: Case, trainable: bool) -> None:
    function = frozen(case.make(), trainable)
    recording = record(function, case.x)
    with torch.no_grad():
        assert_close(recording.logits, function(case.x).flatten(1))
    seed = seed_for(recording)
    assert_close(signal(recording, RULES["gradient"], seed), autograd(function, case.x, seed))
    for rule in EVERY if trainable else [RULES["libra"]]:
        x = case.x.detach().clone().requires_grad_()
        value = case.twin(twin_of(rule), x).flatten(1)
        assert_close(value, recording.logits, message=f"{rule.name} changes the value")
        expected = torch.autograd.grad(value, x, seed)[0] if value.requires_grad else torch.zeros_like(x)
        message = f"Under {rule.name} this operator hands on another signal than {WRITTEN_AGAIN} has for it. Is a new choice missing there?"
        assert_close(signal(recording, rule, seed), expected, NEAR if rule.is_relevance else CLOSE, message)
        assert not recording.cached_backward(rule, seed).unruled, rule.name


@pytest.mark.parametrize("name", TRANSFORMED)
def test_what_is_linear_without_weights_of_its_own_is_differentiated(name: str) -> None:
    """As torch does, by rules that differentiate linear maps, without a word; relevance says that it has nothing for it."""
    recording = record(TRANSFORMED[name], X)
    seed = seed_for(recording)
    for rule in (RULES["gradient"], RULES["libra"], RULES["attnlrp"]):
        assert_close(signal(recording, rule, seed), autograd(TRANSFORMED[name], X, seed))
        assert not recording.cached_backward(rule, seed).unruled
    assert recording.cached_backward(RULES["deep_taylor"], seed).unruled


def test_a_product_of_two_complex_paths_is_named() -> None:
    recording = record(lambda x: (torch.complex(x, x) * torch.complex(x @ W, x)).real, X)
    seed = seed_for(recording)
    expected = autograd(lambda x: (torch.complex(x, x) * torch.complex(x @ W, x)).real, X, seed)
    assert_close(signal(recording, RULES["gradient"], seed), expected)
    assert recording.cached_backward(RULES["libra"], seed).unruled


#: Rows whose value is not the sum of what x and the biases gave, and why.
INCOMPLETE = {
    "weights of attention are constants, and here they are shown, or weigh constants": {
        "sdpa-constant-values",
        "einsum-constant-values",
        *("softmax", "softmax-method", "softmax-torch", "softmax-dtype", "nn.Softmax"),
        *("log-softmax-exp", "log-softmax-exp-torch", "log-softmax-exp-method"),
        *("softmax-written-out", "softmax-written-in-place"),
        *("log-softmax-exp-special", "softmax-special", "softmin"),
        *(f"softmax-of-powers-{name}" for name in ("torch", "method", "special", "in-place", "in-place-torch")),
        *("mha-weights", "mha-weights-per-head", "mha-bool"),
    },
    "a gate is a constant, and here it multiplies nothing": {"sigmoid", "F.sigmoid", "method-sigmoid", "hardsigmoid"}
    | {"sigmoid_", "method-sigmoid_", "inplace-hardsigmoid"},
    "what is written over a part of x is no bias": {"setitem", "put", "masked_scatter_"},
}


@pytest.mark.parametrize("norm", ["constant", "constant_mean"])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_input_times_signal_and_the_biases_account_for_the_value(case: Case, norm: Any) -> None:
    """FullGrad's completeness, operator by operator, where attention, scales and gates are constant and products give half."""
    recording = record(case.make(), case.x)
    seed = seed_for(recording)
    signals = recording.cached_backward(Rule(attention="constant", norm=norm, activation="gate", product="half"), seed)
    total = (case.x * signals.block_inputs[0]).flatten(1).sum(1) + signals.bias.sum(1) + signals.unplaced
    value = (seed * recording.logits.detach()).sum(1)
    complete = float((total - value).abs().max()) <= 1e-9 * float(value.abs().max())
    assert complete == (not any(case.name in names for names in INCOMPLETE.values()))


def test_names_of_the_rows_are_unique() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


#: Names under which torch calls the method that it sees, and those that write in place what has no rule of its own: test_dispatch.
ONLY_CALL_A_METHOD = {F.tanh, F.sigmoid, Tensor.__ipow__, torch.exp_, Tensor.exp_}


def test_every_handler_has_a_row() -> None:
    """Each function with a handler is called by some row, seen at the place where handlers are looked up."""
    seen: set[Any] = set()
    original = dispatch.handler_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "handler_of", lambda f: (seen.add(f), original(f))[1])
        for case in CASES:
            record(case.make(), case.x)
    seen |= set(_TRANSFORMS)  # complex numbers are met before a handler is asked for: TRANSFORMED
    seen |= {torch._grouped_mm, F.grouped_mm}  # they take no float64: test_text_models
    seen |= {torch.heaviside, Tensor.heaviside}  # torch has no gradient to compare with: handlers/test_written_sigmoid.py
    names = {getattr(f, "__qualname__", str(f)) for f in set(_HANDLERS) - seen - ONLY_CALL_A_METHOD}
    # torch sends x + y as Tensor.add, and so on: which spellings of an operator arrive at all is torch's own affair
    assert not {name for name in names if not name.split(".")[-1].startswith("__")}
    missing = {handler for f, handler in _HANDLERS.items()} - {_HANDLERS[f] for f in seen if f in _HANDLERS}
    assert not missing
