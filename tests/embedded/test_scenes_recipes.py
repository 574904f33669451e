"""The recipes of the two models of scenes: captions, the hand-over of the vision tower, and the training loop."""

from __future__ import annotations

import explainers.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn
from transformers import AutoProcessor, CLIPModel

from embedded.recipes import captions, train_scenes_clip, train_scenes_vit, training, vits
from embedded.recipes.captions import Caption, kind_captions, matches, scene_caption
from embedded.recipes.scenes import KINDS, Composition, Placement, draw, render


def arguments(module: Any, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(["--out", str(out), "--steps", "2", "--device", "cpu", *more])


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of four, rendered in this process."""

    def vit(seed: int, first: int) -> Iterator[Any]:
        return map(train_scenes_vit.SceneBatches(seed, first, batch=4).__getitem__, range(10))

    def clip(seed: int, first: int) -> Iterator[Any]:
        return map(train_scenes_clip.CaptionedBatches(seed, first, batch=4).__getitem__, range(10))

    monkeypatch.setattr(train_scenes_vit, "batches", vit)
    monkeypatch.setattr(train_scenes_clip, "batches", clip)


@pytest.mark.usefixtures("small_batches")
def test_both_recipes_write_folders_that_their_libraries_load(tmp_path: Path) -> None:
    train_scenes_vit.train(arguments(train_scenes_vit, tmp_path / "vit"))
    vit = timm.create_model(f"local-dir:{tmp_path / 'vit'}", pretrained=True)
    assert vit.pretrained_cfg["label_names"] == list(KINDS)
    train_scenes_clip.train(arguments(train_scenes_clip, tmp_path / "clip", "--vit", str(tmp_path / "vit")))
    clip = CLIPModel.from_pretrained(tmp_path / "clip")
    assert clip.dtype == torch.float32
    processor = AutoProcessor.from_pretrained(tmp_path / "clip")
    inputs = processor(text=["a zebra"], images=render(np.random.default_rng(0), 150).image, return_tensors="pt")
    with torch.inference_mode():
        assert clip(**inputs).logits_per_image.shape == (1, 1)
    assert not list(tmp_path.glob("*/checkpoint*"))


def test_the_vision_tower_starts_as_the_vit() -> None:
    torch.manual_seed(0)
    vit = train_scenes_vit.new_model().eval()
    for parameter in vit.parameters():
        nn.init.normal_(parameter, std=0.1)
    clip = train_scenes_clip.new_model(vit)[0].eval()
    pixels = torch.randn(2, 3, 112, 112)
    kept = torch.rand(2, 196).argsort(1)[:, :50]
    with torch.inference_mode():
        ours = vit.forward_features(pixels)[:, 0]
        torch.testing.assert_close(clip.vision_model(pixels).pooler_output, ours)
        torch.testing.assert_close(vits.encode(vit, pixels)[:, 0], ours)
        part = vits.encode(vit, pixels, kept)[:, 0]
        assert (part - ours).abs().max() > 1e-3
        theirs = train_scenes_clip.image_features(clip, pixels, kept)
        torch.testing.assert_close(theirs, nn.functional.normalize(clip.visual_projection(part), dim=-1))


def test_all_patches_in_any_order_say_the_same() -> None:
    torch.manual_seed(0)
    vit = train_scenes_vit.new_model().eval()
    pixels, order = torch.randn(2, 3, 112, 112), torch.rand(2, 196).argsort(1)
    with torch.inference_mode():
        full, mixed = vits.encode(vit, pixels), train_scenes_vit.encode(vit, pixels, order)
    torch.testing.assert_close(full[:, 0], mixed[:, 0], atol=1e-5, rtol=1e-4)


def test_captions_are_true_of_their_scene_and_of_no_scene_without_the_object() -> None:
    rng = np.random.default_rng(5)
    scenes = [render(rng, 32) for _ in range(60)]
    own = [scene_caption(rng, scene) for scene in scenes]
    assert matches(scenes, own).diagonal().all()
    table = matches(scenes, kind_captions(rng))
    for scene, row in zip(scenes, table, strict=True):
        assert {KINDS[i] for i in np.flatnonzero(row)} == {item.kind for item in scene.objects}


def test_a_colour_tells_two_apples_apart() -> None:
    red = Caption("a red apple", (frozenset({"apple.png"}),))
    scenes = [draw(Composition("paper", 0, (Placement("apple", name, (0.5, 0.5), 0.5),)), 32)[0] for name in ("apple.png", "apple-2.png")]
    assert matches(scenes, [red]).tolist() == [[True], [False]]
    texts = {captions._named(np.random.default_rng(i), "apple", "apple-2.png") for i in range(60)}
    assert ("green apple", frozenset({"apple-2.png"})) in texts
    assert any(noun == "food" and "pizza.png" in means for noun, means in texts)


def test_the_tokenizer_knows_every_word_of_every_caption() -> None:
    words = captions.tokenizer()
    rng = np.random.default_rng(1)
    texts = [caption.text for _ in range(20) for caption in kind_captions(rng)]
    texts += [scene_caption(rng, render(rng, 32)).text for _ in range(200)]
    numbers = words([text.replace(captions.UNKNOWN, "") for text in texts], truncation=True)["input_ids"]
    assert all(row[0] == words.bos_token_id and row[-1] == words.eos_token_id for row in numbers)
    assert not any(words.unk_token_id in row for row in numbers)
    assert max(map(len, words(texts)["input_ids"])) <= captions.LENGTH
    assert words.unk_token_id in words("a Wombat")["input_ids"]


def line_batches(first: int) -> Iterator[Tensor]:
    index = first
    while True:
        yield torch.randn(8, 3, generator=torch.Generator().manual_seed(index))
        index += 1


def fit_line(out: Path, *, resume: bool = False, fail_at: int | None = None, **kwargs: Any) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)

    def loss(batch: Tensor, progress: float, step: int) -> tuple[Tensor, float]:
        if step == fail_at:
            raise KeyboardInterrupt
        return (model(batch)[:, 0] - batch.sum(1) - 1).square().mean(), progress

    settings = {"steps": 60, "rate": 0.1, "warm_up": 5, "weight_decay": 0.0, "decay": 0.9} | kwargs
    return training.fit(model, line_batches, loss, checkpoint=out / "checkpoint.pt", resume=resume, **settings)


def test_a_resumed_run_ends_as_an_unbroken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_EVERY", -1.0)
    whole = fit_line(tmp_path / "whole")
    assert (whole.weight - 1).abs().max() < 0.05
    assert (whole.bias - 1).abs() < 0.05
    with pytest.raises(KeyboardInterrupt):
        fit_line(tmp_path / "broken", fail_at=25)
    assert (tmp_path / "broken" / "checkpoint.pt").exists()
    resumed = fit_line(tmp_path / "broken", resume=True)
    torch.testing.assert_close(resumed.weight, whole.weight, atol=0, rtol=0)
    assert not (tmp_path / "broken" / "checkpoint.pt").exists()


def test_a_share_of_nothing_leaves_a_parameter_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    before = nn.Linear(3, 1)
    after = fit_line(tmp_path, share=lambda name: 0.0 if name == "bias" else 1.0)
    torch.testing.assert_close(after.bias, before.bias, atol=1e-6, rtol=0)  # the average of equal numbers rounds
    assert (after.weight - before.weight).abs().max() > 0.1


def test_a_run_needs_one_length(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give minutes or steps"):
        fit_line(tmp_path, minutes=1.0)
