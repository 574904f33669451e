"""How photos-vit is trained: the schedule, a training that stops and goes on, small checkpoints, a folder that explains."""

from __future__ import annotations

# isort: split
import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import explainers
from explainers.errors import ExplainerError
from recipes import train_photos_vit
from recipes.data.pictures import SIDE
from recipes.data.prompts import classes
from recipes.data.teacher_views import CLASSES
from recipes.networks.trunk import teacher_trunk
from tests.recipes.support.made_up_data import photo


def test_the_learning_rate_rises_stays_and_falls() -> None:
    factor = train_photos_vit.learning_rate_factor
    assert factor(0, 0.0) == pytest.approx(1 / train_photos_vit.WARM_UP_STEPS)
    assert factor(5000, 0.3) == 1
    assert factor(9000, 1 - train_photos_vit.COOL_DOWN) == pytest.approx(1)
    assert factor(10_000, 1 - train_photos_vit.COOL_DOWN / 2) == pytest.approx(0.5)
    assert factor(10_000, 1.0) == 0


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, untrained: None) -> None:
    """A narrow student, few views, and a clock on which every look takes nine minutes."""
    clock = itertools.count(0, 540)
    monkeypatch.setattr(train_photos_vit, "SHAPE", {"img_size": SIDE, "embed_dim": 16, "depth": 2, "num_heads": 2})
    monkeypatch.setattr(train_photos_vit, "BASIS_BATCHES", 1)
    monkeypatch.setattr(train_photos_vit, "CAPACITY", 8)
    monkeypatch.setattr(train_photos_vit, "WATCH_EVERY_STEPS", 2)
    monkeypatch.setattr(train_photos_vit, "process_seconds", lambda: float(next(clock)))


def arguments(data: Path, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    train_photos_vit.add_arguments(parser)
    return parser.parse_args(["--data", str(data), "--out", str(out), "--batch", "2", *more])


@pytest.mark.parametrize("stages", [5, 6])
def test_a_training_stops_and_goes_on(short: None, photo_data: Path, tmp_path: Path, stages: int) -> None:
    out = tmp_path / "run"
    train_photos_vit.train(arguments(photo_data, out, "--stages", str(stages), "--hours", "4", "--until", "1"))
    first = torch.load(out / "checkpoint.pt", weights_only=True)
    assert 1 <= first["spent"] / 3600 < 2
    train_photos_vit.train(arguments(photo_data, out, "--stages", str(stages), "--hours", "4"))
    last = torch.load(out / "checkpoint.pt", weights_only=True)
    assert last["step"] > first["step"]
    assert last["spent"] >= 4 * 3600
    rows = [json.loads(line) for line in (out / "curve.jsonl").read_text("utf-8").splitlines()]
    assert [row["step"] for row in rows] == list(range(2, last["step"] + 1, 2))
    assert {"held_back_agreement", "held_back_divergence", "hours", "views"} <= set(rows[0])
    assert (out / "average-after-02-hours.safetensors").exists()
    weights = load_file(out / "model.safetensors")
    trunk = teacher_trunk(stages)
    assert all(torch.equal(weights[f"patch_embed.backbone.{name}"], value.half()) for name, value in trunk.items())
    assert not [name for name in weights if "local_head" in name]
    result = explainers.explain(explainers.load(str(out)), photo(1), "zebra", ["input_x_gradient"])
    assert int(result["input_x_gradient"].content.sum()) == 14 * 14
    assert json.loads((out / "labels.json").read_text("utf-8")) == classes()
    assert json.loads((out / "calibration.json").read_text("utf-8"))["temperature"] > 0


def test_a_checkpoint_of_another_cut_is_refused(short: None, photo_data: Path, tmp_path: Path) -> None:
    train_photos_vit.train(arguments(photo_data, tmp_path, "--stages", "5", "--hours", "4", "--until", "0.5"))
    with pytest.raises(ExplainerError, match=r"checkpoint\.pt is after stage 5: give --stages 5, or another --out"):
        train_photos_vit.train(arguments(photo_data, tmp_path, "--stages", "6", "--hours", "4"))


def test_a_training_goes_on_from_a_small_checkpoint(short: None, photo_data: Path, tmp_path: Path) -> None:
    """The counters and averaged weights are the same, to float16; trunk, head and optimizers are made again."""
    first, second, small = tmp_path / "first", tmp_path / "second", tmp_path / "small/photos-vit.safetensors"
    train_photos_vit.train(arguments(photo_data, first, "--stages", "5", "--hours", "4", "--until", "1"))
    train_photos_vit.save_small_checkpoint(first / "checkpoint.pt", small)
    before = torch.load(first / "checkpoint.pt", weights_only=True)
    state = train_photos_vit.load_state(arguments(photo_data, second, "--start", str(small), "--stages", "5"))
    assert state is not None
    assert (state["step"], state["spent"], state["stages"]) == (before["step"], before["spent"], 5)
    assert not [name for name in state["model"] if "backbone" in name or name.startswith("vit.head.")]
    for name, value in state["model"].items():
        torch.testing.assert_close(value, before["average"][name], atol=1e-3, rtol=1e-3)
    train_photos_vit.train(arguments(photo_data, second, "--start", str(small), "--stages", "5", "--hours", "4"))
    last = torch.load(second / "checkpoint.pt", weights_only=True)
    assert last["step"] > before["step"]
    trunk = teacher_trunk(5)
    weights = load_file(second / "model.safetensors")
    assert all(torch.equal(weights[f"patch_embed.backbone.{name}"], value.half()) for name, value in trunk.items())


def test_a_small_checkpoint_behind_another_stage_gives_its_weights_to_a_new_training(
    short: None, photo_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks and heads are the same; the new projection of patches gives nearly what the old one gave; all counters start again."""
    first, small = tmp_path / "first", tmp_path / "small/photos-vit.safetensors"
    train_photos_vit.train(arguments(photo_data, first, "--stages", "5", "--hours", "4", "--until", "1"))
    train_photos_vit.save_small_checkpoint(first / "checkpoint.pt", small)
    state = train_photos_vit.load_small_checkpoint(small)
    moved = []

    def look(student: train_photos_vit.Student, *given: Any) -> None:
        move(student, *given)
        moved.append(({name: value.clone() for name, value in student.state_dict().items()}, *given))

    move = train_photos_vit.move_to_other_stage_
    monkeypatch.setattr(train_photos_vit, "move_to_other_stage_", look)
    second = arguments(photo_data, tmp_path / "second", "--start", str(small), "--stages", "6", "--hours", "4", "--until", "0.5")
    train_photos_vit.train(second)
    weights, _, old_tokens, tokens = moved[0]
    for name, value in state["average"].items():
        if not name.startswith("vit.patch_embed"):
            assert torch.equal(weights[name], value)
    old, new = (
        F.linear(x, part["vit.patch_embed.proj.weight"].flatten(1), part["vit.patch_embed.proj.bias"])
        for x, part in ((old_tokens, state["average"]), (tokens, weights))
    )
    assert (new - old).square().mean() < old.var(dim=(0, 1)).mean()  # nearer than the mean of each channel
    assert torch.load(tmp_path / "second/checkpoint.pt", weights_only=True)["step"] < 10


def test_a_small_checkpoint_is_below_ten_megabytes() -> None:
    vit = train_photos_vit.create(train_photos_vit.ARCHITECTURE, ["a"] * CLASSES, {**train_photos_vit.SHAPE, "trunk_stages": 5})
    student = train_photos_vit.Student(vit, torch.zeros(CLASSES, 320), torch.zeros(CLASSES))
    kept = [value for name, value in student.named_parameters() if not name.startswith(("vit.patch_embed.backbone.", "vit.head."))]
    assert 9e6 < 2 * sum(value.numel() for value in kept) < 10e6
