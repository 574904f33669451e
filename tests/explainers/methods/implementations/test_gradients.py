"""Methods of gradients: each against its formula over the twins, or against a second way to the same number."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import explainers
from explainers import ExplainerError, Rule
from explainers.autograd.rules import RULES, Strength
from tests.explainers.support.pair import TARGET, Pair
from tests.explainers.support.wrapped import inputs, one_hot, scores, wrapped
from tests.support.task_models import llama


def test_saliency(pair: Pair) -> None:
    made = pair.under("gradient")
    (g,) = made.gradients(made.inputs[:1], TARGET)
    pair.same(pair.read("saliency", "gradient"), g.abs().sum(-1) * pair.mask)


@pytest.mark.parametrize("rule", ["gradient", "libra"])
def test_xgradcam_plus(pair: Pair, rule: str) -> None:
    made = pair.under(rule)
    total = torch.zeros_like(pair.mask, dtype=torch.float64)
    for x, g in zip(made.inputs, made.gradients(made.inputs, TARGET), strict=True):
        for sample in range(len(x)):
            real = pair.mask[sample]
            weight = (g[sample, real] * x[sample, real].abs()).sum(0) / (x[sample, real].abs().sum(0) + 1e-7)
            total[sample, real] += x[sample, real] @ weight
    pair.same(pair.read("xgradcam_plus", rule), total.detach())


@pytest.mark.parametrize("temperature", [1.0, 2.0, 4.0])
def test_gim_over_the_twins(pair: Pair, temperature: float) -> None:
    """The twin takes the softmax at scores / T; the engine has the weights alone. At T = 1 halves and norms are left."""
    rule = replace(RULES["gim"], strength=Strength(temperature=temperature))
    made = pair.twin(rule)
    (g,) = made.gradients(made.inputs[:1], TARGET)
    ours = pair.recording.cached_backward(rule, one_hot(pair.recording, TARGET)).block_inputs[0]
    torch.testing.assert_close(ours, g, rtol=1e-9, atol=1e-12)
    if temperature == 2:
        pair.same(pair.read("input_x_gradient", "gim"), (made.inputs[0] * g).sum(-1) * pair.mask)
    if temperature == 1:
        plain = Rule(attention="half", norm="constant", product="half")
        torch.testing.assert_close(ours, pair.recording.cached_backward(plain, one_hot(pair.recording, TARGET)).block_inputs[0])


def test_gim_along_a_path_is_its_mean_gradient_there(pair: Pair) -> None:
    """What integrated= of any method does: 2 points of Gauss and Legendre between zero and the tokens."""
    x = pair.recording.block_inputs[0].detach()
    total = torch.zeros_like(x)
    for alpha in (0.5 - 3**-0.5 / 2, 0.5 + 3**-0.5 / 2):
        made = pair.twin(RULES["gim"], alpha * x)
        total += made.gradients(made.inputs[:1], TARGET)[0] / 2
    result = explainers.explain(pair.model, pair.tensors, target=TARGET, methods=["input_x_gradient:gim?integrated=2"])
    for sample, mask, expected in zip(result, pair.mask, (x * total).sum(-1), strict=True):
        torch.testing.assert_close(sample.maps[0].scores.double(), expected[mask], rtol=1e-5, atol=1e-7)


def test_smoothgrad_without_noise_is_saliency() -> None:
    smooth, plain = scores("vit", "smoothgrad?sigma=0&draws=3", "saliency")
    torch.testing.assert_close(smooth, plain, rtol=1e-6, atol=1e-9)


def test_smoothgrad_averages_gradients_at_noisy_tokens() -> None:
    one, other = scores("vit", "smoothgrad?sigma=0.2&draws=4", "saliency")
    assert not torch.allclose(one, other, rtol=1e-3)
    again = scores("vit", "smoothgrad?sigma=0.2&draws=4")[0]
    assert torch.equal(one, again)


def test_rules_of_the_ablation_change_one_choice_each() -> None:
    libra = RULES["libra"]
    for part in ("attention", "norm", "activation", "product", "bias"):
        rule = RULES[f"libra-{part}"]
        different = [f for f in ("attention", "norm", "activation", "product", "linear", "bias") if getattr(rule, f) != getattr(libra, f)]
        assert different == [part]


def test_a_rule_made_in_python_gives_the_map_of_the_rule_with_a_name() -> None:
    own = Rule(attention="constant", norm="constant", activation="gate", product="half")
    result = explainers.explain(wrapped("vit"), inputs("vit", 1), target=TARGET, methods=["fullgrad_plus:libra", ("fullgrad_plus", own)])
    first, second = result.maps
    assert second.method == "fullgrad_plus:custom"
    assert torch.equal(first.scores, second.scores)
    relevance = Rule(attention="relevance", norm="identity", activation="identity", product="relevance", linear="z_plus")
    with pytest.raises(ExplainerError, match="already multiplied"):
        explainers.explain(wrapped("vit"), inputs("vit", 1), methods=[("fullgrad_plus", relevance)])


def test_without_biases_fullgrad_is_input_times_gradient() -> None:
    full, plain = scores("vit", "fullgrad:libra-bias", "input_x_gradient:libra")
    assert torch.equal(full, plain)


@pytest.mark.parametrize(
    "spec", ["input_x_gradient?at=pixels", "saliency?at=pixels", "smoothgrad?at=pixels&draws=2", "integrated_gradients?at=pixels&steps=4"]
)
def test_maps_at_the_pixels_are_summed_over_each_patch(spec: str) -> None:
    result = explainers.explain(wrapped("vit"), inputs("vit", 1), target=TARGET, methods=spec)
    one = result.maps[0]
    assert one.pixels is not None
    rows, columns = one.patches
    sums = one.pixels.unflatten(0, (rows, -1)).unflatten(2, (columns, -1)).sum((1, 3))
    torch.testing.assert_close(one.scores[one.content], sums.flatten(), rtol=1e-4, atol=1e-6)
    with pytest.raises(ExplainerError, match="for images"):
        explainers.explain(wrapped("bert"), inputs("bert", 1), methods=spec)


def test_the_mean_of_fullgrad_plus_adds_up_without_biases() -> None:
    """As LibraGrad's notebook on Llama has it; the sum, and other gradients, promise nothing."""
    specs = ["fullgrad_plus:libra?reduction=mean", "fullgrad_plus?reduction=mean", "fullgrad_plus:libra"]
    model = llama()
    mean, plain, total = explainers.explain(model, "the good movie", methods=specs).maps
    assert (mean.adds_up_to, plain.adds_up_to, total.adds_up_to) == ("the explained number, in a model without biases", None, None)
    assert mean.completeness_error == pytest.approx(0, abs=1e-4)
    assert plain.completeness_error is not None
    assert plain.completeness_error > 0.01
    assert total.completeness_error is None
    torch.testing.assert_close(total.scores, len(model.blocks) * mean.scores, rtol=1e-5, atol=1e-6)
