"""torch.einsum is explained as the matrix products that it is, however it is written."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.autograd.rules import RULES
from explainers.records.result import Explanation
from tests.explainers.support.toys import autograd, record, signal

D, HEADS = 24, 2
METHODS = [
    *("input_x_gradient:libra", "input_x_gradient:attnlrp", "transformer_attribution", "partial_lrp", "raw_attention"),
    *("rollout", "generic_attention", "attcat", "legrad", "grad_eclip", "decompx", "alti"),
]
Core = Callable[[Tensor, Tensor, Tensor], Tensor]  # queries, keys, values (B, heads, tokens, d) to (B, tokens, heads, d)


class Attention(nn.Module):
    """Attention written with matrix products, or with equations all through."""

    def __init__(self, core: Core | None = None, by_equations: bool = False) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.core, self.by_equations = core, by_equations

    def forward(self, x: Tensor) -> Tensor:
        if self.by_equations:
            weight = self.qkv.weight.view(3, HEADS, -1, D)
            q, k, v = (torch.einsum("bsd,thed->bsthe", x, weight) + self.qkv.bias.view(3, HEADS, -1)).permute(2, 0, 3, 1, 4)
            scores = torch.einsum("bhid,bhjd->bhij", q * q.shape[-1] ** -0.5, k)
            context = torch.einsum("bhij,bhjd->bihd", scores.softmax(-1), v)
            return torch.einsum("bihd,ohd->bio", context, self.proj.weight.view(D, HEADS, -1)) + self.proj.bias
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q = q * q.shape[-1] ** -0.5
        context = ((q @ k.mT).softmax(-1) @ v).transpose(1, 2) if self.core is None else self.core(q, k, v)
        y: Tensor = self.proj(context.flatten(2))
        return y


class Block(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attn = nn.LayerNorm(D), nn.LayerNorm(D), Attention(**how)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class ViT(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, D, 8, 8)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 17, D))
        self.blocks, self.norm, self.head = nn.ModuleList(Block(**how) for _ in range(2)), nn.LayerNorm(D), nn.Linear(D, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x)[:, 0])
        return out


def maps(**how: Any) -> Explanation:
    torch.manual_seed(0)
    module = ViT(**how).double().eval()
    model = explainers.wrap(module, kind="image", preprocess=explainers.Preprocessing((32, 32)))
    pixels = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    result: Any = explainers.explain(model, {"pixel_values": pixels}, 1, METHODS)
    assert isinstance(result, Explanation)
    return result


def first_tokens(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (part.permute(2, 0, 1, 3) for part in (q, k, v))
    return torch.einsum("jbnd,bnij->ibnd", v, torch.einsum("ibnd,jbnd->bnij", q, k).softmax(-1)).transpose(0, 1)


def in_lists(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum(q, [0, 1, 2, 4], k, [0, 1, 3, 4], [0, 1, 2, 3])
    return torch.einsum(scores.softmax(-1), [..., 2, 3], v, [..., 3, 4], [..., 2, 4]).transpose(1, 2)


FORMS: dict[str, dict[str, Any]] = {
    "all by equations": {"by_equations": True},
    "spaces and an ellipsis": {
        "core": lambda q, k, v: torch.einsum(" ... i j , ... j d ", torch.einsum("...id,...jd->...ij", q, k).softmax(-1), v).permute(
            0, 3, 1, 2
        )
    },
    "tokens before samples, values first": {"core": first_tokens},
    "lists of numbers": {"core": in_lists},
    "keys first": {
        "core": lambda q, k, v: torch.einsum("bhij,bhjd->bihd", torch.einsum("bhjd,bhid->bhij", k, q).softmax(-1), v),
    },
    "channels before tokens": {
        "core": lambda q, k, v: torch.einsum("bhij,bhjd->bhdi", (q @ k.mT).softmax(-1), v).permute(0, 3, 1, 2),
    },
}


@pytest.fixture(scope="module")
def plain() -> Explanation:
    return maps()


@pytest.mark.parametrize("form", FORMS)
def test_attention_by_equations_has_the_maps_of_matrix_products(form: str, plain: Explanation) -> None:
    ours = maps(**FORMS[form])
    for spec in METHODS:
        if spec == "alti" and "by_equations" in FORMS[form]:
            continue  # it takes a bias that is added apart from its layer as another term
        off = float((ours[spec].scores - plain[spec].scores).abs().max() / plain[spec].scores.abs().max())
        assert off < 1e-6, (spec, off)
        assert ours[spec].notes == plain[spec].notes


def operand(shape: list[int], seed: int, is_path: bool) -> Callable[[Tensor], Tensor]:
    draw = torch.Generator().manual_seed(seed)
    if not is_path:
        constant = torch.randn(shape, generator=draw, dtype=torch.float64)
        return lambda x: constant
    matrix = torch.randn(12, torch.Size(shape).numel(), generator=draw, dtype=torch.float64)
    return lambda x: (x.flatten() @ matrix).reshape(shape)


@pytest.mark.parametrize("seed", range(4))
def test_any_equation_gives_torchs_value_and_gradient(seed: int) -> None:
    draw, letters = random.Random(seed), "abcde"
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for attempt in range(60):
        sizes = {letter: draw.choice([1, 2, 3]) for letter in letters}
        terms = ["".join(draw.choice(letters) for _ in range(draw.randint(1, 4))) for _ in range(draw.choice([1, 2, 2, 2, 3]))]
        out = [letter for letter in sorted(set("".join(terms))) if draw.random() < 0.6]
        draw.shuffle(out)
        # a dimension of size 1 stands for a full one
        shapes = [[sizes[letter] if draw.random() < 0.9 or term.count(letter) > 1 else 1 for letter in term] for term in terms]
        make = [operand(shape, attempt + i, i == 0 or draw.random() < 0.5) for i, shape in enumerate(shapes)]
        equation = ",".join(terms) + "->" + "".join(out)

        def function(x: Tensor, equation: str = equation, make: list[Callable[[Tensor], Tensor]] = make) -> Tensor:
            return torch.einsum(equation, *(one(x) for one in make)).reshape(1, -1).expand(2, -1)

        recording = record(function, x)
        seed_signal = torch.randn(recording.logits.shape, generator=torch.Generator().manual_seed(attempt), dtype=torch.float64)
        torch.testing.assert_close(recording.logits, function(x))
        torch.testing.assert_close(signal(recording, RULES["gradient"], seed_signal), autograd(function, x, seed_signal))
        for rule in ("attnlrp", "deep_taylor"):
            assert signal(recording, RULES[rule], seed_signal).isfinite().all(), equation


@pytest.mark.parametrize("equation", ["bsd,dd", "bsd,d->q", "bsd,x#->b", "bs,de->be", "b..s,d->b", "bsd->bb"])
def test_what_torch_refuses_is_refused_by_torch(equation: str) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        record(lambda x: torch.einsum(equation, x, *[torch.ones(6, 5).double()] * equation.count(",")), torch.ones(2, 5, 6).double())


def test_in_code_of_ones_own_data_and_weights_are_told_apart() -> None:
    torch.manual_seed(0)
    first, second = nn.Parameter(torch.randn(6, 8)), nn.Parameter(torch.randn(8, 3))

    def gradients(by_equation: bool) -> list[Tensor]:
        x = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(1))
        with explainers.backward_rule("libra") as block:
            h = F.gelu(torch.einsum("bsd,de->bse", [x, first]) if by_equation else x @ first)
            y = torch.einsum("bse,ec->bc", h, second) if by_equation else (h @ second).sum(1)
            got = torch.autograd.grad(y[:, 1].sum(), [first, second])
        assert not block.unruled
        return list(got)

    for ours, theirs in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(ours, theirs)
