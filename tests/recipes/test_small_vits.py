"""The recipes of marks-vit and votes-vit, for two steps, and what votes-vit cannot see."""

from __future__ import annotations

import explainers

# isort: split
import argparse
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from explainers.embedded.synthetic import marked_scenes, votes
from recipes import small_vits, train_marks_vit, train_votes_vit, training
from recipes.networks.vits import create
from recipes.small_vits import kept_patches


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of four, made in this process."""

    def endless(make: Any, seed: list[int], first: int) -> Iterator[Any]:
        return training.endless(functools.partial(make, size=4), seed, first, workers=0)

    monkeypatch.setattr(small_vits, "endless", endless)


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("module", "labels"), [(train_marks_vit, marked_scenes.KINDS), (train_votes_vit, votes.SIGNS)])
def test_a_recipe_writes_a_folder_that_loads(module: Any, labels: tuple[str, ...], tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    module.train(parser.parse_args(["--out", str(tmp_path / "vit"), "--steps", "2", "--device", "cpu"]))
    model = explainers.load(tmp_path / "vit", "cpu")
    assert tuple(model.labels) == labels
    assert model.details["grid"] == (8, 8)
    assert (tmp_path / "vit" / "model.safetensors").stat().st_size < 1e6


def test_what_is_needed_is_never_left_out() -> None:
    needed = torch.zeros(3, 64, dtype=torch.bool)
    needed[0, :4], needed[1, 60:], needed[2, 30] = True, True, True
    kept = kept_patches(needed, 0.9, np.random.default_rng(0))
    assert kept.shape == (3, 6)
    assert all(torch.isin(needed[row].nonzero().flatten(), kept[row]).all() for row in range(3))
    assert all(len(row.unique()) == 6 for row in kept)


def test_patches_that_are_not_named_change_nothing_and_have_no_gradient() -> None:
    """Of a model of random weights: that it is blind is how it is built."""
    torch.manual_seed(0)
    model = create(train_votes_vit.ARCHITECTURE, votes.SIGNS, train_votes_vit.MODEL_ARGS).eval()
    is_read = torch.from_numpy(votes.read_places().repeat(votes.PATCH, 0).repeat(votes.PATCH, 1))
    pixels = torch.randn(1, 3, votes.SIDE, votes.SIDE, requires_grad=True)
    logits = model(pixels)
    (gradient,) = torch.autograd.grad(logits[0, 0], pixels)
    assert bool((gradient[:, :, ~is_read] == 0).all())
    assert bool((gradient[:, :, is_read] != 0).any(1).all())
    others = torch.where(is_read, pixels, 9 * torch.randn_like(pixels))
    assert torch.equal(model(others), logits)
    assert not torch.allclose(model(torch.where(is_read, torch.randn_like(pixels), pixels)), logits)
