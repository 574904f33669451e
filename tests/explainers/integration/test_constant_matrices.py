"""Products with constant matrices that stand for a mean, a sum or an index: under every rule those that torch's own function has."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from explainers.autograd.handlers.linear import joins_equally
from explainers.autograd.rules import RULES
from tests.explainers.support.attention_forms import TOKENS, Vit, built, pixels, plain_blocks, scores

ORDER = [3, 0, 16, 7, 7]


def weights(rows: int = 1) -> Tensor:
    return torch.full((rows, TOKENS), 1 / TOKENS, dtype=torch.float64)


def chosen() -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(ORDER), TOKENS).double()


#: What a head makes of tokens (B, S, D), and other words for the same.
FORMS: dict[str, tuple[Callable[[Tensor], Tensor], dict[str, Callable[[Tensor], Tensor]]]] = {
    "mean": (
        lambda x: x.mean(1),
        {
            "matrix on the left": lambda x: (weights() @ x)[:, 0],
            "matrix on the right": lambda x: (x.mT @ weights().mT)[..., 0],
            "several rows": lambda x: (weights(3) @ x)[:, 1],
            "einsum": lambda x: torch.einsum("bsd,s->bd", x, weights()[0]),
            "einsum of a matrix": lambda x: torch.einsum("ts,bsd->btd", weights(), x)[:, 0],
        },
    ),
    "sum of some": (lambda x: x[:, 2:9].sum(1), {"matrix": lambda x: ((torch.arange(TOKENS) - 5).abs() < 4).to(x)[None] @ x}),
    "index": (
        lambda x: x[:, ORDER].square().sum(1),
        {
            "one-hot matrix": lambda x: (chosen() @ x).square().sum(1),
            "einsum": lambda x: torch.einsum("bsd,ts->btd", x, chosen()).square().sum(1),
        },
    ),
}


class Headed(Vit):
    def __init__(self, pool: Callable[[Tensor], Tensor]) -> None:
        super().__init__(plain_blocks)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.cls.expand(len(x), -1, -1), self.embed(self.patch(x))], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.pool(self.norm(x)).reshape(len(x), -1))
        return out


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, (_, others) in FORMS.items() for words in others])
def test_a_constant_matrix_has_the_rules_of_what_it_stands_for(name: str, words: str) -> None:
    plain, others = FORMS[name]
    specs = [("lrp:" if rule.is_relevance else "input_x_gradient:") + key for key, rule in RULES.items()]
    right, found = (scores(built(lambda: Headed(pool)), pixels(), 1, *specs) for pool in (plain, others[words]))  # noqa: B023
    for spec, expected, each in zip(specs, right, found, strict=True):
        torch.testing.assert_close(
            each, expected, rtol=1e-5, atol=1e-7 * float(expected.abs().max()), msg=lambda text, spec=spec: spec + text
        )


@pytest.mark.parametrize(
    ("matrix", "joins"),
    [
        ([[0.25, 0.25, 0.25, 0.25]], True),
        ([[0, 1, 0], [0, 0, 1]], True),
        ([[0.5, 0.5, 0], [0, 1, 1]], True),
        ([[0, 0, 0], [1, 1, 0]], True),  # an output of nothing
        ([[0.5, 0.25, 0.25]], False),
        ([[1, 1, 0], [1, 2, 0]], False),
        ([[-1, 0, 0]], False),
        ([[1, -1, 0]], False),
        ([[0, 0, 0]], False),
    ],
)
def test_a_matrix_joins_equally_where_each_output_has_one_positive_weight(matrix: list[list[float]], joins: bool) -> None:
    assert joins_equally(torch.tensor(matrix)) == joins
