"""Text models written out as plain functions of x^1, in the operators of a rule: independent twins of what the engine records.

Each takes the module, one text without padding (1, S, D), and a :class:`Twin`, whose autograd gradient is the rule's signal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.explainers.support.formulas import Twin

Written = Callable[[Any, Twin, Tensor], Tensor]


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def affine(t: Twin, x: Tensor, layer: Any, place: str = "") -> Tensor:
    """nn.Linear."""
    weight, bias = layer.weight.detach(), 0.0 if layer.bias is None else layer.bias.detach()
    return t.linear(lambda y: y @ weight.mT + bias, x, place)


def rms(t: Twin, x: Tensor, layer: Any) -> Tensor:
    scale = (x.square().mean(-1, keepdim=True) + layer.variance_epsilon) ** -0.5
    return t.times(t.scaled(x, scale), layer.weight.detach())


def normed(t: Twin, x: Tensor, layer: Any) -> Tensor:
    """nn.LayerNorm."""
    return t.layer_norm(x, layer.weight.detach(), 0.0 if layer.bias is None else layer.bias.detach(), layer.eps)


def rotated(t: Twin, x: Tensor, frequencies: Tensor) -> Tensor:
    """Rotary positions: pairs of channels half a head apart turn by an angle that grows with the place."""
    angles = (torch.arange(x.shape[-2])[:, None] * frequencies).repeat(1, 2)
    first, second = x.chunk(2, -1)
    turned = torch.cat([t.times(second, -1), first], -1)
    return t.add(t.times(x, angles.cos()), t.times(turned, angles.sin()))


def causal(tokens: int) -> Tensor:
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


def decoder(module: Any, t: Twin, x: Tensor) -> Tensor:
    """Llama, Qwen2 and Qwen3: RMSNorm, rotary positions, fewer keys than queries, SwiGLU; the last with normalised queries and keys."""
    count = module.config.num_attention_heads
    frequencies = module.model.rotary_emb.inv_freq
    for block in module.model.layers:
        own, y = block.self_attn, rms(t, x, block.input_layernorm)
        keys = module.config.num_key_value_heads
        q, k, v = (heads(affine(t, y, p, "projection"), n) for p, n in ((own.q_proj, count), (own.k_proj, keys), (own.v_proj, keys)))
        if hasattr(own, "q_norm"):
            q, k = rms(t, q, own.q_norm), rms(t, k, own.k_norm)
        q, k = rotated(t, q, frequencies), rotated(t, k, frequencies)
        k, v = (z.repeat_interleave(count // keys, 1) for z in (k, v))
        out = t.attend(q, k, v, causal(x.shape[1])).transpose(1, 2).flatten(2)
        x = t.add(x, affine(t, out, own.o_proj, "projection"))
        y = rms(t, x, block.post_attention_layernorm)
        gated = t.mul(t.act(F.silu, affine(t, y, block.mlp.gate_proj)), affine(t, y, block.mlp.up_proj))
        x = t.add(x, affine(t, gated, block.mlp.down_proj))
    return affine(t, rms(t, x, module.model.norm)[:, -1], module.score)


def gpt2(module: Any, t: Twin, x: Tensor) -> Tensor:
    """One-dimensional convolutions, whose weights lie the other way round, and a GELU written out."""

    def conv(y: Tensor, layer: Any, place: str = "") -> Tensor:
        return t.linear(lambda z: z @ layer.weight.detach() + layer.bias.detach(), y, place)

    def gelu(y: Tensor) -> Tensor:
        return t.act(partial(F.gelu, approximate="tanh"), y)  # it is written as a product there

    for block in module.transformer.h:
        q, k, v = (heads(z, 2) for z in conv(normed(t, x, block.ln_1), block.attn.c_attn, "projection").chunk(3, -1))
        out = t.attend(q, k, v, causal(x.shape[1])).transpose(1, 2).flatten(2)
        x = t.add(x, conv(out, block.attn.c_proj, "projection"))
        x = t.add(x, conv(gelu(conv(normed(t, x, block.ln_2), block.mlp.c_fc)), block.mlp.c_proj))
    return affine(t, normed(t, x, module.transformer.ln_f)[:, -1], module.score)


def modernbert(module: Any, t: Twin, x: Tensor) -> Tensor:
    """Rotary positions of two kinds, attention to all and to neighbours, GeGLU, a head with an activation and a norm."""
    apart = (torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])).abs()
    for block in module.model.layers:
        y = x if isinstance(block.attn_norm, torch.nn.Identity) else normed(t, x, block.attn_norm)
        q, k, v = (heads(z, 2) for z in affine(t, y, block.attn.Wqkv, "projection").chunk(3, -1))
        frequencies = getattr(module.model.rotary_emb, f"{block.attention_type}_inv_freq")
        near = apart <= (module.config.local_attention // 2 if block.attention_type == "sliding_attention" else x.shape[1])
        out = t.attend(rotated(t, q, frequencies), rotated(t, k, frequencies), v, near).transpose(1, 2).flatten(2)
        x = t.add(x, affine(t, out, block.attn.Wo, "projection"))
        value, gate = affine(t, normed(t, x, block.mlp_norm), block.mlp.Wi).chunk(2, -1)
        x = t.add(x, affine(t, t.mul(t.act(F.gelu, value), gate), block.mlp.Wo))
    y = t.act(F.gelu, affine(t, normed(t, x, module.model.final_norm)[:, 0], module.head.dense))
    return affine(t, normed(t, y, module.head.norm), module.classifier)


def deberta(module: Any, t: Twin, x: Tensor) -> Tensor:
    """Attention of content to content, of content to the place of the other token, and of that place to content."""
    encoder, span = module.deberta.encoder, module.config.position_buckets
    places = encoder.LayerNorm(encoder.rel_embeddings.weight)[: 2 * span].detach()[None]
    apart = torch.arange(x.shape[1])[:, None] - torch.arange(x.shape[1])
    assert int(apart.abs().max()) < span  # so near that each distance has a place of its own
    for block in encoder.layer:
        own = block.attention.self
        q, k, v = (heads(affine(t, x, p, "projection"), 2) for p in (own.query_proj, own.key_proj, own.value_proj))
        at_q, at_k = (heads(p(places).detach(), 2) for p in (own.query_proj, own.key_proj))
        factor = (3 * q.shape[-1]) ** -0.5
        to_place = t.linear(lambda y, w=at_k: y @ w.mT, q, "projection").gather(-1, (apart + span).expand(1, 2, -1, -1))
        of_place = t.linear(lambda y, w=at_q: y @ w.mT, k, "projection").gather(-1, (span - apart).expand(1, 2, -1, -1)).mT
        scores = t.add(t.matmul(q, t.times(k, factor).mT), t.add(t.times(to_place, factor), t.times(of_place, factor)))
        out = t.matmul(t.softmax(scores), v).transpose(1, 2).flatten(2)
        after = block.attention.output
        x = normed(t, t.add(affine(t, out, after.dense, "projection"), x), after.LayerNorm)
        hidden = t.act(F.gelu, affine(t, x, block.intermediate.dense))
        x = normed(t, t.add(affine(t, hidden, block.output.dense), x), block.output.LayerNorm)
    return affine(t, t.act(F.gelu, affine(t, x[:, 0], module.pooler.dense)), module.classifier)


TWINS: dict[str, Written] = {
    "gpt2": gpt2,
    "llama": decoder,
    "qwen2": decoder,
    "qwen3": decoder,
    "modernbert": modernbert,
    "deberta-v3": deberta,
}
