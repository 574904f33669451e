"""How clip is trained behind an early cut: where it begins, what a step asks, the whole recipe on made-up photos and a tiny encoder."""

from __future__ import annotations

import explainers.embedded.architectures

# isort: split
import argparse
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import explainers
from recipes import clip_images, clip_texts, distil_clip, train_photos_vit
from recipes.data import clip as data
from recipes.data.pictures import SIDE
from recipes.data.prompts import classes
from recipes.networks.trunk import teacher_trunk
from recipes.networks.vits import create, save
from tests.recipes.support.tiny_encoder import VOCABULARY

SHAPE = {"img_size": SIDE, "embed_dim": 16, "depth": 5, "num_heads": 2}
STAGES = 6


@pytest.fixture(scope="module")
def photos_vit(untrained: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A narrow photos-vit of random weights."""
    folder = tmp_path_factory.mktemp("photos-vit")
    names = [row["label"] for row in classes()]
    vit = create(train_photos_vit.ARCHITECTURE, names, {**SHAPE, "trunk_stages": STAGES})
    vit.patch_embed.backbone.load_state_dict(teacher_trunk(STAGES))
    with torch.no_grad():
        vit.head.weight.normal_()
        vit.head.bias.normal_()
    save(vit, folder, train_photos_vit.ARCHITECTURE, names, {**SHAPE, "trunk_stages": STAGES})
    return folder


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch, encoder: Path) -> None:
    """A narrow tower, few scenes, and the text side of a tiny encoder."""
    for name, value in (("SHAPE", SHAPE), ("FIRST_SCENE_BATCHES", 1), ("CAPACITY", 16)):
        monkeypatch.setattr(distil_clip, name, value)
    monkeypatch.setattr(data, "SCENES", 3)
    for name in ("WORDINGS", "KIND_WORDINGS"):
        monkeypatch.setattr(clip_texts, name, 1)
    monkeypatch.setattr(distil_clip, "load_texts", lambda _: clip_texts.new_texts(encoder, VOCABULARY))


def test_a_picture_begins_where_the_names_that_the_classifier_gives_it_lie(narrow: None, photos_vit: Path) -> None:
    """The difference of two embeddings is the least-squares solution for the difference of the classifier's centred answers."""
    names = torch.nn.functional.normalize(torch.randn(len(classes()), clip_images.SHARED), dim=-1)
    side, stages = distil_clip.begin_side(photos_vit, names)
    assert stages == STAGES
    head = load_file(photos_vit / "model.safetensors")["head.weight"].double().numpy()
    tokens = np.random.default_rng(0).normal(size=(2, SHAPE["embed_dim"]))
    answers = (tokens[1] - tokens[0]) @ head.T
    wanted = np.linalg.lstsq(names.double().numpy(), answers - answers.mean(), rcond=None)[0]
    found = (tokens[1] - tokens[0]) @ side.projection.weight.detach().double().numpy().T
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * abs(wanted).max())
    trained = {name for name, value in side.named_parameters() if value.requires_grad}
    assert {"projection.weight", "scale", "vit.blocks.0.attn.qkv.weight"} <= trained
    assert not [name for name in trained if "backbone" in name]


def test_scenes_come_again_and_now_and_then_a_new_batch(narrow: None, untrained: None) -> None:
    scenes = distil_clip.Scenes(distil_clip.Teachers(), 0)
    for step in range(2 * distil_clip.FRESH_SCENES_EVERY + 1):
        scenes(step)
    assert len(scenes.batches) == 3
    first, last = scenes.batches[0], scenes.batches[-1]
    assert not torch.equal(first.seen.tokens, last.seen.tokens)
    again = distil_clip.Scenes(distil_clip.Teachers(), 0)
    assert torch.equal(again(0).seen.tokens, first.seen.tokens)


def test_the_recipe_writes_a_folder_whose_image_side_has_learned(narrow: None, photos_vit: Path, photo_data: Path, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    distil_clip.add_arguments(parser)
    given = {"data": photo_data, "start": photos_vit, "out": tmp_path / "clip", "steps": 2, "batch": 2, "device": "cpu"}
    distil_clip.train(parser.parse_args([str(part) for name, value in given.items() for part in (f"--{name}", value)]))
    before, after = load_file(photos_vit / "model.safetensors"), load_file(tmp_path / "clip/model.safetensors")
    tower = {name.removeprefix("vision_model.timm_model."): value for name, value in after.items() if name.startswith("vision_model.")}
    assert all(torch.equal(value, before[name]) for name, value in tower.items() if "backbone" in name)
    assert not torch.equal(tower["blocks.1.attn.qkv.weight"], before["blocks.1.attn.qkv.weight"])
    model = explainers.load(str(tmp_path / "clip"), device="cpu")
    assert (model.kind, model.details["grid"], model.details["blocks"]) == ("clip", (14, 14), 5)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 100, 3), dtype=np.uint8))
    result = explainers.explain(model, picture, "a photo of a zebra", ["fullgrad_plus:libra"])
    assert result["fullgrad_plus:libra"].scores.isfinite().all()
    assert "lines" in (tmp_path / "clip/calibration.json").read_text("utf-8")
