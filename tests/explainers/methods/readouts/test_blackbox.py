"""Read-outs that only ask the model: occlusion, RISE, Kernel SHAP and LIME."""

from __future__ import annotations

import pytest
import torch

import explainers
from explainers import ExplainerError
from tests.explainers.methods.test_methods import TARGET
from tests.explainers.support.wrapped import inputs, scores, wrapped


def test_occlusion_is_the_fall_when_one_patch_is_grey() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    (ours,) = scores("vit", "occlusion")
    pixels = tensors["pixel_values"]
    rows, columns = 4, 3
    side = pixels.shape[-2] // rows
    with torch.no_grad():
        whole = model.forward(tensors)[0, TARGET]
        for patch in range(rows * columns):
            hidden = pixels.clone()
            y, x = divmod(patch, columns)
            hidden[..., y * side : (y + 1) * side, x * side : (x + 1) * side] = 0
            fall = float(whole - model.forward({"pixel_values": hidden})[0, TARGET])
            assert float(ours[1 + patch]) == pytest.approx(fall, abs=1e-6)


@pytest.mark.parametrize("spec", ["rise?samples=64", "kernel_shap?samples=200", "lime?samples=64&alpha=0.0001"])
def test_black_box_controls_repeat_themselves_and_agree_with_occlusion(spec: str) -> None:
    first, again, falls = scores("vit", spec)[0], scores("vit", spec)[0], scores("vit", "occlusion")[0]
    assert torch.equal(first, again)
    assert float(torch.corrcoef(torch.stack([first[1:], falls[1:]]))[0, 1]) > 0.5


def test_black_box_controls_without_a_mask_token_say_what_is_missing() -> None:
    with pytest.raises(ExplainerError, match="no mask token"):
        explainers.explain(wrapped("bert"), inputs("bert", 1), methods="occlusion")
