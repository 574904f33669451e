"""Class attention of CaiT, VOLO and XCiT written out with torch alone, in float64: what each token gives each other, block by block.

Every value vector carries the biases that its token met before tokens were mixed; what is added later belongs to no token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Given:
    """vectors (B, to, from, D), what the tokens give; constants (D,) or (B, to, D), what no token gives; stream (B, to, D), their sum."""

    vectors: Tensor
    constants: Tensor
    stream: Tensor


def inputs_of(modules: list[nn.Module], run: Any) -> list[tuple[Tensor, ...]]:
    """The tensors that each module is given while ``run()``."""
    seen: dict[int, tuple[Tensor, ...]] = {}
    handles = [
        m.register_forward_pre_hook(lambda module, args, i=i: seen.update({i: tuple(a.detach() for a in args if isinstance(a, Tensor))}))
        for i, m in enumerate(modules)
    ]
    with torch.no_grad():
        run()
    for handle in handles:
        handle.remove()
    return [seen[i] for i in range(len(modules))]


def _heads(tokens: Tensor, heads: int) -> Tensor:
    return tokens.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, H, S, d)


def _given(weights: Tensor, value: Tensor, proj: nn.Linear, scale: Tensor | float, kept: Tensor) -> Given:
    """weights (B, H, to, from), value (B, S, H d); ``kept`` (B, to, D) are the first tokens, which the sum is added to."""
    parts = torch.einsum("bhij,bhjd->bijhd", weights, _heads(value, weights.shape[1])).flatten(3)  # before the projection
    vectors = scale * (parts @ proj.weight.T)
    for i in range(kept.shape[1]):
        vectors[:, i, i] += kept[:, i]
    constants = scale * proj.bias
    return Given(vectors, constants, vectors.sum(2) + constants)


def class_block(block: nn.Module, given: tuple[Tensor, ...]) -> Given:
    """One block of class attention: (B, 1, 1 + S, D); of XCiT the patches too, each of which adds its own normalised self."""
    u = given[0] if len(given) == 1 else torch.cat([given[1], given[0]], 1)
    attn, normed = block.attn, block.norm1(u)
    scale = getattr(block, "gamma_1", getattr(block, "gamma1", 1.0))
    if hasattr(attn, "kv"):
        key, value = attn.kv(normed).chunk(2, -1)
    else:
        key, value = attn.k(normed), attn.v(normed)
    query = attn.q(normed[:, :1])
    weights = (_heads(query, attn.num_heads) @ _heads(key, attn.num_heads).mT * attn.scale).softmax(-1)
    of_class = _given(weights, value, attn.proj, scale, u[:, :1])
    if not hasattr(block, "gamma1"):
        return of_class
    patches = torch.diag_embed((u + scale * normed)[:, 1:].mT).movedim(1, -1)  # (B, S, S, D)
    vectors = torch.cat([of_class.vectors, F.pad(patches, (0, 0, 1, 0))], 1)
    constants = torch.cat([of_class.constants.expand_as(u[:, :1]), torch.zeros_like(u[:, 1:])], 1)
    return Given(vectors, constants, vectors.sum(2) + constants)


def patch_block(block: nn.Module, given: tuple[Tensor, ...], grid: tuple[int, int]) -> Given:
    """One block over the patches alone: attention of CaiT (its heads talk) and of VOLO, XCiT's attention over channels and convolutions."""
    x = given[0].flatten(1, 2) if given[0].dim() == 4 else given[0]
    if hasattr(block, "local_mp"):
        return _xcit_block(block, x, grid)
    attn = block.attn
    query, key, value = attn.qkv(block.norm1(x)).chunk(3, -1)
    scores = _heads(query, attn.num_heads) @ _heads(key, attn.num_heads).mT * attn.scale
    if hasattr(attn, "proj_l"):
        scores = torch.einsum("bhij,gh->bgij", scores, attn.proj_l.weight) + attn.proj_l.bias[:, None, None]
        weights = torch.einsum("bhij,gh->bgij", scores.softmax(-1), attn.proj_w.weight) + attn.proj_w.bias[:, None, None]
    else:
        weights = scores.softmax(-1)
    return _given(weights, value, attn.proj, getattr(block, "gamma_1", 1.0), x)


def _xcit_block(block: Any, x: Tensor, grid: tuple[int, int]) -> Given:
    """Attention over channels leaves each token to itself; the convolutions after it bring neighbours together."""
    after = x + block.gamma1 * block.attn(block.norm1(x))
    local, normed = block.local_mp, block.norm3(after)

    def image(tokens: Tensor) -> Tensor:
        return tokens.mT.unflatten(-1, grid)

    first = F.conv2d(image(normed), local.conv1.weight, local.conv1.bias, padding=1, groups=x.shape[-1])
    gate = F.gelu(first) / first
    norm = local.bn.weight / (local.bn.running_var + local.bn.eps).sqrt()
    vectors = torch.zeros(*x.shape[:2], x.shape[1], x.shape[2], dtype=x.dtype)
    for j in range(x.shape[1]):
        alone = torch.zeros_like(x)
        alone[:, j] = normed[:, j]
        inner = F.conv2d(image(alone), local.conv1.weight, padding=1, groups=x.shape[-1]) * gate * norm[:, None, None]
        vectors[:, :, j] = block.gamma3 * F.conv2d(inner, local.conv2.weight, padding=1, groups=x.shape[-1]).flatten(2).mT
        vectors[:, j, j] += after[:, j]
    stream = after + block.gamma3 * local(normed, *grid)
    return Given(vectors, stream - vectors.sum(2), stream)
