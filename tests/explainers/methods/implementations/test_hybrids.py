"""Methods of attention or values with gradients (TokenTM, LeGrad, AGCAM, Grad-ECLIP), against their formulas over the twins."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from tests.explainers.support import twins
from tests.explainers.support.pair import TARGET, Pair
from tests.explainers.support.wrapped import inputs, scores, wrapped


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


def agcam_of_bert(detached: bool) -> Tensor:
    """Of two padded texts, (B, S): hooks on the attention of transformers' BERT, which may take what is detached; the sums of the paper."""
    model, tensors = wrapped("bert"), inputs("bert", 2)
    mask = Recording(model, tensors).mask
    kept: list[tuple[Tensor, Tensor]] = []

    def before(child: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        return ((args[0].detach(), *args[1:]) if detached else args), kwargs

    def after(child: nn.Module, args: tuple[Tensor, ...], output: Any) -> None:
        out = output[0] if isinstance(output, tuple) else output
        out.retain_grad()
        kept.append((args[0].detach(), out))

    parts = [layer.attention.self for layer in model.module.bert.encoder.layer]
    handles = [part.register_forward_pre_hook(before, with_kwargs=True) for part in parts]
    handles += [part.register_forward_hook(after) for part in parts]
    try:
        with torch.enable_grad():
            model.forward(tensors)[:, TARGET].sum().backward()
    finally:
        for handle in handles:
            handle.remove()
        model.module.zero_grad(set_to_none=True)
    total = torch.zeros(mask.shape, dtype=torch.float64)
    for part, (x, out) in zip(parts, kept, strict=True):
        q, k, v, g = (twins.heads(t, part.num_attention_heads) for t in (part.query(x), part.key(x), part.value(x), out.grad))
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask[:, None, None], -torch.inf)
        total += (torch.relu(g @ v.mT) * torch.sigmoid(scores)).sum(1)[:, 0].detach()
    return total


@pytest.mark.parametrize(("spec", "detached"), [("agcam", True), ("agcam:gradient", False)])
def test_agcam_of_a_padded_text(spec: str, detached: bool) -> None:
    model, tensors = wrapped("bert"), inputs("bert", 2)
    mask = Recording(model, tensors).mask
    assert not bool(mask.all())
    result = explainers.explain(model, tensors, target=TARGET, methods=[spec])
    assert isinstance(result, list)
    for one, real, expected in zip(result, mask, agcam_of_bert(detached), strict=True):
        torch.testing.assert_close(one[spec].scores.double(), expected[real], rtol=1e-5, atol=1e-8)


def test_agcam_of_a_head_that_pools() -> None:
    """It says what to send; the class token's row, which such a head does not read, has no gradient but through attention."""
    model, tensors = wrapped("eva02"), inputs("eva02", 1)
    with pytest.raises(ExplainerError, match="no classification token"):
        explainers.explain(model, tensors, target=TARGET, methods=["agcam"])
    specs = ["agcam?row=mean", "agcam:gradient?row=class_token", "agcam?row=class_token"]
    mean, ordinary, nothing = explainers.explain(model, tensors, target=TARGET, methods=specs).maps  # type: ignore[union-attr]
    assert bool(mean.scores.any())
    assert bool(ordinary.scores.any())
    assert not bool(nothing.scores.any())
    assert any("agcam:gradient?row=class_token" in note for note in nothing.notes)
    assert not any("agcam:gradient" in note for note in ordinary.notes)


def test_agcam_where_a_head_has_as_many_channels_as_there_are_tokens() -> None:
    """Then gradients tell over which of both attention runs, in the second recording too, which has to live as long."""
    model, tensors = wrapped("bert"), inputs("bert", 1)
    channels = model.module.config.hidden_size // model.module.config.num_attention_heads  # type: ignore[union-attr, operator]
    of_length = {name: torch.cat([tensor, tensor], 1)[:, :channels] for name, tensor in tensors.items()}
    result = explainers.explain(model, of_length, target=TARGET, methods=["agcam"])
    one = result[0] if isinstance(result, list) else result
    assert one["agcam"].scores.shape == (channels,)
    assert bool(one["agcam"].scores.any())
