"""Experts by a router: the weight of the expert that a token goes to is a softmax, however the largest of it is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import PREPROCESS, WIDTH, Attention, Block, Vit, built, of_module, pixels, scores, softmax_of

EXPERTS = 3
Route = Callable[[Tensor], tuple[Tensor, Tensor]]  # from the router's softmax to the largest weight (..., 1) and its place


def by_amax(weights: Tensor) -> tuple[Tensor, Tensor]:
    return weights.amax(-1, keepdim=True), weights.argmax(-1, keepdim=True)


ROUTES: dict[str, Route] = {
    "max": lambda weights: weights.max(-1, keepdim=True),
    "amax": by_amax,
    "topk": lambda weights: weights.topk(1, -1),
    "sort": lambda weights: tuple(each[..., :1] for each in weights.sort(-1, descending=True)),
}


class Routed(nn.Module):
    """An MLP of several, of which each token goes to one, times its weight."""

    def __init__(self, route: Route) -> None:
        super().__init__()
        self.route, self.router = route, nn.Linear(WIDTH, EXPERTS)
        self.up = nn.ModuleList([nn.Linear(WIDTH, 32) for _ in range(EXPERTS)])
        self.down = nn.ModuleList([nn.Linear(32, WIDTH) for _ in range(EXPERTS)])

    def forward(self, x: Tensor) -> Tensor:
        weight, place = self.route(self.router(x).softmax(-1))
        out = torch.zeros_like(x)
        for expert in range(EXPERTS):
            out = out + weight * (place == expert) * self.down[expert](F.gelu(self.up[expert](x)))
        return out


def held_norm(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    scale = (x.var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt().detach()
    return (x - x.mean(-1, keepdim=True)) * scale * norm.weight + norm.bias


def by_libra(vit: Vit) -> Tensor:
    """Input x gradient with attention, scales, gates and the router's weights detached."""
    x = (torch.cat([vit.cls, vit.embed(vit.patch(pixels()))], 1) + vit.pos).detach().requires_grad_()
    y = x
    for block in vit.blocks:
        assert isinstance(block, Block)
        attention, mlp = block.attn, block.mlp
        assert isinstance(attention, Attention)
        assert isinstance(mlp, Routed)
        q, k, v = attention.heads(attention.qkv(held_norm(block.n1, y)), 3)
        y = y + attention.proj((softmax_of(q, k).detach() @ v).transpose(1, 2).flatten(2))
        z = held_norm(block.n2, y)
        weights = mlp.router(z).softmax(-1).detach()
        chosen = F.one_hot(weights.argmax(-1), EXPERTS)
        for expert in range(EXPERTS):
            up = mlp.up[expert](z)
            given = mlp.down[expert](up * (0.5 * (1 + torch.erf(up / 2**0.5))).detach())
            y = y + (weights * chosen)[..., expert : expert + 1] * given
    vit.head(held_norm(vit.norm, y)[:, 0])[0, 1].backward()
    assert x.grad is not None
    return (x * x.grad).sum(-1)[0].detach()


@pytest.mark.parametrize("name", ROUTES)
def test_the_weight_of_an_expert_is_held_as_a_softmax_is(name: str) -> None:
    vit = built(lambda: Vit(lambda: [Block(lambda: Attention(of_module), lambda: Routed(ROUTES[name])) for _ in range(2)]))
    assert isinstance(vit, Vit)
    expected = by_libra(vit)
    for found in scores(vit, pixels(), 1, "input_x_gradient:libra", "decompx:libra"):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-8)
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["fullgrad:libra"], precision="double")
    assert (result[0] if isinstance(result, list) else result).completeness("libra") < 1e-12
