"""Every method against its formula, over twins that are differentiated by torch alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.autograd.integration import INNER_BATCH
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.methods import METHODS
from explainers.models.model import Model
from explainers.records.session import rerunner
from explainers.records.targets import resolved_class
from explainers.records.trace import Trace
from tests.explainers.support.pair import CLOSE, TARGET, Pair
from tests.explainers.support.wrapped import chosen, inputs, read, trace_of, wrapped

RULED = ("gradient", "libra", "conservative", "attnlrp")


with_rules = pytest.mark.parametrize("rule", RULED)


@with_rules
def test_the_twins_are_the_models(pair: Pair, rule: str) -> None:
    made = pair.under(rule)
    torch.testing.assert_close(made.logits.detach(), pair.recording.logits.detach(), **CLOSE)
    for a, b in zip(made.attentions, pair.recording.attentions, strict=True):
        assert b is not None
        torch.testing.assert_close(a.detach(), b.detach(), **CLOSE)
    signals = pair.recording.cached_backward(
        RULES[rule], chosen(pair.recording, TARGET).output_gradient(pair.recording.logits, RULES[rule])
    )
    real = pair.mask[:, :, None]
    for ours, theirs in zip(signals.block_inputs, made.gradients(made.inputs, TARGET), strict=True):
        torch.testing.assert_close(ours * real, theirs * real, **CLOSE)
    for ours, theirs in zip(signals.attentions, made.gradients(made.attentions, TARGET), strict=True):
        assert ours is not None
        torch.testing.assert_close(ours * pair.mask[:, None, :, None], theirs * pair.mask[:, None, :, None], **CLOSE)


# --- attention ------------------------------------------------------------------------------------------------------


def test_raw_attention(pair: Pair) -> None:
    pair.same(pair.read("raw_attention", None), pair.under("gradient").attentions[-1].mean(1)[:, 0])


@pytest.mark.parametrize("start", [0, 1, -1, -2])
def test_rollout(pair: Pair, start: int) -> None:
    """Row-normalised (E_h A + I), multiplied with later blocks on the left."""
    joint = torch.eye(pair.mask.shape[1]).double()
    for a in pair.under("gradient").attentions[start % 2 :]:
        with_residual = a.mean(1) + torch.eye(a.shape[-1]).double()
        joint = (with_residual / with_residual.sum(-1, keepdim=True)) @ joint
    ours = pair.read("rollout", None, start_layer=start)
    pair.same(ours, joint[:, 0])
    torch.testing.assert_close(ours.sum(1), torch.ones(2).double())


@pytest.mark.parametrize("method", ["rollout", "generic_attention", "transformer_attribution"])
@pytest.mark.parametrize("start", [2, -3])
def test_a_start_beyond_the_last_block_is_refused(pair: Pair, method: str, start: int) -> None:
    with pytest.raises(ExplainerError, match="2 blocks"):
        pair.read(method, METHODS[method].rule, start_layer=start)


@with_rules
def test_gradcam_attention(pair: Pair, rule: str) -> None:
    made = pair.under(rule)
    a, (g,) = made.attentions[-1], made.gradients(made.attentions[-1:], TARGET)
    expected = torch.zeros(pair.mask.shape).double()
    for i in range(2):
        real = int(pair.mask[i].sum())
        for head in range(a.shape[1]):
            # images: mean over [CLS] to patches; texts: mean over the whole map of the real tokens
            weight = g[i, head, 0, 1:].mean() if pair.name == "vit" else g[i, head, :real, :real].mean()
            expected[i] += weight * a[i, head, 0] / a.shape[1]
    expected = expected.clamp(min=0)
    if pair.name == "bert":
        expected[:, 0] = 0
    pair.same(pair.read("gradcam_attention", rule), expected)


@with_rules
@pytest.mark.parametrize("start", [0, 1])
def test_generic_attention(pair: Pair, rule: str, start: int) -> None:
    made = pair.under(rule)
    grads = made.gradients(made.attentions, TARGET)
    r = torch.eye(pair.mask.shape[1]).double().expand(2, -1, -1)
    for a, g in list(zip(made.attentions, grads, strict=True))[start:]:
        r = r + (a * g).clamp(min=0).mean(1) @ r
    pair.same(pair.read("generic_attention", rule, start_layer=start), r[:, 0])


@with_rules
@pytest.mark.parametrize("published", [False, True])
def test_attcat(pair: Pair, rule: str, published: bool) -> None:
    made = pair.under(rule)
    if published:
        terms = list(zip(made.attentions, made.inputs, made.gradients(made.inputs, TARGET), strict=True))
    else:
        terms = list(zip(made.attentions[:-1], made.outputs[:-1], made.gradients(made.outputs[:-1], TARGET), strict=True))
    expected = torch.zeros(pair.mask.shape).double()
    for i in range(2):
        real = int(pair.mask[i].sum())
        for a, h, g in terms:
            expected[i] += a[i, :, :real].mean((0, 1)) * (h[i] * g[i]).sum(-1)
    pair.same(pair.read("attcat", rule, published_code=published), expected)


# --- tokens ---------------------------------------------------------------------------------------------------------


@with_rules
def test_input_x_gradient(pair: Pair, rule: str) -> None:
    made = pair.under(rule)
    (g,) = made.gradients(made.inputs[:1], TARGET)
    pair.same(pair.read("input_x_gradient", rule), (made.inputs[0] * g).sum(-1))


@with_rules
def test_hirescam(pair: Pair, rule: str) -> None:
    made = pair.under(rule)
    (g,) = made.gradients(made.inputs[-1:], TARGET)
    pair.same(pair.read("hirescam", rule), (made.inputs[-1] * g).sum(-1))


@with_rules
def test_gradcam_plus(pair: Pair, rule: str) -> None:
    made = pair.under(rule)
    expected = torch.zeros(pair.mask.shape).double()
    for x, g in zip(made.inputs, made.gradients(made.inputs, TARGET), strict=True):
        for i in range(2):
            real = int(pair.mask[i].sum())
            expected[i] += x[i].detach() @ g[i, :real].mean(0)
    pair.same(pair.read("gradcam_plus", rule), expected)


@with_rules
def test_fullgrad(pair: Pair, rule: str) -> None:
    made = pair.under(rule)
    (g,) = made.gradients(made.inputs[:1], TARGET)
    pair.same(pair.read("fullgrad", rule), (made.inputs[0] * g).sum(-1) + made.bias_terms(TARGET))


@with_rules
def test_fullgrad_plus(pair: Pair, rule: str) -> None:
    made = pair.under(rule)
    expected = made.bias_terms(TARGET)
    for x, g in zip(made.inputs, made.gradients(made.inputs, TARGET), strict=True):
        expected = expected + (x * g).sum(-1)
    pair.same(pair.read("fullgrad_plus", rule), expected)
    biases = made.bias_terms(TARGET)
    pair.same(pair.read("fullgrad_plus", rule, reduction="mean"), biases + (expected - biases) / len(made.inputs))


def traced(pair: Pair, rule: str) -> Trace:
    """A trace that can run the model again, as explain makes it."""
    rerun = rerunner(pair.model, pair.tensors, lambda: None)
    return Trace(pair.recording, chosen(pair.recording, TARGET), RULES[rule], rerun=rerun)


@pytest.mark.parametrize("rule", ["gradient", "libra"])
@pytest.mark.parametrize("steps", [1, 3, 20])
def test_integrated_gradients(pair: Pair, rule: str, steps: int) -> None:
    """Gauss-Legendre on [0, 1], one point after another."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    x1 = pair.recording.block_inputs[0].detach()
    mean = torch.zeros_like(x1)
    for node, weight in zip(nodes, weights, strict=True):
        made = pair.twin(RULES[rule], (node + 1) / 2 * x1)
        mean += made.gradients(made.inputs[:1], TARGET)[0] * weight / 2
    trace = traced(pair, rule)
    found = METHODS["integrated_gradients"].read(trace, steps=steps)
    pair.same(found.scores * pair.mask, (x1 * mean).sum(-1))
    change = pair.recording.logits[:, TARGET] - pair.twin(RULES["gradient"], 0 * x1).logits[:, TARGET]
    torch.testing.assert_close(found.error, (change - found.scores.sum(1)).abs().detach(), **CLOSE)


def test_the_gap_of_integrated_gradients_closes_with_more_steps(pair: Pair) -> None:
    gaps = []
    for steps in (2, 10, 60):
        trace = traced(pair, "gradient")
        error = METHODS["integrated_gradients"].read(trace, steps=steps).error
        assert error is not None
        gaps.append(float(error.max()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3 * float(pair.recording.logits.detach().abs().max())


# --- relevance ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["deep_taylor", "lrp"])
@pytest.mark.parametrize("start", [0, 1])
def test_transformer_attribution(pair: Pair, rule: str, start: int) -> None:
    """Eq. 13 and 14, with the relevance of the recording and the twin's own gradient."""
    made = pair.under("gradient")
    relevance = trace_of(pair.recording, rule, TARGET).signals.attentions
    joint = torch.eye(pair.mask.shape[1]).double().expand(2, -1, -1)
    for g, r in list(zip(made.gradients(made.attentions, TARGET), relevance, strict=True))[start:]:
        assert r is not None
        joint = joint + (g * r).clamp(min=0).mean(1) @ joint
    pair.same(pair.read("transformer_attribution", rule, start_layer=start), joint[:, 0])


def test_transformer_attribution_of_texts_as_published(pair: Pair) -> None:
    made = pair.under("gradient")
    relevance = trace_of(pair.recording, "deep_taylor", TARGET).signals.attentions
    for options, start in (({}, 1), ({"start_layer": 0}, 0)):
        rows = torch.eye(pair.mask.shape[1]).double().expand(2, -1, -1)
        for g, r in list(zip(made.gradients(made.attentions, TARGET), relevance, strict=True))[start:]:
            assert r is not None
            m = torch.eye(r.shape[-1]).double() + (g * r).clamp(min=0).mean(1)
            rows = (m / m.sum(-1, keepdim=True)) @ rows
        expected = rows[:, 0].clone()
        for i in range(2):
            expected[i, 0] = expected[i, : int(pair.mask[i].sum())].min()
        pair.same(pair.read("transformer_attribution", "deep_taylor", published_code=True, **options), expected)


@pytest.mark.parametrize("rule", ["lrp", "deep_taylor"])
def test_partial_lrp(pair: Pair, rule: str) -> None:
    r = trace_of(pair.recording, rule, TARGET).signals.attentions[-1]
    assert r is not None
    expected = r.clamp(min=0).mean(1)[:, 0].clone()
    if pair.name == "bert":
        expected[:, 0] = 0
    pair.same(pair.read("partial_lrp", rule), expected)


@pytest.mark.parametrize("rule", ["lrp", "deep_taylor"])
def test_lrp_without_pixels_is_the_relevance_of_x1(pair: Pair, rule: str) -> None:
    pair.same(pair.read("lrp", rule), trace_of(pair.recording, rule, TARGET).signals.block_inputs[0].sum(-1))


def test_lrp_of_pixels_is_summed_over_each_patch_and_conserved() -> None:
    """Under deep Taylor all relevance reaches the pixels or the tokens that have none, but for the share of the position embeddings."""
    recording = Recording(wrapped("vit"), inputs("vit"), pixels=True)
    trace = trace_of(recording, "deep_taylor", TARGET)
    found = METHODS["lrp"].read(trace)
    assert found.pixels is not None
    cells = found.pixels.reshape(2, 4, 8, 3, 8).sum((2, 4)).flatten(1)
    torch.testing.assert_close(found.scores[:, 1:], cells)
    assert found.pixels.shape == (2, 32, 24)


# --- control --------------------------------------------------------------------------------------------------------


def test_random_is_seeded_by_sample() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 3)
    first, second, third = (r["random"].scores for r in explainers.explain(model, tensors, methods="random", seed=5))
    expected = torch.rand(13, generator=torch.Generator().manual_seed(6), dtype=torch.float64).float()
    assert torch.equal(second, expected)
    assert not torch.equal(first, second)
    again = explainers.explain(model, tensors, methods="random", seed=5)[2]["random"].scores
    assert torch.equal(third, again)
    assert not torch.equal(explainers.explain(model, tensors, methods="random")[2]["random"].scores, third)
    assert bool(((third >= 0) & (third < 1)).all())


# --- all of them ----------------------------------------------------------------------------------------------------


#: What slow methods average over: few, but more draws of two samples than go through the model at once.
FEWER = {"steps": 4, "draws": INNER_BATCH // 2 + 1}


def specs_for(model: Model) -> list[str]:
    """Every variant that runs for the model, the slow ones with fewer steps and draws."""
    listed = [v for v in explainers.variants(model) if v.reason is None and v.method_name not in BLACK_BOXES]
    fewer = {name: "&".join(f"{option}={FEWER[option]}" for option in FEWER if option in m.options) for name, m in METHODS.items()}
    return [f"{v.spec}?{fewer[v.method_name]}" if fewer[v.method_name] else v.spec for v in listed]


BLACK_BOXES = {"random"} | {
    name for name, m in METHODS.items() if m.rule is None and m.slow
}  # drawn by place in the batch, or too slow here


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_padding_changes_no_score_of_any_method(name: str) -> None:
    model, tensors = wrapped(name), inputs(name, 2)
    real = int(tensors["attention_mask"][1].sum())
    assert real < tensors["input_ids"].shape[1]
    specs = specs_for(model)
    padded = explainers.explain(model, tensors, target=TARGET, methods=specs)[1]
    without = {key: value[1:, :real] for key, value in tensors.items()}
    alone = explainers.explain(model, without, target=TARGET, methods=specs, seed=1)
    for spec in specs:
        a, b = padded[spec], alone[spec]
        assert len(a.scores) == len(a.content) == real, spec
        assert torch.equal(a.content, b.content), spec
        assert float((a.scores - b.scores).abs().max()) <= 1e-5 * float(b.scores.abs().max()) + 1e-12, spec


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "siglip", "hf-clip", "mixer"])
def test_other_images_change_no_score_of_any_method(name: str) -> None:
    model, tensors = wrapped(name), inputs(name, 3)
    targets = resolved_class(("1",), torch.tensor([TARGET]))
    if model.kind == "clip":  # prompts need a tokenizer; the methods are enough
        together = Recording(model, tensors)
        alone = Recording(model, {**tensors, "pixel_values": tensors["pixel_values"][2:]})
        for method, rule in (("fullgrad_plus", "libra"), ("transformer_attribution", "deep_taylor"), ("gradcam_attention", "gradient")):
            b = METHODS[method].read(Trace(alone, targets, RULES[rule])).scores[0]
            a = read(together, method, rule, TARGET)[2]
            assert float((a - b).abs().max()) <= 1e-6 * float(b.abs().max()) + 1e-12, method
        return
    specs = specs_for(model)
    together = explainers.explain(model, tensors, target=TARGET, methods=specs)[2]
    # what is drawn at random depends on the place in the batch: seed 2 is what the third of a batch gets with seed 0
    alone = explainers.explain(model, {"pixel_values": tensors["pixel_values"][2:]}, target=TARGET, methods=specs, seed=2)
    for spec in specs:
        a, b = together[spec].scores, alone[spec].scores
        assert float((a - b).abs().max()) <= 1e-5 * float(b.abs().max()) + 1e-12, spec


@pytest.mark.slow
def test_class_specific_says_the_truth() -> None:
    """A method that is not class-specific gives the same map for every class; one that is, gives another."""
    model, tensors = wrapped("vit"), inputs("vit", 1)
    specs = specs_for(model)
    result = explainers.explain(model, tensors, target=[0, 3], methods=specs)
    first, second = (t.label for t in result.targets)
    for spec in specs:
        a, b = result[spec, first], result[spec, second]
        declared = f"{spec}: declare class_specific={not a.class_specific} where the method is declared"
        assert a.class_specific == (not torch.equal(a.scores, b.scores)), declared


@pytest.mark.slow
def test_unsigned_methods_give_no_negative_score() -> None:
    for name in ("vit", "bert"):
        model = wrapped(name)
        specs = specs_for(model)
        for result in explainers.explain(model, inputs(name, 2), target=TARGET, methods=specs):
            for one in result.maps:
                assert one.signed or float(one.scores.min()) >= 0, one.method
