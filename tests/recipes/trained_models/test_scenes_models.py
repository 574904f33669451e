"""The trained models on scenes they have not seen, and the sample scenes of the pages."""

from __future__ import annotations

import explainers  # noqa: F401  (before timm and transformers)

# isort: split

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors import safe_open
from transformers import AutoImageProcessor, AutoTokenizer, VisionTextDualEncoderModel

from explainers.datasets import open_dataset
from explainers.embedded.synthetic.scenes import KINDS, draw
from explainers.evaluation.explained_classes import PROMPT
from recipes.assets import scene_samples
from recipes.calibration import draw_made_up, is_known, read_shipped_calibration
from recipes.evaluation import MODELS, scenes
from recipes.evaluation.photos import answers
from recipes.evaluation.scenes import HALF, SHARE, TOP, SceneAnswers, ask_kinds, dual_scores, fresh_scenes, vit_scores
from recipes.networks.clip_features import text_features
from tests.support.embedded_models import loaded

SCORES = {"scenes-vit": cache(vit_scores), "clip": cache(dual_scores)}  # loaded once
VIT, PHOTOS, CLIP = (MODELS / name for name in ("scenes-vit", "photos-vit", "clip"))
INDEX = json.loads((scene_samples.OUT / "index.json").read_text("utf-8"))["samples"]


def pixels(path: Path) -> torch.Tensor:
    """A picture as the models see it."""
    picture = Image.open(path).resize((112, 112), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.asarray(picture).copy())[None]


def test_scenes_vit_names_what_is_there() -> None:
    figures = ask_kinds(SCORES["scenes-vit"](VIT), 60).figures()
    assert figures[TOP] >= 0.98
    assert figures[scenes.EVERY] >= 0.9
    assert figures[HALF] >= 0.95


def test_scenes_vit_says_something_else_of_photos_and_not_of_scenes() -> None:
    calibration = read_shipped_calibration(VIT)
    assert calibration is not None
    scenes = torch.from_numpy(np.stack([np.asarray(scene.image) for scene in fresh_scenes(60)]))
    assert is_known(answers(SCORES["scenes-vit"](VIT), scenes), calibration).float().mean() >= 0.88
    for sample in (one for one in INDEX if one["kind"] == "image"):  # those of the pages
        assert is_known(SCORES["scenes-vit"](VIT)(pixels(scene_samples.OUT / sample["image"]), None), calibration).all(), sample["id"]
    assert is_known(answers(SCORES["scenes-vit"](VIT), draw_made_up(40)), calibration).float().mean() <= 0.6
    photos = sorted((scene_samples.OUT.parent / "photos").glob("*.jpg"))
    assert torch.stack([is_known(SCORES["scenes-vit"](VIT)(pixels(path), None), calibration) for path in photos]).float().mean() <= 0.6


def test_clip_names_what_is_there() -> None:
    figures = ask_kinds(SCORES["clip"](CLIP), 32, 196).figures()
    assert figures[TOP] >= 0.88
    assert figures[SHARE] >= 0.75
    assert figures[HALF] >= 0.75


def test_what_is_counted_of_scenes() -> None:
    one, two, three, four = (scenes.KINDS.index(kind) for kind in ("dog", "cat", "zebra", "elephant"))
    found = SceneAnswers([{one}, {one, two}, {one, two}], [[one, two], [three, one, four, two], [two, one]], [two, one, four])
    figures = found.figures()
    assert (figures[TOP], figures[scenes.EVERY], figures[HALF]) == (2 / 3, 2 / 3, 1 / 3)
    assert figures[SHARE] == pytest.approx((1 + 0.5 + 1) / 3)
    assert figures[f"{TOP}, of the 2 of 2"] == 0.5
    assert found.worst(5) == {
        "cat, most often missed for zebra": {"found": 0.5, "missed for it": 0.5},
        "dog": {"found": 1.0, "missed for it": 0.0},
    }


def test_fresh_scenes_are_the_same_each_time() -> None:
    one, two = (list(scenes.fresh_scenes(3)) for _ in range(2))
    assert [a.image.tobytes() for a in one] == [b.image.tobytes() for b in two]
    assert [scene.image.tobytes() for scene in one] == [open_dataset("scenes")[place].model_input.tobytes() for place in range(3)]


def test_scenes_vit_is_an_ordinary_timm_folder() -> None:
    model = timm.create_model(f"local-dir:{VIT}", pretrained=True)
    assert model.pretrained_cfg["label_names"] == list(KINDS)
    assert model.pretrained_cfg["input_size"] == (3, 112, 112)
    assert model.patch_embed.grid_size == (14, 14)
    assert next(model.parameters()).dtype == torch.float32
    assert torch.isfinite(torch.cat([p.flatten() for p in model.parameters()])).all()


@pytest.mark.parametrize(("folder", "most"), [(VIT, 6e6), (PHOTOS, 20e6), (CLIP, 40e6)], ids=["vit", "photos", "clip"])
def test_weights_are_stored_small(folder: Path, most: float) -> None:
    with safe_open(folder / "model.safetensors", "pt") as file:
        stored = {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118 (not a dict)
    assert stored - {torch.int64} == {torch.float16}  # whole numbers are counters
    assert (folder / "model.safetensors").stat().st_size < most


def test_clip_is_an_ordinary_transformers_folder() -> None:
    clip = VisionTextDualEncoderModel.from_pretrained(CLIP).eval()
    assert clip.dtype == torch.float32
    picture = Image.open(scene_samples.OUT / "zebra-elephant.png")
    images = AutoImageProcessor.from_pretrained(CLIP, backend="pil")(picture, return_tensors="pt")
    assert images["pixel_values"].shape == (1, 3, 224, 224)
    texts = AutoTokenizer.from_pretrained(CLIP)([PROMPT.format(kind) for kind in ("zebra", "guitar")], return_tensors="pt", padding=True)
    with torch.inference_mode():
        zebra, guitar = clip(**texts, **images).logits_per_image[0]
    assert zebra > guitar + 3


def test_prompts_of_any_kind_are_read() -> None:
    model = loaded("clip")
    alone = text_features(model, ["A photo of a ZEBRA"])
    padded = text_features(model, ["a photo of a zebra", "a photo of an elephant next to a spoon and a fork"])
    torch.testing.assert_close(alone[0], padded[0])
    strange = text_features(model, ["wombat", "zèbre 斑马 🦓", "zebra " * 100])
    assert torch.isfinite(strange).all()


@cache
def features_of_kinds() -> torch.Tensor:
    return text_features(loaded("clip"), [PROMPT.format(kind) for kind in KINDS])


WORDS = {"puppy": "dog", "kitten": "cat", "automobile": "car", "serpent": "snake", "sailboat": "boat", "bike": "bicycle"}


@pytest.mark.parametrize(("word", "name"), WORDS.items())
def test_words_of_no_prompt_mean_what_they_mean_in_english(word: str, name: str) -> None:
    asked = text_features(loaded("clip"), [PROMPT.format(word)])[0]
    assert KINDS[int((features_of_kinds() @ asked).argmax())] == name


@pytest.mark.parametrize("row", INDEX, ids=[row["id"] for row in INDEX])
def test_the_models_are_right_on_every_sample(row: dict[str, Any]) -> None:
    score = SCORES[row["model"]](MODELS / row["model"])
    with torch.inference_mode():
        order = score(pixels(scene_samples.OUT / row["image"]), None)[0].argsort(descending=True).tolist()
    assert {KINDS[i] for i in order[: len(row["objects"])]} == set(row["objects"])


def test_the_samples_are_what_their_recipe_draws() -> None:
    assert [row["id"] for row in INDEX[::2]] == [sample.name for sample in scene_samples.SAMPLES]
    assert len(INDEX) == 2 * len(scene_samples.SAMPLES) >= 12
    for row, twin, sample in zip(INDEX[::2], INDEX[1::2], scene_samples.SAMPLES, strict=True):
        scene, visible = draw(sample.composition, scene_samples.SIZE)
        assert min(visible) > 0.6
        assert Image.open(scene_samples.OUT / row["image"]).tobytes() == scene.image.tobytes()
        numbers = np.asarray(Image.open(scene_samples.OUT / row["mask"]))
        for index, item in enumerate(scene.objects):
            assert np.array_equal(numbers == index + 1, item.mask)
        assert row["objects"] == twin["objects"] == [item.kind for item in scene.objects]
        assert row["target"] in row["objects"]
        assert len(twin["prompts"]) == len(twin["objects"])
