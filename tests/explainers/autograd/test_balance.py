"""The account of a rule: what it misses is measured, said, and found at the operator that loses it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule
from explainers.records import trace
from tests.explainers.support.operator_cases.case import W, X, normal
from tests.explainers.support.toys import record, toy
from tests.explainers.support.wrapped import every_family, inputs, one_hot, wrapped
from tests.families import FAMILIES

SEED = normal(2, 30, seed=21)


@pytest.mark.parametrize("rule", list(RULES.values()), ids=list(RULES))
def test_which_rules_account_for_the_answer(rule: Rule) -> None:
    """By what one network with every kind of operator gives: attention, a norm, an activation, a product, a maximum."""

    def function(x: Tensor) -> Tensor:
        x = F.layer_norm(x @ W + 0.3, (6,))
        x = x + F.scaled_dot_product_attention(x @ W, x @ W.mT, x)
        return F.gelu(x) * (x @ W)

    recording = record(function, X)
    if rule.is_relevance:
        return
    signals = recording.cached_backward(rule, SEED)
    total = (X * signals.block_inputs[0]).flatten(1).sum(1) + signals.bias.sum(1) + signals.unplaced
    complete = bool(torch.allclose(total, (SEED * recording.logits.detach()).sum(1), rtol=1e-9))
    assert complete == rule.accounts
    assert (signals.missing is not None) == rule.accounts


@every_family
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_missing_in_families_that_are_known(name: str, dtype: torch.dtype) -> None:
    recording = Recording(wrapped(name, dtype), inputs(name, 3, dtype))
    missing = recording.cached_backward(RULES["libra"], one_hot(recording)).missing
    assert missing is not None
    assert not missing.any()


class ReadGate(nn.Module):
    """A sigmoid that multiplies nothing."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)


class Shown(nn.Module):
    """A softmax that is no attention."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


def with_activation(activation: Callable[..., nn.Module]) -> nn.Module:
    module = FAMILIES["vit"].build()
    for block in module.blocks:
        block.mlp.act = activation()
    return module


@pytest.mark.parametrize(("activation", "where"), [(ReadGate, "a gate that does not multiply anything"), (Shown, "a softmax")])
def test_a_map_says_how_much_its_rule_misses_and_where(activation: Callable[..., nn.Module], where: str) -> None:
    model = explainers.wrap(with_activation(activation))
    pixels = inputs("vit", 2, torch.float32)["pixel_values"]
    for result in explainers.explain(model, {"pixel_values": pixels}, methods=["fullgrad:libra", "gradcam_plus:libra", "gradcam_plus"]):
        one = result["fullgrad:libra"]
        (note,) = [note for note in one.notes if "should add up" in note]
        assert f"miss it by {one.completeness_error:.2g}" in note
        assert re.search(rf" at {where} in blocks\.\d\.mlp\.act and (1 more place|[2-9] more places)[ .]", note)
        assert note in result["gradcam_plus:libra"].notes
        assert not result["gradcam_plus"].notes


def test_a_model_that_is_known_says_nothing() -> None:
    pixels = inputs("vit", 1, torch.float32)["pixel_values"]
    result = explainers.explain(explainers.wrap(FAMILIES["vit"].build()), {"pixel_values": pixels}, methods=["fullgrad:libra", "decompx"])
    for one in result.maps:
        assert not one.notes


def test_contributions_that_pass_what_is_not_linear_say_so() -> None:
    model = explainers.wrap(with_activation(nn.Softplus))
    pixels = inputs("vit", 1, torch.float32)["pixel_values"]
    notes = explainers.explain(model, {"pixel_values": pixels}, methods=["decompx"])["decompx"].notes
    assert any("softplus, which is not linear" in note for note in notes)
    assert any("contributions should add up to" in note for note in notes)


def test_the_loss_of_a_single_operator_is_what_is_missing() -> None:
    from explainers.autograd.balance import BalancedRecording, losses_of

    model = toy(lambda x: x @ W + torch.sigmoid(x))
    recording = Recording(model, {"x": X})
    missing = recording.cached_backward(RULES["libra"], SEED).missing
    assert missing is not None
    worst = int(missing.abs().argmax())
    (loss,) = losses_of(lambda **how: BalancedRecording(model, {"x": X}), RULES["libra"], SEED, missing)
    expected = float((SEED.view_as(X) * torch.sigmoid(X))[worst].sum())
    assert abs(loss.amount - expected) < 1e-9
    assert abs(float(missing[worst]) - expected) < 1e-9


@pytest.mark.parametrize("name", ["efficientformerv2_s0", "convit_tiny", "mvitv2_tiny"])
def test_models_whose_attention_was_missed(name: str) -> None:
    """Talking heads by convolution (a logit of -5098 was missed by 10,279), and scores that are written over."""
    import timm

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = timm.create_model(name, num_classes=5).eval()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
    pixels = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    result = explainers.explain(explainers.wrap(module), {"pixel_values": pixels}, methods=["fullgrad:libra", "input_x_gradient"])
    one = result["fullgrad:libra"]
    assert one.completeness_error is not None
    assert one.completeness_error < 1e-5 * max(1.0, float(result.logits.abs().max()))
    assert all("blocks in the list run before those that are read" in note for note in one.notes)  # of MViT one, which takes more tokens


def test_where_a_pass_loses_is_looked_for_once_for_all_its_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    searches, search = [], trace.losses_of
    monkeypatch.setattr(trace, "losses_of", lambda *given: (searches.append(1), search(*given))[1])
    model, pixels = explainers.wrap(with_activation(ReadGate)), inputs("vit", 1, torch.float32)["pixel_values"]
    specs = ["fullgrad:libra", "gradcam_plus:libra", "input_x_gradient:libra"]
    result = explainers.explain(model, {"pixel_values": pixels}, methods=specs)
    assert len({next(note for note in one.notes if "lost at" in note) for one in result.maps}) == 1
    assert len(searches) == 1
