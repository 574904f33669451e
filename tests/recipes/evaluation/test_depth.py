"""How much of a Transformer is in a model: figures known by hand, and networks that must not pass."""

from __future__ import annotations

# isort: split
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import explainers
from explainers.models.model import Model
from recipes.evaluation import depth
from recipes.evaluation.depth import CLASS_METHODS, METHODS, Collage, Estimate, Inputs
from recipes.networks import vits

SIDE, CLASSES = 32, 5
SHAPE = {"img_size": SIDE, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A tiny Vision Transformer of random weights, larger than usual so that its blocks change the answer."""
    torch.manual_seed(0)
    vit = vits.create("vit_tiny_patch16_224", [str(number) for number in range(CLASSES)], SHAPE)
    for name, value in vit.named_parameters():
        if value.ndim > 1 and "norm" not in name:
            torch.nn.init.normal_(value, std=0.2)
    out = tmp_path_factory.mktemp("depth") / "vit"
    vits.save(vit, out, "vit_tiny_patch16_224", [str(number) for number in range(CLASSES)], SHAPE)
    return explainers.load(out, device="cpu")


@pytest.fixture(scope="module")
def inputs(model: Model) -> Inputs:
    """Coloured noise; the right class is what the model says, so that every change of an answer is a loss."""
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (24, SIDE, SIDE, 3), dtype=np.uint8))
    answers = depth.answer(model, images).argmax(1)
    picture = Image.fromarray(images[0].numpy())
    pair = Collage(picture, {(0, 0): 0, (0, 1): 1}, (1, 2))
    mosaic = Collage(picture, {(0, 0): 0, (0, 1): 1, (1, 0): 2, (1, 1): 3}, (2, 2))
    return Inputs(images, torch.nn.functional.one_hot(answers, CLASSES).bool(), [pair], [mosaic] * 2)


def test_the_loss_is_of_the_right_classes_together() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    truth = torch.tensor([[True, False, True]])
    p = logits.double().softmax(1)[0]
    assert depth.losses(logits, truth).tolist() == pytest.approx([-math.log(float(p[0] + p[2]))])


def test_a_part_is_replaced_by_its_mean_output(model: Model, inputs: Inputs) -> None:
    """The same written out for the first MLP: with its output for every picture known, the rest of the network runs on their mean."""
    vit = model.module
    x = vits.pixels(vit, inputs.images)
    with torch.inference_mode():
        tokens = vit.norm_pre(vit._pos_embed(vit.patch_embed(x)))
        block = vit.blocks[0]
        tokens = tokens + block.attn(block.norm1(tokens))
        written = block.mlp(block.norm2(tokens))
        logits = vit.forward_head(vit.norm(vit.blocks[1](tokens + written.mean(0))))
    wanted = depth.losses(logits, inputs.truth) - depth.losses(depth.answer(model, inputs.images), inputs.truth)
    found = depth.part_losses(model, inputs)
    assert list(found) == ["block 1 attention", "block 1 MLP", "block 2 attention", "block 2 MLP"]
    assert found["block 1 MLP"].value == pytest.approx(float(wanted.mean()), rel=1e-4)


def test_a_part_that_says_the_same_to_every_picture_is_idle(model: Model, inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not depth.idle_parts({"some": Estimate(0.2, 0.1, 0.3, 9)})
    assert depth.idle_parts({"some": Estimate(0.2, -0.1, 0.3, 9)}) == ["some"]
    last = model.module.blocks[1].mlp.fc2
    monkeypatch.setattr(last.weight, "data", torch.zeros_like(last.weight.data))
    assert "block 2 MLP" in depth.idle_parts(depth.part_losses(model, inputs))


def test_no_patch_reads_another(model: Model, inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside the mask a change of one patch reaches no other patch within a block, but the class token; without it, it does."""
    seen = []
    handle = model.module.blocks[0].register_forward_hook(lambda module, args, output: seen.append(output.detach()))
    changed = inputs.images[:1].clone()
    changed[:, :8, :8] = 255 - changed[:, :8, :8]
    both = dataclasses.replace(inputs, images=torch.cat([inputs.images[:1], changed]), truth=inputs.truth[:2])
    top1, lost = depth.isolated_patches_loss(model, both)
    handle.remove()
    moved = [(part[0] - part[1]).abs().amax(-1) > 1e-6 for part in seen]
    assert moved[0].all()
    assert moved[1].tolist() == [True, True, *[False] * 15]
    assert 0 <= top1 <= 1
    assert lost.count == 2


def test_where_attention_copies_nothing_no_answer_is_lost(model: Model, inputs: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in model.module.blocks:
        monkeypatch.setattr(block.attn.proj.weight, "data", torch.zeros_like(block.attn.proj.weight.data))
    assert depth.isolated_patches_loss(model, inputs)[1].value == 0


def test_maps_of_a_model_agree_with_its_own(model: Model, inputs: Inputs) -> None:
    images = [Image.fromarray(image) for image in inputs.images[:2].numpy()]
    between, same = depth.agreements(model, images, model)
    assert same is not None
    assert same.value == pytest.approx(1)
    assert between.value < 0.9
    assert depth.agreements(model, images, None)[1] is None


def test_areas_of_deletion_are_means_over_the_steps(model: Model, inputs: Inputs) -> None:
    tensor = vits.pixels(model.module, inputs.images[:1])
    scores = np.arange(16, dtype=float)
    with torch.inference_mode():
        areas = []
        for step in range(depth.STEPS + 1):
            picture = tensor.clone()
            for patch in range(16 - round(16 * step / depth.STEPS), 16):  # the highest scores go first
                row, column = divmod(patch, 4)
                picture[..., row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = 0
            areas.append(float(model.module(picture).softmax(1)[0, 2]))
        assert depth._deletion_area(model.module, tensor, scores, 2) == pytest.approx(np.mean(areas), rel=1e-4)


def test_scenes_lie_where_their_classes_say() -> None:
    found = depth.scene_inputs(3, 2, 2)
    assert found.images.shape[0] == len(found.truth) == 3
    assert found.truth.any(1).all()
    assert [set(collage.classes) for collage in (*found.pairs, *found.mosaics)] == [{(0, 0), (0, 1)}] * 2 + [
        {(0, 0), (0, 1), (1, 0), (1, 1)}
    ] * 2
    assert all(len(set(collage.classes.values())) == len(collage.classes) for collage in found.mosaics)


def test_the_command_measures_everything_on_photos(
    photo_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = [str(number) for number in range(1000)]
    torch.manual_seed(0)
    vit = vits.create("vit_tiny_patch16_224", labels, {**SHAPE, "img_size": 64, "patch_size": 16})
    vits.save(vit, tmp_path / "vit", "vit_tiny_patch16_224", labels, {**SHAPE, "img_size": 64, "patch_size": 16})
    monkeypatch.setattr(depth, "draw_unlike", lambda rng, names, number: list(range(number)))  # the made-up photos are of two kinds
    counts = ["--photos", "4", "--mosaics", "2", "--pairs", "1", "--maps", "1"]
    depth.main(
        [str(tmp_path / "vit"), "--data", str(photo_data), *counts, "--other", str(tmp_path / "vit"), "--out", str(tmp_path / "found.json")]
    )
    printed = capsys.readouterr().out
    assert "idle parts:" in printed
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert set(found["grid pointing"]) == set(found["correlation of the maps of two classes"]) == set(CLASS_METHODS)
    assert found["agreement of one method on two checkpoints"]["count"] <= 1
    assert len(METHODS) == 12
