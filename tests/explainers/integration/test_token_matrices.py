"""Patches that a matrix brings together before the blocks: a constant permutation, or weights that mix them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import explainers
from explainers import ExplainerError
from tests.explainers.support.attention_forms import PREPROCESS, Vit, built, pixels, plain_blocks

PATCHES = 16
ORDER = torch.randperm(PATCHES, generator=torch.Generator().manual_seed(3))
IDENTITY = torch.eye(PATCHES, dtype=torch.float64)


def swapped() -> Tensor:
    matrix = IDENTITY.clone()
    matrix[[2, 9]] = matrix[[9, 2]]
    return matrix


def soft(matrix: Tensor) -> Tensor:
    """Return weights that bring mostly what ``matrix`` brings, and a little of all patches."""
    noise = torch.randn(PATCHES, PATCHES, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return (4 * matrix + noise / 3).softmax(-1)


def opened(matrix: Tensor, by_einsum: bool = False) -> explainers.Model:
    def embed(x: Tensor) -> Tensor:
        tokens, weights = x.flatten(2).mT, matrix.to(x.dtype)
        return torch.einsum("st,btd->bsd", weights, tokens) if by_einsum else weights @ tokens

    return explainers.wrap(built(lambda: Vit(plain_blocks, embed=embed)), kind="image", preprocess=PREPROCESS)


@pytest.mark.parametrize("by_einsum", [False, True])
@pytest.mark.parametrize("matrix", [IDENTITY[ORDER], swapped(), soft(IDENTITY[ORDER])], ids=["all", "two", "soft"])
def test_patches_that_a_matrix_puts_elsewhere_are_refused(matrix: Tensor, by_einsum: bool) -> None:
    with pytest.raises(ExplainerError, match="do not lie row by row in the order of the picture"):
        opened(matrix, by_einsum)


def test_a_matrix_that_leaves_patches_where_they_are_says_nothing() -> None:
    model = opened(IDENTITY)
    assert model.layout_of({"pixel_values": pixels()}).footprint is None


@pytest.mark.parametrize(("share", "is_said"), [(0.1, False), (0.4, True)])
def test_a_mixture_says_how_much_lies_elsewhere_beyond_the_tolerance(share: float, is_said: bool) -> None:
    """Each patch has ``share`` of one that lies 7 patches further; the rest is what is read at its square."""
    model = opened((1 - share) * IDENTITY + share * IDENTITY.roll(7, 1))
    footprint = model.layout_of({"pixel_values": pixels()}).footprint
    assert (footprint is not None) is is_said
    if footprint is not None:
        squares = (1 - share) ** 2 / ((1 - share) ** 2 + share**2)  # of the squared influence
        assert footprint.inside == pytest.approx(squares, abs=0.05)
