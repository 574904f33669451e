"""Rows of the table of operators: attention, fused, of nn.MultiheadAttention, and its softmax alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.autograd.rules import Rule
from tests.explainers.support.formulas import Twin
from tests.explainers.support.operator_cases.case import B, Case, D, S, normal, seeded

BOOLEAN = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 1]]).bool()
ADDITIVE = normal(S, S, seed=5).masked_fill(~BOOLEAN, -torch.inf)
CAUSAL = torch.ones(S, S).bool().tril()
SHIFT = normal(2 * B, S, S, seed=8)
PADDED = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()  # True: padding


def qkv(x: Tensor, heads: int = 2, kv_heads: int | None = None, t: Twin | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Three paths (B, heads, S, d) from x."""
    t = t or Twin(Rule())

    def one(seed: int, count: int) -> Tensor:
        return t.linear(lambda y: y @ normal(D, count * 3, seed=seed), x, "projection").unflatten(-1, (count, 3)).transpose(1, 2)

    return one(11, heads), one(12, kv_heads or heads), one(13, kv_heads or heads)


def written_in_place(x: Tensor) -> Tensor:
    """A softmax whose exponentials are written into what they are of."""
    exponentials = (x - x.amax(-1, keepdim=True)).exp_()
    return exponentials / exponentials.sum(-1, keepdim=True)


POWERS_OF_TWO: dict[str, Callable[[Tensor], Tensor]] = {
    "torch": torch.exp2,
    "method": lambda x: x.exp2(),
    "special": torch.special.exp2,
    "in-place": lambda x: (x * 1.0).exp2_(),
    "in-place-torch": lambda x: torch.exp2_(x * 1.0),
}


def share_of_powers(power: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A softmax of powers of two."""
    powers = power(x / math.log(2))
    return powers / powers.sum(-1, keepdim=True)


def sdpa(name: str, mask: Tensor | None = None, twin_mask: Tensor | None = None, kv_heads: int = 2, **options: Any) -> Case:
    def function(x: Tensor) -> Tensor:
        q, k, v = qkv(x, 2, kv_heads)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options).transpose(1, 2)

    def twin(t: Twin, x: Tensor) -> Tensor:
        q, k, v = qkv(x, 2, kv_heads, t)
        k, v = k.repeat_interleave(2 // kv_heads, 1), v.repeat_interleave(2 // kv_heads, 1)
        return t.attend(q, k, v, mask if twin_mask is None else twin_mask, options.get("scale")).transpose(1, 2)

    return Case(name, lambda: function, twin)


def partly_constant(name: str, *constant: int) -> Case:
    """Attention in which some of queries, keys and values (0, 1, 2) do not depend on x: they take no share."""

    def parts(x: Tensor, t: Twin | None = None) -> list[Tensor]:
        return [normal(B, 2, S, 3, seed=31 + i) if i in constant else part for i, part in enumerate(qkv(x, t=t))]

    return Case(
        name,
        lambda: lambda x: F.scaled_dot_product_attention(*parts(x)).transpose(1, 2),
        lambda t, x: t.attend(*parts(x, t)).transpose(1, 2),
    )


class Attend(nn.Module):
    """nn.MultiheadAttention on x, or with a constant query as in attention pooling."""

    def __init__(
        self, first: bool, probe: bool = False, need_weights: bool = False, average: bool = True, bias: bool = True, **masks: Tensor
    ):
        super().__init__()
        self.attention = nn.MultiheadAttention(D, 2, batch_first=first, bias=bias)
        self.first, self.need, self.average, self.masks = first, need_weights, average, masks
        self.probe = nn.Parameter(torch.randn(1, 2, D)) if probe else None

    def forward(self, x: Tensor) -> Tensor:
        query = x if self.probe is None else self.probe.expand(len(x), -1, -1)
        query, key = (query, x) if self.first else (query.transpose(0, 1), x.transpose(0, 1))
        out, weights = self.attention(query, key, key, need_weights=self.need, average_attn_weights=self.average, **self.masks)
        out = out if self.first else out.transpose(0, 1)
        if self.need:
            out = torch.cat([out.flatten(1), weights.flatten(1)], 1)
        return out


def multi_head(name: str, twin_mask: Tensor | None = None, **options: Any) -> Case:
    def make() -> nn.Module:
        return seeded(lambda: Attend(**options))

    def twin(t: Twin, x: Tensor) -> Tensor:
        module = make().requires_grad_(False)
        inner: nn.MultiheadAttention = module.attention
        query = x if module.probe is None else module.probe.expand(len(x), -1, -1)
        weights = inner.in_proj_weight.chunk(3)
        biases = [torch.zeros(D).double()] * 3 if inner.in_proj_bias is None else inner.in_proj_bias.chunk(3)
        q, k, v = (
            t.linear(lambda y, w=w, b=b: y @ w.mT + b, source, "projection").unflatten(-1, (2, -1)).transpose(1, 2)
            for source, w, b in zip((query, x, x), weights, biases, strict=True)
        )
        out = t.linear(inner.out_proj, t.attend(q, k, v, twin_mask).transpose(1, 2).flatten(2), "projection")
        if module.need:
            scores = t.times(t.matmul(q, k.mT), 1 / math.sqrt(3))
            scores = scores if twin_mask is None else scores.masked_fill(~twin_mask, -torch.inf)
            shown = t.softmax(scores)
            out = torch.cat([out.flatten(1), (t.mean(shown, 1) if module.average else shown).flatten(1)], 1)
        return out

    return Case(name, make, twin)


def linear_attention(name: str, way: str) -> Case:
    """Queries, keys and values without a softmax, keys and values multiplied first; the twin makes the weights.

    ``way`` the normaliser is made: beside the values, as the sum of a column of ones (EfficientViT), apart from them, or not at all. The
    weights themselves are made in the other ways: over their sum ("weights-over-sum"), or without a normaliser, by matmul, einsum or a
    linear layer of one head.
    """

    def parts(x: Tensor, t: Twin) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = qkv(x, t=t)
        return t.act(F.relu, q), t.act(F.relu, k), v

    def function(x: Tensor) -> Tensor:
        q, k, v = parts(x, Twin(Rule()))
        if way == "beside":
            out = q @ (k.transpose(-1, -2) @ F.pad(v, (0, 1), value=1.0))
            out = out[..., :-1] / (out[..., -1:] + 0.1)
        elif way.startswith("weights"):
            scores = q @ k.mT
            if way == "weights-einsum":
                out = torch.einsum("bhnm,bhmd->bhnd", torch.einsum("bhnd,bhmd->bhnm", q, k), v)
            elif way == "weights-linear":
                out = torch.stack(
                    [torch.stack([F.linear(a, b.mT) for a, b in zip(*heads, strict=True)]) for heads in zip(scores, v, strict=True)]
                )
            else:
                out = (scores / (scores.sum(-1, keepdim=True) + 0.1) if way == "weights-over-sum" else scores) @ v
        else:
            out = q @ (k.mT @ v)
            out = out / (q @ k.sum(-2, keepdim=True).mT + 0.1) if way == "apart" else out
        return out.transpose(1, 2)

    def twin(t: Twin, x: Tensor) -> Tensor:
        q, k, v = parts(x, t)
        scores = t.matmul(q, k.mT)
        has_no_sum = way in ("none", "weights", "weights-einsum", "weights-linear")
        return t.matmul(t.weights(scores) if has_no_sum else t.normalised(scores, 0.1), v).transpose(1, 2)

    return Case(name, lambda: function, twin)


def curved_attention(name: str, curve: Callable[[Tensor], Tensor], twin_curve: Callable[[Twin, Tensor], Tensor]) -> Case:
    """Attention whose weights another curve than softmax makes, divided by the number of tokens."""

    def function(x: Tensor) -> Tensor:
        q, k, v = qkv(x)
        return (curve(q @ k.mT) / S @ v).transpose(1, 2)

    def twin(t: Twin, x: Tensor) -> Tensor:
        q, k, v = qkv(x, t=t)
        return t.matmul(t.weights(t.times(twin_curve(t, t.matmul(q, k.mT)), 1 / S)), v).transpose(1, 2)

    return Case(name, lambda: function, twin)


def leaky(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.1)


def with_positions(name: str, add: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Case:
    """Scores made and shifted by a constant in one call, as BLOOM adds ALiBi."""

    def function(x: Tensor) -> Tensor:
        q, k, v = qkv(x)
        shifted = add(SHIFT, q.flatten(0, 1), k.flatten(0, 1).mT).unflatten(0, (B, 2))
        return (shifted.softmax(-1) @ v).transpose(1, 2)

    def twin(t: Twin, x: Tensor) -> Tensor:
        q, k, v = qkv(x, t=t)
        shifted = t.plus(t.times(t.matmul(q, k.mT), 0.5), 2 * SHIFT.unflatten(0, (B, 2)))
        return t.matmul(t.softmax(shifted), v).transpose(1, 2)

    return Case(name, lambda: function, twin)


class TalkingHeads(nn.Module):
    """Attention whose scores and weights pass a convolution over the heads, as in EfficientFormerV2 and DeepViT."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = qkv(x)
        return (self.after(self.before(q @ k.mT).softmax(-1)) @ v).transpose(1, 2)


def talking_heads(t: Twin, x: Tensor) -> Tensor:
    module = seeded(TalkingHeads).requires_grad_(False)
    q, k, v = qkv(x, t=t)
    scores = t.linear(module.before, t.matmul(q, k.mT), "convolution")
    mixed = t.linear(lambda w: F.conv2d(w, module.after.weight), t.softmax(scores), "convolution")
    return t.matmul(t.plus(mixed, module.after.bias.view(-1, 1, 1)), v).transpose(1, 2)


CASES = [
    curved_attention("relu-attention", F.relu, lambda t, x: t.act(F.relu, x)),
    curved_attention("squared-attention", lambda x: leaky(x) ** 2, lambda t, x: t.power(t.act(leaky, x), 2)),
    with_positions("torch.baddbmm", lambda c, q, k: torch.baddbmm(c, q, k, beta=2, alpha=0.5)),
    with_positions("baddbmm_", lambda c, q, k: (c * 1.0).expand(len(q), -1, -1).clone().baddbmm_(q, k, beta=2, alpha=0.5)),
    with_positions("method-baddbmm", lambda c, q, k: c.baddbmm(q, k, beta=2, alpha=0.5)),
    Case("talking-heads-convolution", lambda: seeded(TalkingHeads), talking_heads),
    linear_attention("linear-attention", "beside"),
    linear_attention("linear-attention-normaliser-apart", "apart"),
    linear_attention("linear-attention-no-normaliser", "none"),
    *(linear_attention(f"linear-attention-{way}", way) for way in ("weights", "weights-over-sum", "weights-einsum", "weights-linear")),
    sdpa("sdpa"),
    sdpa("sdpa-scale", scale=0.3),
    sdpa("sdpa-bool", BOOLEAN),
    sdpa("sdpa-bool-per-head", BOOLEAN[None, None].expand(B, 2, S, S)),
    sdpa("sdpa-additive", ADDITIVE),
    sdpa("sdpa-causal", twin_mask=CAUSAL, is_causal=True),
    sdpa("sdpa-gqa", kv_heads=1, enable_gqa=True),
    partly_constant("sdpa-constant-queries", 0),
    partly_constant("sdpa-constant-keys", 1),
    partly_constant("sdpa-constant-values", 2),
    partly_constant("sdpa-constant-weights", 0, 1),
    multi_head("mha-batch-first", first=True),
    multi_head("mha-tokens-first", first=False),
    multi_head("mha-no-bias", first=True, bias=False),
    multi_head("mha-weights", first=True, need_weights=True),
    multi_head("mha-weights-per-head", first=False, need_weights=True, average=False),
    multi_head("mha-bool", first=True, attn_mask=~BOOLEAN, twin_mask=BOOLEAN, need_weights=True),
    multi_head("mha-additive", first=True, attn_mask=ADDITIVE, twin_mask=ADDITIVE),
    multi_head("mha-padding", first=True, key_padding_mask=PADDED, twin_mask=~PADDED[:, None, None]),
    multi_head(
        "mha-mask-and-padding",
        first=False,
        attn_mask=~CAUSAL,
        key_padding_mask=PADDED,
        twin_mask=CAUSAL & ~PADDED[:, None, None],
    ),
    multi_head("mha-mask-per-head", first=True, attn_mask=~BOOLEAN.expand(B * 2, S, S), twin_mask=BOOLEAN),
    multi_head("mha-probe", first=True, probe=True),
    # attention of one query to all tokens, number by number (MobileViT v2)
    Case(
        "weights-times-values",
        lambda: lambda x: (x * x.softmax(1)).sum(1),
        lambda t, x: t.total_of_products(t.weighted(x, t.softmax(x.mT).mT), 1),
    ),
    Case("softmax", lambda: lambda x: F.softmax(x, dim=-1), lambda t, x: t.softmax(x)),
    Case("softmax-method", lambda: lambda x: x.softmax(1), lambda t, x: t.softmax(x.mT).mT),
    Case("softmax-torch", lambda: lambda x: torch.softmax(x, -1), lambda t, x: t.softmax(x)),
    Case("softmax-dtype", lambda: lambda x: torch.softmax(x, -1, dtype=torch.float64), lambda t, x: t.softmax(x)),
    Case("log-softmax-exp", lambda: lambda x: torch.exp(F.log_softmax(x, -1)), lambda t, x: t.softmax(x)),
    Case("log-softmax-exp-torch", lambda: lambda x: torch.log_softmax(x, 1).exp(), lambda t, x: t.softmax(x.mT).mT),
    Case("log-softmax-exp-method", lambda: lambda x: x.log_softmax(-1).exp(), lambda t, x: t.softmax(x)),
    Case("softmax-written-out", lambda: lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), lambda t, x: t.softmax(x)),
    Case("log-softmax-exp-special", lambda: lambda x: torch.special.log_softmax(x, -1).exp(), lambda t, x: t.softmax(x)),
    Case("softmax-special", lambda: lambda x: torch.special.softmax(x, -1), lambda t, x: t.softmax(x)),
    Case("softmin", lambda: lambda x: F.softmin(x, dim=-1), lambda t, x: t.softmax(t.stays(torch.neg, x))),
    *(
        Case(f"softmax-of-powers-{name}", lambda power=power: lambda x: share_of_powers(power, x), lambda t, x: t.softmax(x))
        for name, power in POWERS_OF_TWO.items()
    ),
    Case("softmax-written-in-place", lambda: written_in_place, lambda t, x: t.softmax(x)),
    Case("nn.Softmax", lambda: nn.Softmax(-1), lambda t, x: t.softmax(x)),
]
