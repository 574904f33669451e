"""Patches are taken out of a model's input only where it runs with every number of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import explainers
from explainers import ExplainerError
from explainers.models.removal.patches import patch_removal
from explainers.models.removal.token_removal import TokenRemoval
from tests.explainers.support.attention_forms import CLASSES, WIDTH, Attention, Block, built, of_module, pixels

GRID = (4, 4)


class Groups(nn.Module):
    """A classifier that joins its tokens in groups of ``size`` after its blocks, so that it runs with multiples of that alone."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.patch = size, nn.Conv2d(3, WIDTH, 8, 8)
        self.blocks = nn.ModuleList(Block(lambda: Attention(of_module)) for _ in range(2))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x.view(len(x), -1, self.size, WIDTH).mean((1, 2)))
        return logits


@pytest.mark.parametrize("size", [2, 4])
def test_patches_are_painted_where_the_model_runs_with_groups_of_tokens_alone(size: int) -> None:
    model = explainers.wrap(built(lambda: Groups(size)), kind="image", preprocess=explainers.Preprocessing((32, 32)))
    tensors = {"pixel_values": pixels()}
    assert patch_removal(model, tensors, GRID).how == "painted"
    with pytest.raises(ExplainerError, match="none can be removed: choose how=zeroed or how=painted"):
        patch_removal(model, tensors, GRID, "removed")


def test_patches_are_taken_out_where_the_model_runs_with_any_number() -> None:
    model = explainers.wrap(built(lambda: Groups(1)), kind="image", preprocess=explainers.Preprocessing((32, 32)))
    assert patch_removal(model, {"pixel_values": pixels()}, GRID).how == "removed"


def test_a_number_of_tokens_that_a_model_cannot_run_with_is_named() -> None:
    def ask(keep: Tensor) -> Tensor:
        return torch.zeros(len(keep), int(keep[0].sum())).view(len(keep), -1, 2).sum((1, 2))[:, None]

    removal = TokenRemoval("removed", 4, 0, ask)
    assert removal.logits(torch.tensor([[True, True, False, False]])).shape == (1, 1)
    with pytest.raises(ExplainerError, match=r"cannot run with 3 of the 4 tokens of its input: choose another way"):
        removal.logits(torch.tensor([[True, True, True, False]]))
