"""Methods of attention or values with gradients (TokenTM, LeGrad, Grad-ECLIP), against their formulas over the twins."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

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
