"""Muon in the type that the processor multiplies fast moves matrices as torch's does."""

from __future__ import annotations

import pytest
import torch

from recipes.muon import Muon, orthogonalise


@pytest.mark.parametrize("shape", [(24, 8), (8, 24), (16, 16)])
def test_it_moves_matrices_as_torch_does(shape: tuple[int, int]) -> None:
    """Up to the digits of bfloat16, with the saved state of either."""
    first = torch.randn(shape)
    ours, theirs = (torch.nn.Parameter(first.clone()) for _ in range(2))
    mine = Muon([ours], lr=0.1, weight_decay=0.05)
    torchs = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.05, adjust_lr_fn="match_rms_adamw")
    for step in range(6):
        ours.grad = torch.randn(shape)
        theirs.grad = ours.grad.clone()
        mine.step()
        torchs.step()
        if step == 2:
            kept = mine.state_dict()
            mine.load_state_dict(torchs.state_dict() | {"param_groups": kept["param_groups"]})
            torchs.load_state_dict(kept | {"param_groups": torchs.state_dict()["param_groups"]})
    assert (ours - first).norm() > 0.5
    torch.testing.assert_close(ours, theirs, atol=0.02, rtol=0.02)


def test_singular_values_are_near_one() -> None:
    values = torch.linalg.svdvals(orthogonalise(torch.randn(8, 20), (3.4445, -4.775, 2.0315), 5, 1e-7).float())
    assert 0.5 < float(values.min()) <= float(values.max()) < 1.5
