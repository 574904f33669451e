"""What is asked about the sizes of scores: pictures times their maps as torch-cam has them, elements left out by chance, and each token."""

from __future__ import annotations

import pytest
import torch

from explainers.evaluation.curve_logits import CurveLogits
from explainers.evaluation.graded_answers import GradedAnswers, logits_of_shown, logits_of_soft_removal
from explainers.metrics import METRICS
from explainers.metrics.graded import from_zero_to_one
from explainers.models.removal.patches import patch_removal
from tests.explainers.support.golden import Case
from tests.explainers.support.wrapped import inputs, wrapped

PATCHES = 12


@pytest.mark.parametrize("method", ["gradcam", "layercam"])
def test_average_drop_and_increase_in_confidence_are_those_of_torch_cam(method: str) -> None:
    case = Case("metrics-torchcam")
    target = torch.zeros(2, 8, dtype=torch.bool)
    target[:, case.target] = True
    whole = case.published["logits"].softmax(-1)
    shown = torch.cat(
        [
            logits_of_shown(case.model, {"pixel_values": pixels[None]}, scores[None])
            for pixels, scores in zip(case.inputs["pixel_values"], case.published[f"metric|{method}|map"], strict=True)
        ]
    ).softmax(-1)
    for name, array in (("average_drop", "avg_drop"), ("confidence_increase", "conf_increase")):
        found = METRICS[name](whole=whole, shown=shown, target=target).mean()
        assert float(found) == pytest.approx(
            float(case.published[f"metric|{method}|{array}"]), abs=1e-6
        )  # answers are float32, scaling again


def test_maps_are_scaled_from_zero_to_one() -> None:
    assert from_zero_to_one(torch.tensor([[1.0, 3.0, 2.0], [4.0, 4.0, 4.0]])).tolist() == [[0, 1, 0.5], [0, 0, 0]]


def test_elements_are_kept_by_their_tokens_score() -> None:
    """A map of ones keeps all and removes all; one of two values keeps some tokens whole, which zeroing does too."""
    model, tensors = wrapped("vit"), inputs("vit", 1)
    content = torch.arange(PATCHES + 1) > 0
    half = (torch.arange(PATCHES) % 2).double()
    found = logits_of_soft_removal(model, tensors, torch.stack([half, torch.rand(PATCHES)]), content, seed=0)
    zeroed = patch_removal(model, tensors, (4, 3), "zeroed")
    keep = torch.stack([half > 0, half < 1, torch.zeros(PATCHES, dtype=torch.bool)])
    expected = zeroed.logits(keep)[:, None].expand(-1, found.shape[2], -1)
    torch.testing.assert_close(found[0], expected, rtol=0, atol=1e-5)
    assert float((found[1, 0] - found[1, 0, :1]).abs().max()) > 1e-4  # draws differ
    again = logits_of_soft_removal(model, tensors, half[None], content, seed=1)
    torch.testing.assert_close(again[0], expected, rtol=0, atol=1e-5)


def test_leave_one_out_is_the_fall_without_each_token() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    content = torch.arange(PATCHES + 1) > 0
    asked = CurveLogits(model, tensors, (4, 3), content, "zeroed")
    scores = torch.rand(2, PATCHES)
    removal = patch_removal(model, tensors, (4, 3), "zeroed")
    whole = removal.logits(torch.ones(1, PATCHES, dtype=torch.bool))
    without = removal.logits(~torch.eye(PATCHES, dtype=torch.bool))
    falls = GradedAnswers(asked, scores, (2,), lambda logits: logits.softmax(-1), False, 0).of("leave_one_out")
    assert falls is not None
    torch.testing.assert_close(falls, (whole - without)[:, 2].expand(2, -1), rtol=0, atol=1e-5)
    falls = GradedAnswers(asked, scores, (1, 2), lambda logits: logits.softmax(-1), True, 0).of("leave_one_out")
    assert falls is not None
    expected = (whole.softmax(-1) - without.softmax(-1))[:, [1, 2]].sum(-1)
    torch.testing.assert_close(falls[0], expected, rtol=0, atol=1e-5)
