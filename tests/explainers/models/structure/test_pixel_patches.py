"""Detectors that read maps of several sizes at points that they choose: numbers are the model's own, and maps lie where they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError, Explanation
from explainers.methods.requirements import missing_requirements
from explainers.models.model import Model
from explainers.models.structure.pixel_patches import PixelPatches, grid_of
from tests.explainers.support.explained import picture
from tests.support.detectors import DETECTORS, NAMES, detector

SIZE = (64, 96)
RANKED = "DeformableDetrForObjectDetection of two stages"


@cache
def wrapped(name: str) -> Model:
    return explainers.wrap(detector(name), preprocess=explainers.Preprocessing(resize=SIZE, fit="squash"))


@cache
def explained(name: str) -> Explanation:
    return explainers.explain(
        wrapped(name), picture(), "cat", ["input_x_gradient", "fullgrad:libra", "occlusion?compare=false"], at="box:3"
    )


def own(model: Model, pixels: Tensor) -> Any:
    with torch.no_grad():
        return model.module(pixels)


def corners(box: Tensor) -> list[float]:
    x, y, width, height = box.tolist()
    return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]


def iou(a: list[float], b: list[float]) -> float:
    """Of two boxes by their corners, number by number."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def plain_gradient(model: Model, pixels: Tensor, read: Callable[[Any], Tensor]) -> Tensor:
    """Of what ``read`` reads of the plain module's output, by autograd, at the pixels. What arrives at a batch normalisation is laid out in
    order first: torch 2.13 is wrong there on a CPU where its strides are others.
    """
    pixels = pixels.detach().clone().requires_grad_()
    norms = [part for part in model.module.modules() if isinstance(part, nn.BatchNorm2d)]
    handles = [part.register_forward_hook(lambda part, args, out: out.register_hook(Tensor.contiguous) and None) for part in norms]
    value = read(model.module(pixels))
    for handle in handles:
        handle.remove()
    gradient: Tensor = torch.autograd.grad(value, pixels)[0]
    return gradient


def by_squares(products: Tensor) -> Tensor:
    """Of products (1, C, height, width) the sum over channels and squares of 16 pixels."""
    return F.avg_pool2d(products.detach().sum(1), 16).flatten() * 16 * 16


def assert_same_map(scores: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(scores.to(expected), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@pytest.mark.parametrize("name", DETECTORS)
def test_logits_and_boxes_are_the_models_own_and_libra_adds_up(name: str) -> None:
    result, model = explained(name), wrapped(name)
    theirs = own(model, result.tensors["pixel_values"])
    torch.testing.assert_close(result.logits, theirs.logits[0, 3].float())
    assert result.place.box == pytest.approx([min(max(side, 0.0), 1.0) for side in corners(theirs.pred_boxes[0, 3])])
    assert (result.output, result.labels) == ("sigmoid", list(NAMES.values()))
    assert result["fullgrad:libra"].patches == (4, 6)
    if name != "DFineForObjectDetection":
        assert result.completeness("libra") < 1e-8 * (1 + abs(result.target.logit))


def test_what_libra_misses_of_d_fine_is_said() -> None:
    """Part of its score is a layer over probabilities of its bins, whose softmax the rule holds constant, and no bias."""
    result = explained("DFineForObjectDetection")
    assert result.completeness("libra") > 0.01
    notes = " ".join(result["fullgrad:libra"].notes)
    assert "miss it by" in notes
    assert "a softmax in model.decoder.lqe_layers.1" in notes


@pytest.mark.parametrize("name", DETECTORS)
def test_input_x_gradient_is_that_of_the_pixels(name: str) -> None:
    """Held against autograd through the plain model, summed over squares of 16 pixels."""
    result, model = explained(name), wrapped(name)
    pixels = result.tensors["pixel_values"]
    gradient = plain_gradient(model, pixels, lambda output: output.logits[0, 3, 1])
    assert_same_map(result["input_x_gradient"].scores, by_squares(gradient * pixels))


@pytest.mark.parametrize("name", DETECTORS)
def test_the_patch_that_is_hidden_is_the_patch_that_is_drawn(name: str) -> None:
    """Its pixels are set to the mean colour by hand, and the same box, or the one that overlaps it most, is asked by hand."""
    result, model = explained(name), wrapped(name)
    pixels = result.tensors["pixel_values"]
    whole = own(model, pixels)
    scores = result["occlusion?compare=false"].scores
    for patch in (0, 7, 17, 23):
        row, column = divmod(patch, 6)
        hidden = pixels.clone()
        hidden[:, :, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16] = 0
        theirs = own(model, hidden)
        box = corners(whole.pred_boxes[0, 3])
        shared = [iou(corners(each), box) for each in theirs.pred_boxes[0]]
        place = 3 if name == "DeformableDetrForObjectDetection" or not max(shared) else shared.index(max(shared))
        fall = float(whole.logits[0, 3, 1] - theirs.logits[0, place, 1])
        assert float(scores[patch]) == pytest.approx(fall, abs=1e-6), patch


@pytest.mark.parametrize("name", DETECTORS)
def test_a_side_is_the_models_own_number_and_adds_up(name: str) -> None:
    """D-FINE's is a mean over bins by a softmax, which Libra holds constant: there it does not."""
    model = wrapped(name)
    result = explainers.explain(model, picture(), methods=["fullgrad:libra", "input_x_gradient"], at="box:3/right")
    pixels = result.tensors["pixel_values"]
    box = own(model, pixels).pred_boxes[0, 3]
    assert float(result.logits) == pytest.approx(float(box[0] + box[2] / 2), abs=1e-6)
    assert (result.completeness("libra") < 1e-8) == (name != "DFineForObjectDetection")
    gradient = plain_gradient(model, pixels, lambda output: output.pred_boxes[0, 3, 0] + output.pred_boxes[0, 3, 2] / 2)
    assert_same_map(result["input_x_gradient"].scores, by_squares(gradient * pixels))


def test_what_is_asked_when_parts_are_gone_is_said() -> None:
    texts = {name: " ".join(explained(name).notes) for name in (RANKED, "DeformableDetrForObjectDetection")}
    assert "the box that overlaps it most is asked about" in texts[RANKED]
    assert "the same box is asked about" in texts["DeformableDetrForObjectDetection"]


def test_what_reads_attention_says_why_not() -> None:
    lacks = missing_requirements(wrapped("RTDetrForObjectDetection"))
    assert "at points that it chooses (deformable attention)" in lacks["attention"]
    assert {"attention", "residual", "parts", "attention_input", "positions", "class_token"} <= lacks.keys()


def test_blocks_cannot_be_chosen() -> None:
    with pytest.raises(ExplainerError, match="leave blocks= and entry= out"):
        explainers.wrap(detector(RANKED), blocks="model.encoder.layers", preprocess=explainers.Preprocessing(resize=SIZE))


@pytest.mark.parametrize("size", [(64, 96), (70, 45), (1, 1), (37, 400), (650, 801)])
def test_patches_hold_the_pixels_that_are_painted_together(size: tuple[int, int]) -> None:
    """Each pixel comes back to its place, and a patch set to zero is the rectangle that ``F.interpolate`` gives it."""
    block, grid = PixelPatches(), grid_of(*size)
    pixels = torch.rand(2, 3, *size) + 1
    assert torch.equal(block.show(pixels), pixels)
    keep = torch.ones(1, grid[0] * grid[1])
    keep[:, [0, len(keep[0]) // 2]] = 0
    handle = block.register_forward_pre_hook(lambda module, args: (args[0] * keep[:, :, None],))
    shown = block.show(pixels)
    handle.remove()
    painted = F.interpolate(keep.unflatten(1, grid)[:, None], size=size, mode="nearest")
    assert torch.equal(shown, pixels * painted)


def test_patches_are_nearly_square_and_as_many_as_said() -> None:
    assert [grid_of(640, 640), grid_of(800, 1066), grid_of(64, 96), grid_of(10, 10)] == [(20, 20), (20, 27), (4, 6), (1, 1)]


def test_opened_the_checks_pass_and_the_output_is_read_as_it_is() -> None:
    """With two classes, which are no yes and no."""
    module = detector("RTDetrForObjectDetection", torch.float32, {0: "dog", 1: "cat"})
    report = explainers.open(module, preprocess=explainers.Preprocessing(resize=(64, 64), fit="squash")).report
    assert report is not None
    assert not [check for check in report.checks if check.state == "failed"]
    assert "a label each, yes or no" in str(report)
    assert "the output is read as" not in str(report)
