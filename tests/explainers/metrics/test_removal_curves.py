"""Curves of removal, on cases whose answer is known by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from explainers import ExplainerError
from explainers.metrics.removal_curves import area, curves, keep_masks, random_orders, removal_counts, removal_order
from explainers.models.removal.token_removal import TokenRemoval


def test_the_order_goes_by_signed_scores_and_equal_ones_by_place() -> None:
    scores = torch.tensor([0.5, -2.0, 0.5, 3.0])
    assert removal_order(scores, "most").tolist() == [3, 0, 2, 1]
    assert removal_order(scores, "least").tolist() == [1, 0, 2, 3]


def test_counts_are_rounded_a_half_up_and_leave_the_least() -> None:
    assert removal_counts([0, 0.1, 0.25, 0.5, 0.55, 1], 10) == [0, 1, 3, 5, 6, 10]
    assert removal_counts([0.29], 100) == [29]
    assert removal_counts([0.5, 1], 4, least=1) == [2, 3]
    with pytest.raises(ExplainerError, match="between 0 and 1"):
        removal_counts([0.5, 1.1], 10)


def test_what_is_kept() -> None:
    orders = torch.tensor([[2, 0, 1], [0, 1, 2]])
    assert keep_masks(orders, [0, 1, 3]).int().tolist() == [[[1, 1, 1], [1, 1, 0], [0, 0, 0]], [[1, 1, 1], [0, 1, 1], [0, 0, 0]]]


def test_random_orders_are_orders_and_the_same_every_time() -> None:
    orders = random_orders(7, range(3))
    assert orders.sort(dim=1).values.tolist() == [list(range(7))] * 3
    assert orders.tolist() == random_orders(7, range(3)).tolist()
    assert orders[0].tolist() != orders[1].tolist()


def test_a_model_that_adds_up_its_tokens_falls_by_what_each_was_worth() -> None:
    worth = torch.tensor([1.0, 4.0, 2.0])

    def ask(keep: Tensor) -> Tensor:
        return torch.stack([keep.float() @ worth, keep.float().sum(1)], dim=1)

    orders = torch.stack([removal_order(worth, "most"), removal_order(worth, "least")])
    found = curves(TokenRemoval("removed", 3, 0, ask), orders, [0, 1, 2, 3])
    assert found[..., 0].tolist() == [[7, 3, 1, 0], [7, 6, 4, 0]]
    assert found[..., 1].tolist() == [[3, 2, 1, 0]] * 2
    gone = [0, 1 / 3, 2 / 3, 1]
    assert area(gone, found[0, :, 0]) == pytest.approx((7 / 2 + 3 + 1) / 3)
    assert area(gone, found[1, :, 0]) == pytest.approx((7 / 2 + 6 + 4) / 3)


def test_the_area_is_the_mean_over_the_range() -> None:
    assert area([0, 0.5, 0.5, 0.9], torch.tensor([1.0, 1.0, 0.5, 0.5])) == pytest.approx((0.5 + 0.2) / 0.9)
    with pytest.raises(ExplainerError, match="two different"):
        area([0.5, 0.5], torch.ones(2))
