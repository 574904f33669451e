"""Detectors of any library, by a function that returns boxes and scores: numbers of the module itself, maps, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.models.model import Model
from tests.explainers.support.d_rise import KEEP, SAMPLES, SEED, SPEC, drawn_masks, like
from tests.explainers.support.explained import picture
from tests.support.detectors import OwnDetector, boxes_and_scores, of_cells

SIZE = (64, 96)
NAMES = ["dog", "cat", "bird"]
CUTOFF = 0.5


class Pruned(OwnDetector):
    """A detector as those of torchvision are: for each picture of a list the boxes that it is sure of, the surest first."""

    def forward(self, images: Tensor) -> Any:
        found = []
        for raw in super().forward(images):
            boxes, scores = of_cells(raw)
            sure, labels = scores.max(1)
            order = sure.argsort(descending=True)
            kept = order[sure[order] > CUTOFF]
            found.append({"boxes": boxes[kept], "labels": labels[kept], "scores": sure[kept]})
        return found


def pruned_boxes(output: Any) -> tuple[Tensor, Tensor]:
    """The score of its class for each box, 0 for the others."""
    (found,) = output
    return found["boxes"], F.one_hot(found["labels"], len(NAMES)) * found["scores"][:, None]


FUNCTIONS: dict[str, tuple[type[OwnDetector], Callable[[Any], tuple[Tensor, Tensor]]]] = {
    "logits": (OwnDetector, boxes_and_scores),
    "values": (Pruned, pruned_boxes),
}
RECIPE = explainers.Preprocessing(resize=SIZE, fit="squash")


def wrapped(kind: str) -> Model:
    make, function = FUNCTIONS[kind]
    return explainers.wrap(make().double().eval(), boxes=function, labels=NAMES, preprocess=RECIPE)


def found(model: Model, kind: str, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes in pixels and the explained numbers, by the plain module and the function."""
    boxes, scores = FUNCTIONS[kind][1](model.module(pixels))
    return boxes, scores.logit() if kind == "logits" else scores


def iou(a: list[float], b: list[float]) -> float:
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_numbers_and_maps_are_those_of_the_module(kind: str) -> None:
    model = wrapped(kind)
    pixels = model.prepare(picture()).tensors["pixel_values"].detach().clone().requires_grad_()
    boxes, scores = found(model, kind, pixels)
    n = len(boxes) - 1 if kind == "values" else 2  # the one that is least sure
    target = int(scores[n].argmax())
    methods = ["input_x_gradient", "fullgrad:libra", "occlusion?compare=false"]
    result = explainers.explain(model, picture(), NAMES[target], methods, at=f"box:{n}")
    torch.testing.assert_close(result.logits, scores[n].detach().float())
    assert result.output == ("sigmoid" if kind == "logits" else "regression")
    assert result.place.box == pytest.approx([min(max(side / SIZE[i % 2 == 0], 0), 1) for i, side in enumerate(boxes[n].tolist())])
    (gradient,) = torch.autograd.grad(scores[n, target], pixels)
    expected = F.avg_pool2d((gradient * pixels).detach().sum(1), 16).flatten() * 16 * 16
    map_of_gradient = result["input_x_gradient"].scores.to(expected)
    torch.testing.assert_close(map_of_gradient, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    if kind == "logits":
        assert result.completeness("libra") < 1e-8
    scores, boxes = scores.detach(), boxes.detach()
    gone = 0
    for patch in range(24):
        row, column = divmod(patch, 6)
        hidden = pixels.detach().clone()
        hidden[:, :, 16 * row : 16 * row + 16, 16 * column : 16 * column + 16] = 0
        with torch.no_grad():
            others, theirs = found(model, kind, hidden)
        shared = [iou(boxes[n].tolist(), each.tolist()) for each in others]
        lowest = float(scores.min()) if kind == "logits" else 0.0
        left = float(theirs[shared.index(max(shared)), target]) if shared and max(shared) >= 0.5 else lowest
        gone += not shared or max(shared) < 0.5
        assert float(result["occlusion?compare=false"].scores[patch]) == pytest.approx(float(scores[n, target]) - left, abs=1e-6), patch
    assert kind == "logits" or gone
    assert "it counts as gone" in " ".join(result.notes)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_d_rise_is_that_of_a_calculation_of_its_own(kind: str) -> None:
    model = wrapped(kind)
    result = explainers.explain(model, picture(), methods=[SPEC], at="box:1", seed=SEED)
    pixels, masks = result.tensors["pixel_values"], drawn_masks()

    def boxes(x: Tensor) -> list[tuple[list[float], list[float], float]]:
        with torch.no_grad():
            corners, scores = FUNCTIONS[kind][1](model.module(x))
        return [(box, row, 1.0) for box, row in zip(corners.tolist(), scores.tolist(), strict=True)]

    box = boxes(pixels)[1]
    likenesses = [max((like(box, other) for other in boxes(pixels * torch.tensor(mask))), default=0.0) for mask in masks]
    mean = sum(likenesses) / SAMPLES
    at_pixels = sum((likeness - mean) * mask for likeness, mask in zip(likenesses, masks, strict=True)) / SAMPLES / KEEP
    expected = at_pixels.reshape(4, 16, 6, 16).mean((1, 3)).flatten()
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(result[SPEC].scores.numpy(), expected, atol=1e-5 * np.abs(expected).max())


def test_a_side_is_the_functions_own_number() -> None:
    model = wrapped("logits")
    result = explainers.explain(model, picture(), methods="input_x_gradient", at="box:2/right")
    pixels = result.tensors["pixel_values"].detach().clone().requires_grad_()
    side = found(model, "logits", pixels)[0][2, 2] / SIZE[1]
    assert float(result.logits) == pytest.approx(float(side.detach()), abs=1e-6)
    (gradient,) = torch.autograd.grad(side, pixels)
    expected = F.avg_pool2d((gradient * pixels).detach().sum(1), 16).flatten() * 16 * 16
    scores = result["input_x_gradient"].scores.to(expected)
    torch.testing.assert_close(scores, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


def test_a_picture_without_boxes_says_so_and_a_batch_of_different_numbers_is_padded() -> None:
    model = wrapped("values")
    grey = {"pixel_values": torch.zeros(1, 3, *SIZE, dtype=torch.float64)}
    module: Any = model.module
    nn.init.constant_(module.head.bias, -9.0)
    with pytest.raises(ExplainerError, match="gives no box for this picture"):
        explainers.explain(model, grey, methods="random", at="box:0")
    with pytest.raises(ExplainerError, match="nothing to ask about"):
        explainers.explain(model, grey, methods="random")


def test_opened_its_checks_pass() -> None:
    report = explainers.open(OwnDetector().eval(), boxes=boxes_and_scores, labels=NAMES, preprocess=RECIPE).report
    assert report is not None
    assert [check.state for check in report.checks if check.name in ("logits", "gradient", "completeness")] == ["passed"] * 3


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda output: {"boxes": output}, r"boxes= gave dict: return \(boxes, scores\)"),
        (lambda output: (output[0, :4].T, [1.0]), "boxes= gave Tensor, list"),
        (lambda output: (output[0, :4], output[0, 4:].T), r"boxes \(4, 24\) and scores \(24, 3\)"),
        (lambda output: (boxes_and_scores(output)[0], output[0, 4]), r"boxes \(24, 4\) and scores \(24,\)"),
        (lambda output: (boxes_and_scores(output)[0][:3], boxes_and_scores(output)[1]), r"boxes \(3, 4\) and scores \(24, 3\)"),
        (lambda output: (boxes_and_scores(output)[0].int(), boxes_and_scores(output)[1]), r"torch\.int32 and torch\.float32"),
        (lambda output: (boxes_and_scores(output)[0].flip(-1), boxes_and_scores(output)[1]), "end before they begin"),
        (lambda output: output["boxes"], "the function boxes= failed"),
    ],
    ids=["a dict", "a list", "turned", "no classes", "fewer boxes", "whole numbers", "centre and size", "an error"],
)
def test_a_function_that_gives_something_else_is_told_what_to_give(function: Any, message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        explainers.wrap(OwnDetector().eval(), boxes=function, labels=NAMES, preprocess=RECIPE)


def test_scores_without_gradient_are_refused() -> None:
    def detached(output: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = boxes_and_scores(output)
        return boxes, scores.detach()

    model = explainers.wrap(OwnDetector().eval(), boxes=detached, labels=NAMES, preprocess=RECIPE)
    with pytest.raises(ExplainerError, match="No gradient goes from the model's output"):
        explainers.explain(model, picture(), methods="occlusion", at="box:2")


def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of docs/tasks.md; its second function reads what a detector of torchvision gives."""
    text = (Path(__file__).parents[4] / "docs" / "tasks.md").read_text("utf-8").partition("## Detectors")[2]
    whole, torchvision = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "def boxes_and_scores" in block)
    picture().save(tmp_path / "dog.jpg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(whole, names)
    result = names["result"]
    with torch.no_grad():
        _, scores = names["boxes_and_scores"](names["model"].module(result.tensors["pixel_values"]))
    torch.testing.assert_close(result.logits, scores.logit()[2])
    assert [one.patches for one in result.maps] == [(8, 8)] * 3
    exec(torchvision, names)
    found = {"boxes": torch.rand(2, 4), "labels": torch.tensor([3, 1]), "scores": torch.tensor([0.9, 0.6])}
    boxes, scores = names["boxes_and_scores"]([found])
    assert boxes is found["boxes"]
    assert (scores.shape, scores[0, 3], scores[1, 1], scores.sum()) == ((2, 91), 0.9, 0.6, 1.5)
