"""Linear attention, q (k v) / (q sum k): its rules against formulas written out over the weights, and what they promise of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.autograd.rules import RULES, Rule, Strength
from tests.explainers.support.toys import record, signal

B, S, D = 2, 5, 3
STABILISER = 0.01  # of the normaliser


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def apart(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The normaliser from a product of its own."""
    return q @ (k.mT @ v) / (q @ k.sum(-2, keepdim=True).mT + STABILISER)


def beside(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The normaliser from a column of ones beside the values (EfficientViT)."""
    out = q @ (k.mT @ F.pad(v, (0, 1), value=1.0))
    return out[..., :-1] / (out[..., -1:] + STABILISER)


def scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Both over the number of tokens."""
    return q @ ((k.mT @ v) / S) / (q @ (k.sum(-2, keepdim=True) / S).mT + STABILISER / S)


def bare(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q @ (k.mT @ v)


Way = Callable[[Tensor, Tensor, Tensor], Tensor]
every_way = pytest.mark.parametrize("way", [apart, beside, scaled, bare])


def by_pairs(x: Tensor, relevance: Tensor, epsilon: float, way: Way) -> Tensor:
    """Relevance of queries, keys and values (B, S, 3 D), from that of the output: Achtibat et al. 2024, Prop. 3.3 for both products, with
    every pair of numbers written down, and Prop. 3.4 for the weights over their sum.
    """
    q, k, v = x.chunk(3, -1)
    k = k / S if way is scaled else k
    scores = torch.einsum("bic,bjc->bij", q, k)
    stabiliser = STABILISER / S if way is scaled else STABILISER
    weights = scores if way is bare else scores / (scores.sum(-1, keepdim=True) + stabiliser)
    output = torch.einsum("bij,bjd->bid", weights, v)
    of_pairs = torch.einsum("bij,bjd,bid->bijd", weights, v, relevance / (2 * output + epsilon))
    of_scores = of_pairs.sum(-1)  # the normalisation passes it unchanged
    of_products = torch.einsum("bic,bjc,bij->bijc", q, k, of_scores / (2 * scores + epsilon))
    return torch.cat([of_products.sum(2), of_products.sum(1), of_pairs.sum(1)], -1)


@every_way
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.3])
def test_attnlrp_shares_relevance_as_its_propositions_say(way: Way, epsilon: float) -> None:
    """A large ε shows where it stands: at the attention's output, of weights that sum to 1, and at the product of queries and keys."""
    x = normal(B, S, 3 * D, seed=1).abs()
    recording = record(lambda y: way(*y.chunk(3, -1)), x)
    rule = RULES["attnlrp"] if epsilon == 0 else replace(RULES["attnlrp-epsilon"], strength=Strength(epsilon_sum=epsilon))
    seed = normal(*recording.logits.shape, seed=2)
    relevance = (seed * recording.logits.detach()).view(B, S, D)
    expected = by_pairs(x, relevance, epsilon, way)
    assert float((x * signal(recording, rule, seed) - expected).abs().max()) <= 1e-12 * float(expected.abs().max())
    if epsilon == 0:
        thirds = [part.sum((1, 2)) for part in expected.chunk(3, -1)]
        for part, share in zip(thirds, (0.25, 0.25, 0.5), strict=True):
            assert torch.allclose(part, share * relevance.sum((1, 2)), rtol=1e-10)


@pytest.mark.parametrize("way", [apart, beside, scaled])
def test_a_normaliser_that_is_differentiated_loses_what_the_weights_got(way: Way) -> None:
    """Why AttnLRP takes it for a normalisation: weights over their sum do not change where all of them grow alike."""
    x = normal(B, S, 3 * D, seed=1).abs()
    recording = record(lambda y: way(*y.chunk(3, -1)), x)
    relevance = (x * signal(recording, Rule(attention="half"), torch.ones_like(recording.logits))).sum((0, 1))
    whole = recording.logits.detach().sum()
    assert float(relevance[: 2 * D].sum().abs()) < 0.01 * float(whole)
    assert torch.allclose(relevance[2 * D :].sum(), whole / 2, rtol=1e-10)


@every_way
@pytest.mark.parametrize("name", ["deep_taylor", "lrp"])
def test_relevance_is_split_in_proportion_and_none_is_lost(way: Way, name: str) -> None:
    x = normal(B, S, 3 * D, seed=1).abs()
    recording = record(lambda y: way(*y.chunk(3, -1)), x)
    relevance = normal(*recording.logits.shape, seed=2)
    found = signal(recording, RULES[name], relevance)
    expected = by_pairs(x, relevance.view(B, S, D), 0.0, way)
    assert float((found - expected).abs().max()) <= 1e-7 * float(expected.abs().max())  # both divide by what is moved by 1e-9
    assert torch.allclose(found.sum((1, 2)), relevance.sum(1), rtol=1e-7)


@every_way
@pytest.mark.parametrize("name", ["libra", "conservative", "conservative-attention", "libra-norm"])
def test_where_weights_are_constant_only_values_have_a_signal(way: Way, name: str) -> None:
    x = normal(B, S, 3 * D, seed=1).abs()
    recording = record(lambda y: way(*y.chunk(3, -1)), x)
    seed = normal(*recording.logits.shape, seed=2)
    q, k, _ = x.chunk(3, -1)
    scores = q @ k.mT
    weights = scores if way is bare else scores / (scores.sum(-1, keepdim=True) + STABILISER)
    expected = torch.cat([torch.zeros(B, S, 2 * D).double(), weights.mT @ seed.view(B, S, D)], -1)
    assert torch.allclose(signal(recording, RULES[name], seed), expected, rtol=1e-12, atol=1e-12)


# --- a model of two blocks ------------------------------------------------------------------------------------------

WIDTH, HEADS, LABELS = 6, 2, 4


class Block(nn.Module):
    """Linear attention with two heads, and a feed-forward layer, each behind a LayerNorm and added to the stream."""

    def __init__(self, way: Way, bias: bool) -> None:
        super().__init__()
        self.way = way
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH, bias=bias), nn.LayerNorm(WIDTH, bias=bias)])
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=bias), nn.Linear(WIDTH, WIDTH, bias=bias)
        self.inner, self.outer = nn.Linear(WIDTH, 9, bias=bias), nn.Linear(9, WIDTH, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.proj(self.way(q.relu(), k.relu(), v).transpose(1, 2).flatten(2))
        added: Tensor = x + self.outer(F.gelu(self.inner(self.norms[1](x))))
        return added


def network(way: Way, bias: bool) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = nn.Sequential(Block(way, bias), Block(way, bias), nn.LayerNorm(WIDTH, bias=bias), nn.Linear(WIDTH, LABELS, bias=bias))
        return module.double().requires_grad_(False)


def held(module: nn.Sequential, x: Tensor, half: bool) -> Tensor:
    """The logits, written so that torch's gradient is AttnLRP's signal where products give ``half`` to each factor, else Libra's: norms
    are divided by constants, GELU is a product with a constant gate, and the weights of attention are made, divided by a constant.
    """

    def norm(layer: nn.LayerNorm, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        y = centred / (centred.square().mean(-1, keepdim=True) + layer.eps).sqrt().detach() * layer.weight
        return y if layer.bias is None else y + layer.bias

    def product(a: Tensor, b: Tensor) -> Tensor:
        return (a.detach() @ b + a @ b.detach()) / 2 if half else a.detach() @ b

    for block in module[:2]:
        q, k, v = block.qkv(norm(block.norms[0], x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k = (t * (t > 0) for t in (q, k))
        scores = product(q, k.mT)
        weights = scores if block.way is bare else scores / (scores.sum(-1, keepdim=True) + STABILISER).detach()
        x = x + block.proj(product(weights, v).transpose(1, 2).flatten(2))
        inner = block.inner(norm(block.norms[1], x))
        x = x + block.outer(inner * (F.gelu(inner) / inner).detach())
    logits: Tensor = module[3](norm(module[2], x).mean(1))
    return logits


def logits_of(module: nn.Sequential, x: Tensor) -> Tensor:
    logits: Tensor = module[3](module[:3](x).mean(1))
    return logits


@every_way
@pytest.mark.parametrize("name", ["libra", "attnlrp"])
def test_the_signal_of_a_model_is_that_of_one_with_its_weights_made(way: Way, name: str) -> None:
    module, x = network(way, bias=True), normal(B, S, WIDTH, seed=3)
    recording = record(lambda y: logits_of(module, y), x)
    assert torch.allclose(recording.logits, logits_of(module, x), rtol=0, atol=1e-14)
    for target in range(LABELS):
        seed = F.one_hot(torch.tensor([target] * B), LABELS).double()
        y = x.clone().requires_grad_()
        (expected,) = torch.autograd.grad(held(module, y, half=name == "attnlrp")[:, target].sum(), y)
        assert float((signal(recording, RULES[name], seed) - expected).abs().max()) <= 1e-11 * float(expected.abs().max())


@every_way
def test_libra_accounts_for_the_logits(way: Way) -> None:
    """FullGrad's completeness: the stabiliser of the normaliser is no bias."""
    module, x = network(way, bias=True), normal(B, S, WIDTH, seed=3)
    recording = record(lambda y: logits_of(module, y), x)
    for rule in (RULES["libra"], Rule(attention="constant", norm="constant_mean", activation="gate")):
        for target in range(LABELS):
            signals = recording.cached_backward(rule, F.one_hot(torch.tensor([target] * B), LABELS).double())
            total = (x * signals.block_inputs[0]).sum((1, 2)) + signals.bias.sum(1) + signals.unplaced
            assert torch.allclose(total, recording.logits[:, target].detach(), rtol=1e-10, atol=1e-12)
            assert not signals.unruled


@every_way
def test_attnlrp_conserves_relevance_without_biases(way: Way) -> None:
    module, x = network(way, bias=False), normal(B, S, WIDTH, seed=3)
    recording = record(lambda y: logits_of(module, y), x)
    logits = recording.logits.detach()
    seed = torch.eye(LABELS).double()

    def lost(rule: Rule) -> float:
        """Of what starts at each class, relative to the largest logit."""
        totals = [(x * signal(recording, rule, row.expand_as(logits))).sum((1, 2)) for row in seed]
        return float((torch.stack(totals, 1) - logits).abs().max() / logits.abs().max())

    assert lost(RULES["attnlrp"]) < 1e-12
    if way is not bare:
        assert lost(RULES["gradient"]) > 0.01
