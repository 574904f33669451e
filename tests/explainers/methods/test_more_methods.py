"""The read-outs beyond the first fifteen: each against its formula over the twins, or against a second way to the same number."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import networkx
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import explainers
from explainers import ExplainerError, Rule
from explainers.autograd.propagation import Propagation
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.methods.readouts import decomposition
from explainers.methods.readouts.decomposition import after_attention
from explainers.methods.readouts.flow import _flows
from explainers.session import Session
from tests.explainers.methods.test_methods import TARGET, Pair
from tests.explainers.support import twins
from tests.explainers.support.wrapped import inputs, wrapped
from tests.families import FAMILIES


@pytest.fixture(scope="module", params=["vit", "bert"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return Pair(request.param)


def scores(name: str, *specs: str, batch: int = 1) -> list[Tensor]:
    result = explainers.explain(wrapped(name), inputs(name, batch), target=TARGET, methods=list(specs))
    first = result[0] if isinstance(result, list) else result
    return [first[spec].scores.double() for spec in specs]


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


def test_smoothgrad_without_noise_is_saliency() -> None:
    smooth, plain = scores("vit", "smoothgrad?sigma=0&draws=3", "saliency")
    torch.testing.assert_close(smooth, plain, rtol=1e-6, atol=1e-9)


def test_smoothgrad_averages_gradients_at_noisy_tokens() -> None:
    one, other = scores("vit", "smoothgrad?sigma=0.2&draws=4", "saliency")
    assert not torch.allclose(one, other, rtol=1e-3)
    again = scores("vit", "smoothgrad?sigma=0.2&draws=4")[0]
    assert torch.equal(one, again)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, f in FAMILIES.items() if f.kind != "clip"])
def test_decompx_by_propagating_every_token_is_input_times_gradient(name: str) -> None:
    """Under constant attention, gates and scales the two are the same number; with and without the halving of products."""
    for rule in ("libra-product", "libra"):
        forward, backward = scores(name, f"decompx:{rule}" if rule == "libra" else "decompx", f"input_x_gradient:{rule}")
        torch.testing.assert_close(forward, backward, rtol=1e-5, atol=1e-6 * float(backward.abs().max()))


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


def test_token_tm(pair: Pair) -> None:
    """Blocks of the ViT alone: there the stream after attention is the block's input plus attention's output."""
    if pair.name != "vit":
        pytest.skip("the twin of the BERT does not keep the stream after attention")
    made = pair.under("gradient")
    grads = made.gradients(made.attentions, TARGET)
    eye = torch.eye(made.inputs[0].shape[1], dtype=torch.float64)
    joint = torch.diag_embed(made.inputs[0].norm(dim=-1))
    for x, middle, y, a, g in zip(made.inputs, pair.recording.mid_residuals, made.outputs, made.attentions, grads, strict=True):
        before = (middle.norm(dim=-1) / (x.norm(dim=-1) + 1e-8)) * F.cosine_similarity(x, middle, dim=-1).softmax(-1)
        after = (y.norm(dim=-1) / (middle.norm(dim=-1) + 1e-8)) * F.cosine_similarity(middle, y, dim=-1).softmax(-1)
        attended = eye + (a.mean(1) @ torch.diag_embed(before)) * g.clamp(min=0).mean(1)
        joint = (eye + torch.diag_embed(after)) @ attended @ joint
    pair.same(pair.read("token_tm", "gradient"), joint[:, 0].detach())


def test_the_stream_after_attention_is_found(pair: Pair) -> None:
    """In a pre-norm block it is what the second normalisation reads."""
    if pair.name != "vit":
        pytest.skip("the BERT is post-norm")
    seen: list[Tensor] = []
    handles = [b.norm2.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach())) for b in pair.model.module.blocks]
    try:
        pair.model.forward(pair.tensors)
    finally:
        for handle in handles:
            handle.remove()
    for ours, theirs in zip(pair.recording.mid_residuals, seen, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_legrad_of_the_last_block() -> None:
    """The head reads the mean of all tokens; gradient with respect to the last attention map by torch alone."""
    model, tensors = wrapped("vit"), inputs("vit", 1)
    module = model.module
    x1 = Recording(model, tensors).block_inputs[0].detach()
    made = twins.vit(module, x1, RULES["gradient"])
    pooled = made.outputs[-1].mean(1)
    logits = F.linear(
        F.layer_norm(pooled, pooled.shape[-1:], module.norm.weight, module.norm.bias, module.norm.eps), module.head.weight, module.head.bias
    )
    (g,) = torch.autograd.grad(logits[:, TARGET].sum(), made.attentions[-1])
    expected = g.clamp(min=0).mean(1).mean(1)[0]
    (ours,) = scores("vit", "legrad?layers=1")
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-8)


def test_grad_eclip() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    block = model.module.blocks[-1]
    kept: dict[str, Tensor] = {}

    def qkv(_: object, __: object, out: Tensor) -> None:
        kept["qkv"] = out

    def proj(_: object, args: tuple[Tensor, ...]) -> None:
        kept["o"] = args[0]
        args[0].retain_grad()

    handles = [block.attn.qkv.register_forward_hook(qkv), block.attn.proj.register_forward_pre_hook(proj)]
    try:
        with torch.enable_grad():
            model.module(tensors["pixel_values"].clone().requires_grad_())[:, TARGET].sum().backward()
    finally:
        for handle in handles:
            handle.remove()
        model.module.zero_grad(set_to_none=True)
    q, k, v = kept["qkv"].detach()[0].chunk(3, -1)
    gradient = kept["o"].grad
    assert gradient is not None
    q, k = (F.linear(t, block.attn.proj.weight, block.attn.proj.bias).detach() for t in (q, k))
    likeness = F.cosine_similarity(q[:1], k[1:], dim=-1)
    likeness = (likeness - likeness.min()) / (likeness.max() - likeness.min())
    expected = (likeness * (v[1:] @ gradient[0, 0])).clamp(min=0)
    (ours,) = scores("vit", "grad_eclip")
    torch.testing.assert_close(ours[1:], expected.detach(), rtol=1e-5, atol=1e-8)
    assert ours[0] == 0


def test_legrad_of_a_head_that_pools_by_attention() -> None:
    """The gradient with respect to the attention of the pooling query, each block's output given to the head as it is."""
    model, tensors = wrapped("siglip"), inputs("siglip", 1)
    pool, total = model.module.attn_pool, torch.zeros(())
    for block in (-2, -1):
        x = model.module.norm(Recording(model, tensors).block_outputs[block].detach())
        q = pool.q(pool.latent).unflatten(-1, (pool.num_heads, -1)).transpose(1, 2)
        k, v = pool.kv(x).unflatten(-1, (2, pool.num_heads, -1)).permute(2, 0, 3, 1, 4)
        a = (pool.q_norm(q) * pool.scale @ pool.k_norm(k).mT).softmax(-1).detach().requires_grad_()
        y = pool.proj((a @ v).transpose(1, 2).flatten(2))
        y = (y + pool.mlp(pool.norm(y)))[:, 0]
        (g,) = torch.autograd.grad(model.module.head(model.module.fc_norm(y))[0, TARGET], a)
        total = total + g.clamp(min=0).mean(1)[0, 0]
    (ours,) = scores("siglip", "legrad?layers=2")
    torch.testing.assert_close(ours, total, rtol=1e-5, atol=1e-8)


def test_attention_flow_is_the_maximum_flow_of_networkx() -> None:
    generator = torch.Generator().manual_seed(0)
    layers = [(torch.rand(4, 4, generator=generator, dtype=torch.float64).softmax(-1) + torch.eye(4)) / 2 for _ in range(3)]
    graph = networkx.DiGraph()
    for level, matrix in enumerate(layers):
        for i in range(4):
            for j in range(4):
                graph.add_edge((level + 1, i), (level, j), capacity=round(float(matrix[i, j]) * 1_000_000))
    expected = [networkx.maximum_flow_value(graph, (3, 0), (0, j)) for j in range(4)]
    assert _flows([m.numpy() for m in layers], 0).tolist() == expected


@pytest.mark.parametrize("name", ["vit", "bert"])
def test_contributions_and_bias_are_what_attention_gives_on_in_each_block(name: str) -> None:
    """What is left when all contributions are taken off the stream is the same at every token: the constants after attention."""
    model, tensors = wrapped(name), inputs(name)
    asked = Session(model, tensors, TARGET)
    trace = asked.trace(asked.chosen[0], None)
    for block, module in enumerate(model.blocks):
        shares = after_attention(trace, block, norms=1)
        left = shares.whole - shares.vectors.sum(2)
        if name == "vit":
            torch.testing.assert_close(shares.whole, trace.mid_residuals[block], rtol=0, atol=1e-12)
            expected = module.attn.proj.bias.expand_as(left)
        else:
            dense, norm = module.attention.output.dense, module.attention.output.LayerNorm
            scale = (trace.mid_residuals[block].var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt()
            expected = (dense.bias - dense.bias.mean()) * scale * norm.weight + norm.bias
        real = trace.mask
        torch.testing.assert_close(left[real], expected.detach()[real], rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["vit", "bert"])
def test_rolled_contributions_are_shares(name: str) -> None:
    for found in scores(name, "globenc", "alti", "attention_flow"):
        assert found.min() >= 0
        assert float(found.sum()) == pytest.approx(1, abs=1e-5)


def test_occlusion_is_the_fall_when_one_patch_is_grey() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    (ours,) = scores("vit", "occlusion")
    pixels = tensors["pixel_values"]
    rows, columns = 4, 3
    side = pixels.shape[-2] // rows
    with torch.no_grad():
        whole = model.forward(tensors)[0, TARGET]
        for patch in range(rows * columns):
            hidden = pixels.clone()
            y, x = divmod(patch, columns)
            hidden[..., y * side : (y + 1) * side, x * side : (x + 1) * side] = 0
            fall = float(whole - model.forward({"pixel_values": hidden})[0, TARGET])
            assert float(ours[1 + patch]) == pytest.approx(fall, abs=1e-6)


@pytest.mark.parametrize("spec", ["rise?samples=64", "kernel_shap?samples=200", "lime?samples=64&alpha=0.0001"])
def test_black_box_controls_repeat_themselves_and_agree_with_occlusion(spec: str) -> None:
    first, again, falls = scores("vit", spec)[0], scores("vit", spec)[0], scores("vit", "occlusion")[0]
    assert torch.equal(first, again)
    assert float(torch.corrcoef(torch.stack([first[1:], falls[1:]]))[0, 1]) > 0.5


def test_black_box_controls_without_a_mask_token_say_what_is_missing() -> None:
    with pytest.raises(ExplainerError, match="no mask token"):
        explainers.explain(wrapped("bert"), inputs("bert", 1), methods="occlusion")


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


@pytest.mark.parametrize("name", ["decompx", "globenc"])
def test_no_more_than_two_passes_of_copies_are_in_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold what all copies of the tokens were in all blocks; none of them waits for cycles to be collected."""
    alive, most = weakref.WeakSet[Propagation](), 0
    began = Propagation.__init__

    def begin(self: Propagation, *given: Any, **options: Any) -> None:
        nonlocal most
        alive.add(self)
        most = max(most, len(alive))
        began(self, *given, **options)

    monkeypatch.setattr(Propagation, "__init__", begin)
    monkeypatch.setattr(decomposition, "INNER_BATCH", 4)
    gc.collect()
    gc.disable()
    try:
        scores("vit", name)
        assert not alive
    finally:
        gc.enable()
    assert most == 2
