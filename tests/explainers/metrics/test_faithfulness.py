"""Faithfulness metrics on curves written by hand, and against other libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import auc
from torch import Tensor

from explainers.metrics import faithfulness

GENERATOR = torch.Generator().manual_seed(1)


def answers(*probability: float) -> Tensor:
    """A curve (1, steps, 2) of the probability of class 0."""
    return torch.tensor([[[p, 1 - p] for p in probability]], dtype=torch.float64)


TARGET, WHOLE = torch.tensor([[True, False]]), answers(0.8)[:, 0]
FALLING = answers(0.8, 0.7, 0.4, 0.4, 0.2, 0.2, 0.1, 0.1, 0.1)  # on top at two of nine steps
STAYING = answers(0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.4, 0.3)  # at seven


def test_mif_and_lif_by_hand() -> None:
    assert faithfulness.mif(FALLING, TARGET).item() == pytest.approx(7 / 9)
    assert faithfulness.lif(STAYING, TARGET).item() == pytest.approx(7 / 9)
    assert faithfulness.mif_aopc(FALLING, WHOLE, TARGET).item() == pytest.approx(0.8 - 3.0 / 9)
    assert faithfulness.lif_aopc(STAYING, WHOLE, TARGET).item() == pytest.approx(0.8 - 6.3 / 9)
    assert faithfulness.srg(FALLING, STAYING, TARGET).item() == pytest.approx((6.3 - 3.0) / 10)
    assert faithfulness.srg_accuracy(FALLING, STAYING, TARGET).item() == pytest.approx((7 - 2) / 10)
    halves = answers(*[0.4] * 9)
    assert faithfulness.mif_log_odds(halves, WHOLE, TARGET).item() == pytest.approx(math.log(0.5))
    assert faithfulness.lif_log_odds(halves, WHOLE, TARGET).item() == pytest.approx(math.log(0.5))


def test_a_map_that_orders_nothing_gains_nothing() -> None:
    same = torch.rand(5, 9, 3, generator=GENERATOR).softmax(-1)
    assert faithfulness.srg(same, same, torch.tensor([[True, False, False]]).expand(5, -1)).abs().max() == 0


def test_srg_is_the_area_between_the_curves() -> None:
    most, left = (torch.rand(4, 9, 3, generator=GENERATOR, dtype=torch.float64).softmax(-1) for _ in range(2))
    x = np.linspace(0, 1, 11)
    for row in range(4):
        # removed 10 ... 90 % most important first; least important first, what is left shrinks from 90 to 10 %
        first = np.concatenate([[0.7], most[row, :, 1], [0.2]])
        last = np.concatenate([[0.7], left[row, :, 1].flip(0), [0.2]])
        found = faithfulness.srg(most[row : row + 1], left[row : row + 1], torch.tensor([[False, True, False]])).item()
        assert found == pytest.approx(auc(x, last) - auc(x, first))


def test_perturbation_of_pixels_is_counted_as_published() -> None:
    right, wrong = (0.9,) * 5, (0.1,) * 5
    # accuracy 1 up to 40 %, 0 from 50 % on: four whole trapezoids and half of one
    assert faithfulness.positive_auc(answers(*right, *wrong), TARGET).item() == pytest.approx(0.45)
    assert faithfulness.negative_auc(answers(*right, *right), TARGET).item() == pytest.approx(0.9)
    curve = torch.rand(1, 10, 3, generator=GENERATOR)
    hits = (curve.argmax(-1) == 2).double()[0]
    assert faithfulness.negative_auc(curve, torch.tensor([[False, False, True]])).item() == pytest.approx(auc(np.arange(10) / 10, hits))


def test_any_class_of_the_data_set_is_right() -> None:
    """As of a photo that is both a tick and a scorpion: the model says either, and then a third thing."""
    probability = torch.zeros(1, 10, 3)
    probability[:, :4, 1], probability[:, 4:7, 0], probability[:, 7:, 2] = 1, 1, 1
    first, both = torch.tensor([[True, False, False]]), torch.tensor([[True, True, False]])
    hits = [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    for metric in (faithfulness.positive_auc, faithfulness.negative_auc):
        assert metric(probability, both).item() == pytest.approx(auc(np.arange(10) / 10, hits))
        assert metric(probability, first).item() == pytest.approx(auc(np.arange(10) / 10, [0] * 4 + [1] * 3 + [0] * 3))
    steps = probability[:, 1:]
    assert faithfulness.mif(steps, both).item() == pytest.approx(3 / 9)
    assert faithfulness.lif(steps, both).item() == pytest.approx(6 / 9)
    assert faithfulness.srg_accuracy(steps[:, :1].expand(-1, 9, -1), steps, both).item() == pytest.approx((6 - 9) / 10)


def test_a_group_has_the_probability_of_its_classes_together() -> None:
    steps = torch.tensor([[0.5, 0.2, 0.3]], dtype=torch.float64).expand(1, 9, 3)
    group, whole = torch.tensor([[True, False, True]]), torch.tensor([[0.7, 0.1, 0.2]], dtype=torch.float64)
    assert faithfulness.mif_aopc(steps, whole, group).item() == pytest.approx(0.9 - 0.8)
    assert faithfulness.mif_log_odds(steps, whole, group).item() == pytest.approx(math.log(0.8 / 0.9))


def test_areas_of_texts() -> None:
    curve = answers(*np.linspace(0, 1, 11))
    assert faithfulness.auac(curve, TARGET).item() == pytest.approx(0.5)
    logits = torch.tensor([[1.0, -1.0]])
    moved = logits[:, None] + torch.tensor([2.0, 1.0]).expand(1, 11, 2)
    assert faithfulness.au_mse(moved, logits).item() == pytest.approx(5.0)


def test_rationales_asked_of_the_model() -> None:
    few = answers(0.8, 0.6, 0.4, 0.2, 0.0)
    assert faithfulness.comprehensiveness(few, WHOLE, TARGET).item() == pytest.approx(0.4)
    assert faithfulness.sufficiency(few, WHOLE, TARGET).item() == pytest.approx(0.4)
    around = answers(0.9, 0.7, 0.9, 0.7, 0.9, 0.7, 0.9, 0.7, 0.8)
    assert faithfulness.attcat_aopc(around, WHOLE, TARGET).item() == pytest.approx(0.8 / 9)
    assert faithfulness.mif_aopc(around, WHOLE, TARGET).item() == pytest.approx(0.0)
    assert faithfulness.attcat_log_odds(around, answers(1.0)[:, 0], TARGET).item() == pytest.approx(
        float(np.log([0.9, 0.7] * 4 + [0.8]).mean())
    )
