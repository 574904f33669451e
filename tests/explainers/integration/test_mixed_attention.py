"""Attention maps that a gate of the data mixes, heads that a router chooses, complex scores and thresholds: GlobEnc and ALTI against the
formulas of their papers, Libra against PyTorch's gradient with attention, scales and gates detached; and the refusal of what does not add
up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from explainers.autograd.nodes import Node, Role
from explainers.autograd.operators import Mul, Softmax
from explainers.autograd.products import MAX_MIXING_STEPS, are_mixed_weights
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import HEADS, PREPROCESS, WIDTH, Block, Mlp, Vit, built, pixels, scores, softmax_of

CHANNELS = WIDTH // HEADS
Gate = Callable[[nn.Linear, Tensor], Tensor]


class Mixed(nn.Module):
    """Two maps of attention over one set of values, ``attend`` says how; each head's output is multiplied by what ``share`` gives."""

    def __init__(self, attend: Any, gate: Gate, share: Any) -> None:
        super().__init__()
        self.attend, self.gate, self.share = attend, gate, share
        self.qk, self.v, self.proj, self.g, self.router = (nn.Linear(WIDTH, width) for width in (4 * WIDTH, WIDTH, WIDTH, HEADS, HEADS))

    def parts(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Both maps (B, H, S, S), the gate (B, H, S, 1) and the values (B, H, S, d)."""
        q, k, q2, k2 = self.qk(z).unflatten(-1, (4, HEADS, CHANNELS)).permute(2, 0, 3, 1, 4)
        v = self.v(z).unflatten(-1, (HEADS, CHANNELS)).transpose(1, 2)
        return softmax_of(q, k), softmax_of(q2, k2), self.gate(self.g, z), v

    def forward(self, z: Tensor) -> Tensor:
        first, second, g, v = self.parts(z)
        y = self.attend(first, second, g) @ v
        share = self.share(self.router(z).softmax(-1))
        return self.proj((y if share is None else y * share.transpose(1, 2)[..., None]).transpose(1, 2).flatten(2))


def sigmoid(layer: nn.Linear, z: Tensor) -> Tensor:
    return layer(z).sigmoid().mT[..., None]


def clamped(layer: nn.Linear, z: Tensor) -> Tensor:
    return layer(z).mT.clamp(0, 1)[..., None]


def of_class_token(layer: nn.Linear, z: Tensor) -> Tensor:
    return layer(z[:, :1]).sigmoid().mT[..., None]


def written_in(layer: nn.Linear, z: Tensor) -> Tensor:
    gate = torch.zeros(len(z), HEADS, z.shape[1], 1, dtype=z.dtype)
    for head in range(HEADS):
        gate[:, head, :, 0] = layer(z)[..., head].sigmoid()
    return gate


GATES: dict[str, Gate] = {"sigmoid": sigmoid, "clamp": clamped, "of the class token": of_class_token, "written into": written_in}
#: Ways to write (1 - g) A + g B, which are one function.
MIXES: dict[str, Any] = {
    "rest first": lambda a, b, g: (1 - g) * a + g * b,
    "gate first": lambda a, b, g: g * b + a * (1 - g),
    "difference": lambda a, b, g: a + g * (b - a),
    "lerp": lambda a, b, g: torch.lerp(a, b, g),
    "einsum": lambda a, b, g: torch.einsum("bhqt,bhqk->bhqk", 1 - g, a) + torch.einsum("bhqt,bhqk->bhqk", g, b),
}


def first_alone(first: Tensor, second: Tensor, gate: Tensor) -> Tensor:
    return first


def whole(weights: Tensor) -> None:
    return None


def by_scatter(weights: Tensor) -> Tensor:
    top = weights.topk(1, -1)
    return torch.zeros_like(weights).scatter(-1, top.indices, top.values)


def by_scatter_in_place(weights: Tensor) -> Tensor:
    values, places = weights.max(-1, keepdim=True)
    out = torch.zeros_like(weights)
    out.scatter_(-1, places, values)
    return out


def by_where(weights: Tensor) -> Tensor:
    return torch.where(weights == weights.amax(-1, keepdim=True), weights, torch.zeros(()))


ROUTES: dict[str, Any] = {"scatter": by_scatter, "scatter in place": by_scatter_in_place, "where": by_where}


def made(attend: Any = MIXES["rest first"], gate: Gate = sigmoid, share: Any = whole) -> Vit:
    vit = built(lambda: Vit(lambda: [Block(lambda: Mixed(attend, gate, share)) for _ in range(2)]))
    assert isinstance(vit, Vit)
    return vit


def embedded(vit: Vit) -> Tensor:
    return torch.cat([vit.cls, vit.embed(vit.patch(pixels()))], 1) + vit.pos


def mixed_weights(attention: Mixed, z: Tensor) -> tuple[Tensor, Tensor]:
    """Weights A + g (B - A) and values of each head; the weights times the largest of the router's, for the head that it chooses."""
    first, second, g, v = attention.parts(z)
    weights = first if attention.attend is first_alone else first + g * (second - first)
    if attention.share is not whole:
        chances = attention.router(z).softmax(-1)
        chosen = F.one_hot(chances.argmax(-1), HEADS) * chances
        weights = weights * chosen.transpose(1, 2)[..., None]
    return weights, v


def by_formula(vit: Vit) -> tuple[Tensor, Tensor]:
    """The maps of GlobEnc and ALTI, from the vectors that each token gives to each other one."""
    with torch.no_grad():
        x = embedded(vit)
        lengths = nearness = torch.eye(x.shape[1], dtype=x.dtype)
        for block in vit.blocks:
            attention = block.attn
            weights, v = mixed_weights(attention, block.n1(x))
            projection = attention.proj.weight.unflatten(1, (HEADS, -1))
            vectors = torch.einsum("hij,hjd,ohd->ijo", weights[0], v[0], projection)
            vectors = vectors + torch.eye(len(vectors), dtype=x.dtype)[:, :, None] * x[0]
            stream = vectors.sum(1) + attention.proj.bias
            length, near = vectors.norm(dim=-1), stream.abs().sum(-1)[:, None] - (stream[:, None] - vectors).abs().sum(-1)
            lengths = length / length.sum(-1, keepdim=True) @ lengths
            nearness = near.clamp(min=0) / near.clamp(min=0).sum(-1, keepdim=True) @ nearness
            x = stream[None] + block.mlp(block.n2(stream[None]))
    return lengths[0], nearness[0]


def held_norm(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    scale = (x.var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt().detach()
    return (x - x.mean(-1, keepdim=True)) * scale * norm.weight + norm.bias


def held_mlp(mlp: Mlp, x: Tensor) -> Tensor:
    up = mlp.a(x)
    return mlp.b(up * (0.5 * (1 + torch.erf(up / 2**0.5))).detach())


def by_libra(vit: Vit, weights_of: Callable[[Any, Tensor], tuple[Tensor, Tensor]] = mixed_weights) -> Tensor:
    """Input x gradient of class 1 with attention weights and their gates, scales and gates of the MLP detached."""
    x = embedded(vit).detach().requires_grad_()
    y = x
    for block in vit.blocks:
        weights, v = weights_of(block.attn, held_norm(block.n1, y))
        y = y + block.attn.proj((weights.detach() @ v).transpose(1, 2).flatten(2))
        y = y + held_mlp(block.mlp, held_norm(block.n2, y))
    vit.head(held_norm(vit.norm, y)[:, 0])[0, 1].backward()
    assert x.grad is not None
    return (x * x.grad).sum(-1)[0].detach()


def assert_right(vit: Vit) -> None:
    found = scores(vit, pixels(), 1, "globenc", "alti", "input_x_gradient:libra", "decompx:libra")
    libra = by_libra(vit)
    for each, right in zip(found, (*by_formula(vit), libra, libra), strict=True):
        torch.testing.assert_close(each, right, rtol=1e-5, atol=1e-7 * float(right.abs().max()))


@pytest.mark.parametrize("gate", GATES)
def test_maps_mixed_by_a_gate_of_the_data(gate: str) -> None:
    assert_right(made(gate=GATES[gate]))


@pytest.mark.parametrize("mix", MIXES)
def test_a_mix_of_two_maps_has_one_answer_however_it_is_written(mix: str) -> None:
    vit = made(attend=MIXES[mix])
    assert_right(vit)
    for map_ in explained(vit, "input_x_gradient:libra", "fullgrad:libra").maps:  # all that is missing would be noted
        assert not [note for note in map_.notes if "add up" in note]


@pytest.mark.parametrize("route", ROUTES)
def test_heads_that_a_router_chooses(route: str) -> None:
    assert_right(made(attend=first_alone, share=ROUTES[route]))


def explained(vit: nn.Module, *methods: str) -> explainers.Explanation:
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, list(methods), precision="double")
    each = result[0] if isinstance(result, list) else result
    assert isinstance(each, explainers.Explanation)
    return each


class Own(nn.Module):
    """Attention of one map, whose weights ``attend`` makes of queries and keys; ``change`` acts on the values."""

    def __init__(self, attend: Callable[[Tensor, Tensor], Tensor], change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.attend, self.change = attend, change
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def parts(self, z: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv(z).unflatten(-1, (3, HEADS, CHANNELS)).permute(2, 0, 3, 1, 4)
        return self.attend(q, k), self.change(v)

    def forward(self, z: Tensor) -> Tensor:
        weights, v = self.parts(z)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


def own(attend: Callable[[Tensor, Tensor], Tensor], change: Callable[[Tensor], Tensor] = torch.clone) -> Vit:
    vit = built(lambda: Vit(lambda: [Block(lambda: Own(attend, change)) for _ in range(2)]))
    assert isinstance(vit, Vit)
    return vit


def of_complex_scores(q: Tensor, k: Tensor) -> Tensor:
    q, k = (torch.view_as_complex(each.unflatten(-1, (-1, 2)).contiguous()) for each in (q, k))
    weights: Tensor = ((q @ k.mH).real / CHANNELS**0.5).softmax(-1)
    return weights


def test_complex_scores_are_the_real_ones_that_they_equal() -> None:
    """The real part of q k^H of complex numbers is the product of their real and imaginary parts side by side."""
    methods = ("globenc", "alti", "decompx", "input_x_gradient:gradient", "input_x_gradient:libra", "rollout", "generic_attention")
    complex_, real = (explained(own(attend), *methods).maps for attend in (of_complex_scores, softmax_of))
    for found, right in zip(complex_, real, strict=True):
        assert found.notes == right.notes
        torch.testing.assert_close(found.scores, right.scores, rtol=1e-5, atol=1e-7 * float(right.scores.abs().max()))


def sparsemax(q: Tensor, k: Tensor) -> Tensor:
    """Martins & Astudillo 2016, by sorting: max(0, z - tau), with the threshold tau for which a row sums to 1."""
    z = q @ k.mT / CHANNELS**0.5
    ranked = z.sort(-1, descending=True).values
    sums, ranks = ranked.cumsum(-1), torch.arange(1, z.shape[-1] + 1)
    count = (1 + ranks * ranked > sums).sum(-1, keepdim=True)
    tau = (sums.gather(-1, count - 1) - 1) / count
    return (z - tau).clamp(min=0)


def test_a_sparsemax_that_is_written_out_is_held_as_attention_is() -> None:
    vit = own(sparsemax)
    weights = sparsemax(*torch.randn(2, 1, HEADS, 9, CHANNELS, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, HEADS, 9))
    assert bool((weights == 0).any())
    right = by_libra(vit, lambda attention, z: attention.parts(z))
    for found in scores(vit, pixels(), 1, "input_x_gradient:libra", "decompx:libra"):
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-7 * float(right.abs().max()))


@pytest.mark.parametrize("method", ["globenc", "alti"])
def test_contributions_that_do_not_add_up_are_refused(method: str) -> None:
    """A first channel of ones among the values is given to every token that is propagated alone, and so counted once for each."""
    vit = own(softmax_of, lambda v: F.pad(v[..., 1:], (1, 0), value=1.0))
    with pytest.raises(ExplainerError, match=r"constants of block 1 .* does not add up to that stream: \d+ % .* rollout"):
        explained(vit, method)
    assert len(explained(vit, "rollout", "input_x_gradient").maps) == 2


def test_weights_multiplied_with_themselves_are_followed_once_and_no_further_than_the_limit() -> None:
    """Each product has two paths, so that following each of them again would take 2^60 steps."""
    node = Node(Softmax, (), {}, torch.Size(), role=Role.WEIGHTS)
    for _ in range(60):
        node = Node(Mul, (node, node), {}, torch.Size())
    assert are_mixed_weights(node)
    for _ in range(MAX_MIXING_STEPS):
        node = Node(Mul, (node, node), {}, torch.Size())
    assert not are_mixed_weights(node)
