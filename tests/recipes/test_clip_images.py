"""What a training step of clip's image side keeps and asks: patches, windows, the divergence of softened answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recipes import clip_images
from recipes.networks.trunk import Seen


def test_patches_that_are_kept() -> None:
    for seed in range(60):
        kept, window = clip_images.choose_patches(np.random.default_rng(seed), 5, 14)
        if kept is None:
            continue
        assert all(len(row.unique()) == kept.shape[1] for row in kept)
        assert 0.25 < kept.shape[1] / 196 < 0.9
        if window:
            rows, columns = kept // 14, kept % 14
            tall, wide = (part.amax(1) - part.amin(1) + 1 for part in (rows, columns))
            assert (tall * wide == kept.shape[1]).all()
    assert {clip_images.choose_patches(np.random.default_rng(seed), 1, 14)[1] for seed in range(60)} == {True, False}


def test_a_window_is_to_be_named_by_what_lies_in_it() -> None:
    local = torch.zeros(1, 4, 2)
    local[0, 0, 0] = 4.0
    batch = Seen(torch.zeros(1, 4, 3), local, torch.tensor([[1.0, 2.0, 3.0]]))
    readout = torch.tensor([[1.0, 0], [0, 1], [0, 0]])
    kept = torch.tensor([[0, 1]])
    assert clip_images.target(batch, kept, True, readout).tolist() == [[2.0, 2.0, 3.0]]  # 2 on average inside, 1 everywhere
    assert clip_images.target(batch, kept, False, readout).tolist() == [[1.0, 2.0, 3.0]]


def test_the_divergence_of_equal_answers_is_nothing() -> None:
    logits = torch.randn(3, 9)
    assert float(clip_images.divergence(logits, logits + 1)) == pytest.approx(0, abs=1e-5)
    assert float(clip_images.divergence(-logits, logits)) > 0.5
