"""Clips, of every form, and models of them: values equal to the model's own, full accounts, tokens in the order of time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers import Clip, ExplainerError
from explainers.models.inputs.clips import ClipShape, pictures_of
from explainers.models.model import Model
from explainers.rendering.overlays import render_overlay

# isort: split
from transformers import (
    TimesformerConfig,
    TimesformerForVideoClassification,
    VideoMAEConfig,
    VideoMAEForVideoClassification,
    VivitConfig,
    VivitForVideoClassification,
    VJEPA2Config,
    VJEPA2ForVideoClassification,
)

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "num_frames": 4, "num_labels": 3}


@pytest.fixture(scope="module", params=["VideoMAE", "ViViT", "V-JEPA 2"])
def model(request: pytest.FixtureRequest) -> Model:
    torch.manual_seed(0)
    if request.param == "VideoMAE":
        module: Any = VideoMAEForVideoClassification(VideoMAEConfig(**SIZE, image_size=64, patch_size=16, tubelet_size=2))
    elif request.param == "V-JEPA 2":
        module = VJEPA2ForVideoClassification(
            VJEPA2Config(
                hidden_size=32, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, num_labels=3, crop_size=64, patch_size=16,
                frames_per_clip=4, tubelet_size=2, pred_hidden_size=16, pred_num_attention_heads=2, pred_num_hidden_layers=1,
                num_pooler_layers=1,
            )
        )  # fmt: skip
    else:
        module = VivitForVideoClassification(VivitConfig(**SIZE, image_size=64, tubelet_size=[2, 16, 16]))
    return explainers.wrap(module.eval(), preprocess=explainers.Preprocessing(resize=(64, 64), fit="squash"))


def frames(count: int = 4) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (count, 50, 40, 3)).astype(np.uint8)


def test_the_strip_of_a_clip_has_a_cell_for_each_token() -> None:
    shape, clip = ClipShape(frames=4, tubelet=2, patch=16), torch.randn(1, 4, 3, 64, 48)
    strip = shape.strip_of(clip)
    assert strip.shape == (1, 3, 256, 48)
    cell = strip[0, :, 5 * 32 : 6 * 32, 16:32]  # of the second time, second row, second column
    torch.testing.assert_close(cell, torch.cat([clip[0, t, :, 16:32, 16:32] for t in (2, 3)], 1))
    assert torch.equal(shape.clips_of(strip), clip)


def test_the_numbers_are_the_models_own_and_add_up(model: Model) -> None:
    result = explainers.explain(model, frames(), methods=["fullgrad:libra", "input_x_gradient", "input_x_gradient?at=pixels"])
    pixels = torch.stack([explainers.Preprocessing(resize=(64, 64), fit="squash")(Image.fromarray(frame))[0] for frame in frames()])
    with torch.no_grad():
        own = model.module(pixels[None]).logits[0]
    torch.testing.assert_close(result.logits, own, rtol=1e-5, atol=1e-6)
    assert result.completeness("libra") < 1e-6
    again = explainers.explain(model, {"pixel_values": pixels[None]}, methods="input_x_gradient")
    again = again[0] if isinstance(again, list) else again
    torch.testing.assert_close(again["input_x_gradient"].scores, result["input_x_gradient"].scores)
    assert result.maps[0].patches == (2 * 4, 4)
    assert (result.input.frames, result.to_json()["input"]["frames"]) == (2, 2)
    moved = pixels[None].clone().requires_grad_()
    model.module(moved).logits[0, result.target.index].backward()
    by_pixel = (moved * moved.grad)[0].detach().sum(1)  # (T, H, W)
    by_patch = by_pixel.unflatten(0, (2, 2)).unflatten(2, (4, 16)).unflatten(4, (4, 16)).sum((1, 3, 5))
    of_pixels = result.maps[2]
    torch.testing.assert_close(of_pixels.scores[of_pixels.content], by_patch.flatten(), rtol=1e-3, atol=1e-6)
    assert of_pixels.pixels is None
    assert any("summed over the frames" in note for note in of_pixels.notes)


def test_patches_of_a_few_frames_go_together(model: Model) -> None:
    result = explainers.explain(model, frames(), methods="random")
    test = explainers.deletion_test(model, result, fractions=(0.0, 1.0), how="painted")
    with torch.no_grad():
        nothing = model.module(torch.zeros(1, 4, 3, 64, 64)).logits[0].softmax(-1)[result.target.index]
    assert test.curves[0].values["probability"][-1] == pytest.approx(float(nothing), abs=1e-6)
    assert explainers.deletion_test(model, result, fractions=(0.0, 0.5)).how == "removed"


def test_frames_are_drawn_beside_each_other(model: Model) -> None:
    result = explainers.explain(model, frames(), methods="input_x_gradient")
    assert render_overlay(result, result.maps[0], 200).size == (2 * 102 - 2, 100)


def test_clips_of_every_form(model: Model, tmp_path: Path) -> None:
    values = frames(6)
    pictures = [Image.fromarray(frame) for frame in values]
    for i, picture in enumerate(pictures):
        picture.save(tmp_path / f"{i}.png")
    expected = model.tensors(values)["pixel_values"]
    last: list[Any] = [str(tmp_path), tmp_path, Clip(pictures), Clip(tmp_path), values.transpose(0, 3, 1, 2), torch.from_numpy(values)]
    for clip in last:
        torch.testing.assert_close(model.tensors(clip)["pixel_values"], expected)
    assert model.prepare(values).notes == (("The model takes 4 frames, chosen evenly among the 6 of the clip.",),)
    assert len(model.prepare([values, Clip(pictures)])) == 2
    animation = tmp_path / "clip.gif"
    pictures[0].save(animation, save_all=True, append_images=pictures[1:])
    with Image.open(animation) as opened:
        assert len(pictures_of(animation)) == len(pictures_of(opened)) == 6


@pytest.mark.parametrize(
    ("clip", "says"),
    [
        (Image.new("RGB", (40, 50)), "one picture was sent: send explainers.Clip"),
        (np.zeros((4, 50, 40)), r"shape \(4, 50, 40\) is no clip"),
        (np.full((4, 50, 40, 3), 300), "values from 300 to 300"),
        (Clip([Image.new("RGB", (40, 50)), Image.new("RGB", (50, 40))]), "have one size"),
        ({"pixel_values": torch.zeros(1, 3, 3, 64, 64)}, "takes 4 frames, and these clips have 3"),
        (3, "a int is no clip"),
    ],
)
def test_what_is_no_clip(model: Model, clip: Any, says: str) -> None:
    with pytest.raises(ExplainerError, match=says):
        model.prepare(clip)


def test_a_folder_without_frames(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="holds 0 pictures"):
        model.prepare(tmp_path)


def test_a_model_whose_tokens_are_of_one_frame_is_refused() -> None:
    with pytest.raises(ExplainerError, match="VideoMAE, ViViT and V-JEPA 2 can be explained"):
        explainers.wrap(TimesformerForVideoClassification(TimesformerConfig(**SIZE, image_size=64)))


def test_the_settings_of_a_video_processor_are_read_without_it(model: Model, tmp_path: Path) -> None:
    module: Any = model.module
    module.save_pretrained(tmp_path)
    settings = {"do_resize": True, "size": {"shortest_edge": 73}, "do_center_crop": True, "crop_size": {"height": 64, "width": 64}}
    settings |= {"do_rescale": True, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3, "resample": 2}
    (tmp_path / "video_preprocessor_config.json").write_text(json.dumps({**settings, "video_processor_type": "VJEPA2VideoProcessor"}))
    recipe = explainers.Preprocessing(
        resize=(73, 73), fit="cover", crop=(64, 64), mean=(0.5,) * 3, std=(0.25,) * 3, resample=Image.Resampling.BILINEAR, round="down"
    )
    expected = explainers.wrap(module, preprocess=recipe).tensors(frames())["pixel_values"]
    torch.testing.assert_close(explainers.load(str(tmp_path)).tensors(frames())["pixel_values"], expected)
