"""D-RISE held against a calculation of its own, number by number: masks, likeness of boxes, and the map (Petsiuk et al. 2021)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import explainers
from explainers import ExplainerError
from explainers.models.boxes import overlaps
from tests.explainers.support.d_rise import KEEP, SAMPLES, SEED, SIZE, SPEC, drawn_masks, like, yolos
from tests.explainers.support.explained import image_model, picture
from tests.support.detectors import detector


def found(module: nn.Module, pixels: torch.Tensor) -> list[tuple[list[float], list[float], float]]:
    """Of each box its corners, the probabilities of its classes and that of an object."""
    with torch.no_grad():
        output = module(pixels)
    boxes = []
    for logits, (x, y, width, height) in zip(output.logits[0].tolist(), output.pred_boxes[0].tolist(), strict=True):
        corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
        if len(logits) == 3:
            boxes.append((corners, [1 / (1 + math.exp(-z)) for z in logits], 1.0))
        else:
            total = sum(math.exp(z) for z in logits)
            boxes.append((corners, [math.exp(z) / total for z in logits[:3]], 1 - math.exp(logits[3]) / total))
    return boxes


@pytest.mark.parametrize("ranked", [False, True], ids=["softmax, numbers of boxes are fixed", "sigmoid, numbers of boxes are ranks"])
def test_the_map_is_that_of_a_calculation_of_its_own(ranked: bool) -> None:
    module = detector("RTDetrForObjectDetection") if ranked else yolos()
    model = explainers.wrap(module, preprocess=explainers.Preprocessing(resize=SIZE, fit="squash"))
    result = explainers.explain(model, picture(), methods=[SPEC], at="box:1", seed=SEED)
    pixels, masks = result.tensors["pixel_values"], drawn_masks()
    box = found(module, pixels)[1]
    likenesses = [max(like(box, other) for other in found(module, pixels * torch.tensor(mask))) for mask in masks]
    assert max(likenesses) > 1.01 * min(likenesses) > 0
    mean = sum(likenesses) / SAMPLES
    at_pixels = sum((likeness - mean) * mask for likeness, mask in zip(likenesses, masks, strict=True)) / SAMPLES / KEEP
    expected = at_pixels.reshape(4, 16, 6, 16).mean((1, 3)).flatten()
    first = 0 if ranked else 1  # after the class token
    np.testing.assert_allclose(result[SPEC].scores[first : first + 24].numpy(), expected, atol=1e-5 * np.abs(expected).max())


def test_the_target_changes_nothing_as_likeness_is_of_all_classes() -> None:
    model = explainers.wrap(yolos(), preprocess=explainers.Preprocessing(resize=SIZE, fit="squash"))
    one, other = (explainers.explain(model, picture(), name, methods=[SPEC], at="box:1", seed=SEED)[SPEC].scores for name in ("cat", "dog"))
    assert torch.equal(one, other)


def test_what_gives_no_boxes_is_refused() -> None:
    with pytest.raises(ExplainerError, match="gives no boxes with a class each"):
        explainers.explain(image_model(), picture(), methods=["d_rise"])


def test_overlaps_are_shares_of_the_area_of_both() -> None:
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 6.0, 6.0], [1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 4.0, 2.0]])
    assert overlaps(boxes, boxes[0]).tolist() == pytest.approx([1.0, 1 / 7, 0.0, 0.0, 0.0])
    assert overlaps(boxes[3], boxes[3]).tolist() == 0.0
