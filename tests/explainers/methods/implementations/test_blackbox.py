"""Methods that only ask the model: occlusion, RISE, Kernel SHAP and LIME."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import spearmanr

import explainers
from explainers import ExplainerError
from explainers.methods.implementations.blackbox import describe_disagreement
from explainers.models.removal.patches import patch_removal
from tests.explainers.support.pair import TARGET
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


def test_where_painting_and_taking_out_disagree_is_said() -> None:
    grid = (2, 3)
    painted = torch.tensor([3.5, 0.1, 0.2, 0.3, 0.05, -1.0])
    assert describe_disagreement(painted, 2 * painted, grid) == ""
    turned = painted.clone()
    turned[0] = -0.9
    note = describe_disagreement(painted, turned, grid)
    rho = float(spearmanr(painted, turned).statistic)
    assert f"come in another order (rank correlation {rho:.2f})" in note
    assert "1 of 6 raise the answer in one way and lower it in the other: most of all row 1, column 1" in note
    assert "painting it changes the answer by -3.5 and taking it out by +0.9." in note
    small = painted.clone()
    small[4] = -0.05  # another sign of what does not count
    assert "raise" not in describe_disagreement(painted, small, grid)


def test_a_map_of_occlusion_says_where_taking_out_differs_from_painting() -> None:
    model, tensors = wrapped("vit"), inputs("vit", 1)
    (attribution,) = explainers.explain(model, tensors, TARGET, ["occlusion"]).maps
    removal = patch_removal(model, tensors, (4, 3), "removed")
    values = removal.logits(torch.cat([torch.ones(1, 12, dtype=torch.bool), ~torch.eye(12, dtype=torch.bool)]))[:, TARGET]
    expected = describe_disagreement(attribution.scores[attribution.content], values[0] - values[1:], (4, 3))
    assert [note for note in attribution.notes if "painted grey" in note] == ([expected] if expected else [])
    assert expected  # of a random model they differ
    for spec in ("occlusion?compare=False", "occlusion?window=2"):
        assert not [note for note in explainers.explain(model, tensors, TARGET, [spec]).maps[0].notes if "painted" in note]


@pytest.mark.parametrize("spec", ["rise?samples=64", "kernel_shap?samples=200", "lime?samples=64&alpha=0.0001"])
def test_black_box_controls_repeat_themselves_and_agree_with_occlusion(spec: str) -> None:
    first, again, falls = scores("vit", spec)[0], scores("vit", spec)[0], scores("vit", "occlusion")[0]
    assert torch.equal(first, again)
    assert float(torch.corrcoef(torch.stack([first[1:], falls[1:]]))[0, 1]) > 0.5


def test_black_box_controls_without_a_mask_token_say_what_is_missing() -> None:
    with pytest.raises(ExplainerError, match="no mask token"):
        explainers.explain(wrapped("bert"), inputs("bert", 1), methods="occlusion")
