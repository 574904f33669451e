"""A gate made of the input that multiplies what attention gave, against the published rules written out in plain torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import PREPROCESS, Attention, Block, Vit, built, pixels, softmax_of

Gate = Callable[[Tensor], Tensor]
TARGET = 1


def vit_of(gate: Gate) -> Vit:
    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        return gate(q) * (softmax_of(q, k) @ v)

    vit = built(lambda: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)]))
    assert isinstance(vit, Vit)
    return vit


def norm_with_constant_scale(norm: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(norm, nn.LayerNorm)
    scale = (x.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt().detach()
    return (x - x.mean(-1, keepdim=True)) / scale * norm.weight + norm.bias


def gelu_with_constant_gate(x: Tensor) -> Tensor:
    return x * (0.5 * (1 + torch.erf(x / 2**0.5))).detach()


def half_to_each(a: Tensor, b: Tensor) -> Tensor:
    """Achtibat et al., 2024, Proposition 3.2; LibraGrad's rule for products of two functions of the input."""
    return 0.5 * (a.detach() * b + a * b.detach())


def all_to_the_other(a: Tensor, b: Tensor) -> Tensor:
    """Both papers where one factor is a constant, as docs/rules.md says that the bounded curve of a gate is."""
    return a.detach() * b


def by_hand(vit: Vit, gate: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return, for each token, x^1 times the gradient of the logit, with ``gate(q, c)`` as the product of the gate and what attention gave,
    and weights, scales of norms and gates of GELU constant.
    """
    x1 = torch.cat([vit.cls, vit.patch(pixels()).flatten(2).mT], 1) + vit.pos
    x1 = x1.detach().requires_grad_()
    x = x1
    for block in vit.blocks:
        assert isinstance(block, Block)
        assert isinstance(block.attn, Attention)
        q, k, v = block.attn.heads(block.attn.qkv(norm_with_constant_scale(block.n1, x)), 3)
        context = gate(q, softmax_of(q, k).detach() @ v)
        x = x + block.attn.proj(context.transpose(1, 2).flatten(2))
        hidden = norm_with_constant_scale(block.n2, x)
        x = x + block.mlp.b(gelu_with_constant_gate(block.mlp.a(hidden)))
    logit = vit.head(norm_with_constant_scale(vit.norm, x)[:, 0])[0, TARGET]
    (gradient,) = torch.autograd.grad(logit, x1)
    return (gradient * x1).sum(-1)[0].detach()


@pytest.mark.parametrize(
    ("gate", "twin"),
    [
        (lambda q: q, lambda q, c: half_to_each(q, c)),
        (torch.tanh, lambda q, c: all_to_the_other(q.tanh(), c)),
        (torch.sigmoid, lambda q, c: all_to_the_other(q.sigmoid(), c)),
        (lambda q: torch.full_like(q, 0.5), lambda q, c: 0.5 * c),
        (F.silu, lambda q, c: half_to_each(q * q.sigmoid().detach(), c)),
    ],
    ids=["linear", "tanh", "sigmoid", "a constant", "silu"],
)
def test_a_gate_of_the_input_takes_the_half_that_the_published_rule_gives_it(gate: Gate, twin: Callable[[Tensor, Tensor], Tensor]) -> None:
    vit = vit_of(gate)
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, TARGET, ["input_x_gradient:libra"])
    found = (result[0] if isinstance(result, list) else result).maps[0]
    expected = by_hand(vit, twin)
    torch.testing.assert_close(found.scores.double().flatten(), expected.flatten(), rtol=1e-4, atol=1e-6)
    assert not found.notes
