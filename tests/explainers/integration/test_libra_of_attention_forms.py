"""Libra of attention written in forms of one's own, against the surrogate that Libra differentiates, by plain torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from tests.explainers.support.attention_forms import PREPROCESS, TOKENS, Attention, Block, Vit, built, pixels, scores, softmax_of

NEAREST = 5  # keys of each query


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.mT / q.shape[-1] ** 0.5


def gathered(v: Tensor, places: Tensor) -> Tensor:
    """The values (B, H, S, k, d) at the places (B, H, S, k)."""
    width = v.shape[-1]
    return v[:, :, None].expand(*places.shape[:3], TOKENS, width).gather(3, places[..., None].expand(*places.shape, width))


def values_less_attention(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return v - softmax_of(q, k) @ v


def values_less_fused_attention(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return v - 0.5 * F.scaled_dot_product_attention(q, k, v)


def difference(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    (q1, q2), (k1, k2) = q.chunk(2, -1), k.chunk(2, -1)
    return (softmax_of(q1, k1) - 0.4 * softmax_of(q2, k2)) @ v


def largest_by_product(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    found, places = scores_of(q, k).topk(NEAREST, -1)
    return (found.softmax(-1)[..., None, :] @ gathered(v, places))[..., 0, :]


def largest_by_number(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    found, places = scores_of(q, k).topk(NEAREST, -1)
    return (found.softmax(-1)[..., None] * gathered(v, places)).sum(-2)


def largest_scattered(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    found, places = scores_of(q, k).topk(NEAREST, -1)
    return torch.zeros(*q.shape[:3], TOKENS).to(q).scatter(-1, places, found.softmax(-1)) @ v


def neighbours(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    near = (torch.arange(TOKENS)[:, None] + torch.arange(-2, 3)).clamp(0, TOKENS - 1)
    weights = ((q[..., None, :] * k[:, :, near]).sum(-1) / q.shape[-1] ** 0.5).softmax(-1)
    return (weights[..., None] * v[:, :, near]).sum(-2)


def all_but_attention(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = 1 - softmax_of(q, k)
    return weights / weights.sum(-1, keepdim=True) @ v


def without_softmax(weights_of: Callable[[Tensor], Tensor]) -> Any:
    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        return weights_of(scores_of(q, k)) @ v

    return form


def over_sum(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


#: What is made of the products of queries and keys, in words of which each is as good as another.
WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "over their sum by F.normalize": lambda s: F.normalize(F.relu(s) + 0.01, p=1, dim=-1),
    "over their length": lambda s: F.normalize(F.relu(s) + 0.01, dim=-1),
    "over their sum by einsum": lambda s: torch.einsum("bhij,bhi->bhij", F.relu(s) + 0.01, 1 / (F.relu(s) + 0.01).sum(-1)),
    "over their sum by an inverse": lambda s: (F.relu(s) + 0.01) * (F.relu(s) + 0.01).sum(-1, keepdim=True).reciprocal(),
    "with signs, over the sum of their sizes": lambda s: s / s.abs().sum(-1, keepdim=True),
    "with signs, by F.normalize": lambda s: F.normalize(s, p=1, dim=-1),
    "with signs, over their length": lambda s: F.normalize(s, dim=-1),
    "positive ones by where": lambda s: over_sum(torch.where(s > 0, s, torch.zeros_like(s)) + 0.01),
    "positive ones by where, plain": lambda s: torch.where(s > 0, s, torch.zeros_like(s)),
    "positive ones by maximum": lambda s: over_sum(torch.maximum(s, torch.zeros_like(s)) + 0.01),
    "a square of a curve": lambda s: over_sum(F.relu(s) * F.relu(s) + 0.01),
    "a square of a sum": lambda s: over_sum((1 + s) ** 2),
    "a product of sums": lambda s: (1 + s) * (1 + s) / TOKENS,
    "sigmoids over their sum": lambda s: F.normalize(s.sigmoid(), p=1, dim=-1),
    "a curve without a rule": lambda s: over_sum(F.softplus(s)),
    "a curve over the largest": lambda s: F.relu(s) / (1 + s.relu().amax(-1, keepdim=True)),
}


def values_first(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (v.mT @ F.normalize(F.relu(scores_of(q, k)), p=1, dim=-1).mT).mT


def scores_behind_values(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (v.mT @ scores_of(k, q)).mT / TOKENS


def number_by_number(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (F.relu(scores_of(q, k))[..., None] * v[:, :, None]).sum(-2)


def by_a_layer(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = F.normalize(F.relu(scores_of(q, k)) + 0.01, p=1, dim=-1)
    return torch.stack([F.linear(weights[:, head][0], v[:, head][0].mT)[None] for head in range(q.shape[1])], 1)


def channels_first_by_einsum(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.einsum("bhij,bhjd->bhdi", F.normalize(F.relu(scores_of(q, k)) + 0.01, p=1, dim=-1), v).mT


FORMS = [
    values_first,
    scores_behind_values,
    number_by_number,
    by_a_layer,
    channels_first_by_einsum,
    *(pytest.param(without_softmax(weights_of), id=name) for name, weights_of in WEIGHTS.items()),
    values_less_attention,
    values_less_fused_attention,
    difference,
    largest_by_product,
    largest_by_number,
    largest_scattered,
    neighbours,
    all_but_attention,
]


def vit_of(form: Any) -> Vit:
    vit = built(lambda: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)]))
    assert isinstance(vit, Vit)
    return vit


def normalised(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """LayerNorm with its scale held constant."""
    scale = (x.var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt().detach()
    return (x - x.mean(-1, keepdim=True)) * scale * norm.weight + norm.bias


def surrogate(vit: Vit, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of the model with attention weights, scales and gates held constant, and x^1."""
    tokens = torch.cat([vit.cls, vit.patch(x).flatten(2).mT], 1) + vit.pos
    first = h = tokens.detach().requires_grad_()
    for block in vit.blocks:
        attention: Any = block.attn
        q, k, v = attention.heads(attention.qkv(normalised(block.n1, h)), 3)  # type: ignore[arg-type]
        h = h + attention.proj(attention.form(attention, q.detach(), k.detach(), v, h).transpose(1, 2).flatten(2))
        mlp: Any = block.mlp
        inner = mlp.a(normalised(block.n2, h))  # type: ignore[arg-type]
        h = h + mlp.b(inner * (F.gelu(inner) / inner).detach())
    return vit.head(normalised(vit.norm, h)[:, 0]), first


@pytest.mark.parametrize("form", FORMS)
def test_libra_is_the_gradient_of_its_surrogate(form: Any) -> None:
    vit, x = vit_of(form), pixels()
    logits, first = surrogate(vit, x)
    torch.testing.assert_close(logits, vit(x))
    (gradient,) = torch.autograd.grad(logits[0, 1], first)
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    (result,) = explainers.explain(model, model.prepare({"pixel_values": x}), 1, ["input_x_gradient:libra"])
    torch.testing.assert_close(result.maps[0].scores.double(), (first * gradient).sum(-1)[0], rtol=1e-5, atol=1e-7)
    assert result.completeness("libra") < 1e-10


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (values_less_attention, "also added to what it gives"),
        (values_less_fused_attention, "also added to what it gives"),
        (largest_by_product, "each query gathers keys of its own"),
        (largest_by_number, "number by number"),
    ],
)
def test_what_reads_weights_that_are_a_part_is_refused_with_the_reason(form: Any, reason: str) -> None:
    for spec in ("rollout", "raw_attention", "generic_attention", "transformer_attribution"):
        with pytest.raises(explainers.ExplainerError, match=reason):
            scores(vit_of(form), pixels(), 1, spec)
