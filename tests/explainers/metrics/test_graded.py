"""Metrics of the sizes of scores: against published numbers where there are some, else by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from explainers.metrics import graded
from explainers.metrics.graded import alignment_scores, responses, used_shares
from tests.explainers.support.golden import Case

TARGET = torch.tensor([[True, False]])


def answers(*of_target: float) -> torch.Tensor:
    """(1, steps, 2)."""
    return torch.tensor([[[value, 1 - value] for value in of_target]])


@pytest.fixture(scope="module")
def published() -> dict[str, torch.Tensor]:
    return Case("mda-vit").published


@pytest.mark.parametrize(("way", "rises"), [("ins", True), ("del", False)])
def test_magnitude_aligned_scores_are_the_published_ones(way: str, rises: bool, published: dict[str, torch.Tensor]) -> None:
    response, density, curve, penalty = (published[f"mas|{way}|{name}"][None] for name in ("response", "density", "scores", "penalty"))
    torch.testing.assert_close((response - density).abs(), penalty, rtol=0, atol=1e-9)
    found = alignment_scores(response, density, rises=rises)
    torch.testing.assert_close(found, curve, rtol=0, atol=1e-9)
    area = float(torch.trapezoid(found, dx=1 / (found.shape[1] - 1)))
    assert area == pytest.approx(float(published[f"mas|{way}|auc"]), abs=1e-9)


@pytest.mark.parametrize("of", ["monotonicity", "monotonicity_patches"])
def test_monotonicity_is_the_published_one(of: str, published: dict[str, torch.Tensor]) -> None:
    for way, function, name in (
        ("positive", graded.monotonicity_insertion, "inserted"),
        ("negative", graded.monotonicity_deletion, "deleted"),
    ):
        curve = published[f"{of}|{way}|response"]
        arguments = {name: torch.stack([curve, 1 - curve], -1)[None], "target": TARGET}
        assert float(function(**arguments)) == pytest.approx(float(published[f"{of}|{way}"]), abs=1e-9)


@pytest.mark.parametrize("way", ["ins", "del"])
def test_responses_are_scaled_and_monotone_as_published(way: str, published: dict[str, torch.Tensor]) -> None:
    raw = published[f"monotonicity|{'positive' if way == 'ins' else 'negative'}|response"]
    torch.testing.assert_close(responses(raw[None], rises=way == "ins")[0], published[f"mas|{way}|response"], rtol=0, atol=1e-9)


def test_shares_of_the_scores() -> None:
    shares = used_shares(torch.tensor([[1.0, 3.0, -5.0, 0.0], [-1.0, -2.0, 0.0, -3.0]]), 3)
    torch.testing.assert_close(shares, torch.tensor([[0.0, 1.0, 1.0], [0.0, 0.5, 1.0]], dtype=torch.float64))
    curve = torch.linspace(0, 1, 11).double()
    perfect = {"inserted": torch.stack([curve, 1 - curve], -1)[None], "scores": torch.ones(1, 10), "target": TARGET}
    assert float(graded.mas_insertion(**perfect)) == pytest.approx(0.5)  # the response is the density: no penalty
    falls = {"deleted": perfect["inserted"].flip(1), "scores": torch.ones(1, 10), "target": TARGET}
    assert float(graded.mas_deletion(**falls)) == pytest.approx(0.5)


def test_agreement_with_leave_one_out_is_spearmans() -> None:
    scores, falls = torch.tensor([[0.3, 0.1, 0.2, 0.4]]), torch.tensor([[2.0, -1.0, 3.0, 4.0]])
    expected = float(spearmanr(scores[0], falls[0]).statistic)
    assert float(graded.leave_one_out_agreement(scores, falls)) == pytest.approx(expected)
    assert bool(graded.leave_one_out_agreement(torch.ones(1, 4), falls).isnan())


def test_average_drop_and_increase_are_those_of_torch_cam() -> None:
    """Of softmax scores; see tests/explainers/evaluation/test_graded_answers.py for the pictures."""
    whole, shown = torch.tensor([[0.8, 0.2]]), torch.tensor([[0.6, 0.4]])
    assert float(graded.average_drop(whole, shown, TARGET)) == pytest.approx(0.2 / (0.8 + 1e-7))
    assert float(graded.average_drop(shown, whole, TARGET)) == 0
    assert float(graded.confidence_increase(whole, shown, TARGET)) == 0
    assert float(graded.confidence_increase(shown, whole, TARGET)) == 1


def test_soft_metrics_are_shares_of_what_is_lost_without_anything() -> None:
    whole = torch.tensor([[0.9, 0.1]])
    soft = torch.tensor([[0.7, 0.5, 0.1]])  # kept, removed, nothing
    # by the definition: S = 1 - max(0, loss), S0 that of nothing
    s, s0 = 1 - 0.2, 1 - 0.8
    assert float(graded.soft_sufficiency(soft, whole, TARGET)) == pytest.approx((s - s0) / (1 - s0))
    assert float(graded.soft_comprehensiveness(soft, whole, TARGET)) == pytest.approx(0.4 / (1 - s0))
    nothing_lost = torch.tensor([[0.7, 0.5, 0.95]])
    assert np.isnan(float(graded.soft_sufficiency(nothing_lost, whole, TARGET)))
