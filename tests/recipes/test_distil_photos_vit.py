"""How photos-vit is trained after an early cut: kept views, targets of pasted pictures, the schedule, a training that goes on."""

from __future__ import annotations

# isort: split
import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import explainers
from explainers.errors import ExplainerError
from recipes import distil_photos_vit, train_photos_vit
from recipes.data import teacher_views
from recipes.data.pictures import SIDE, SMALL_SIDE
from recipes.data.teacher_views import CHANNELS, CLASSES, LOCAL_DIRECTIONS, Batches, Teachers, Views, ViewStore
from tests.recipes.support.made_up_data import photo

PLACES = {SIDE: 196, SMALL_SIDE: 64}


def made_up_views(number: int, side: int, seed: int = 0) -> Views:
    torch.manual_seed(seed)
    shapes = (PLACES[side], CHANNELS), (PLACES[side], LOCAL_DIRECTIONS), (CLASSES,)
    return Views(*(torch.randn(number, *shape).half() for shape in shapes))


def test_views_are_found_again_as_they_were_kept(tmp_path: Path) -> None:
    store = ViewStore(tmp_path, 5)
    large, small = made_up_views(2, SIDE), made_up_views(2, SMALL_SIDE, 1)
    store.add(large)
    store.add(small)
    store.add(made_up_views(2, SIDE, 2))
    again = ViewStore(tmp_path, 5)
    assert again.counts == {SIDE: 4, SMALL_SIDE: 2}
    drawn = again.draw(np.random.default_rng(0), SMALL_SIDE, 20)
    for part, kept in zip(drawn, small, strict=True):
        rows = {row.numpy().tobytes() for row in kept}
        assert {row.numpy().tobytes() for row in part} == rows


def test_a_full_store_keeps_what_it_has(tmp_path: Path) -> None:
    store = ViewStore(tmp_path, 3)
    for seed in range(3):
        store.add(made_up_views(2, SIDE, seed))
    assert store.counts[SIDE] == 3
    first = {row.numpy().tobytes() for seed in range(2) for row in made_up_views(2, SIDE, seed).logits}
    assert {row.numpy().tobytes() for row in store.draw(np.random.default_rng(0), SIDE, 30).logits} < first


def test_every_sixth_batch_is_new_and_the_others_are_drawn(tmp_path: Path) -> None:
    sides = itertools.cycle([SIDE, SMALL_SIDE])
    made = []

    def make(rng: np.random.Generator) -> Views:
        made.append(made_up_views(2, next(sides), len(made)))
        return made[-1]

    batches = Batches(ViewStore(tmp_path, 100), make, 0, 2, 6)
    for step in range(13):
        batches(step)
    assert len(made) == 4  # steps 0 and 1, until both sizes can be drawn, then 6 and 12
    known = {row.numpy().tobytes() for views in made for row in views.logits}
    assert all(row.numpy().tobytes() in known for row in batches(13).logits)


def test_two_teachers_answer_and_small_pictures_spread_alike(untrained: None) -> None:
    teachers = Teachers()
    for side, scale in ((SIDE, 1.0), (SMALL_SIDE, teacher_views.SMALL_LOGIT_SCALE)):
        images = torch.from_numpy(np.stack([np.asarray(photo(seed, side, side)) for seed in range(2)]))
        views = teachers.see(images)
        assert [tuple(part.shape) for part in views] == [(2, PLACES[side], CHANNELS), (2, PLACES[side], LOCAL_DIRECTIONS), (2, CLASSES)]
        first, second = teachers.lite0.see(images).logits.float(), teachers.answer(images)
        wanted = (first - first.mean(1, keepdim=True) + second - second.mean(1, keepdim=True)) / 2
        torch.testing.assert_close(views.logits.float(), scale * wanted, atol=2e-3, rtol=2e-3)


def test_pasted_pictures_are_wanted_what_an_averaging_teacher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a teacher whose logits are the mean of its local answers, the logits of the pasted picture are the mean of its local answers."""
    torch.manual_seed(0)
    readout = torch.randn(CLASSES, LOCAL_DIRECTIONS) / LOCAL_DIRECTIONS**0.5
    local = torch.randn(3, 196, LOCAL_DIRECTIONS).half()
    views = Views(torch.randn(3, 196, CHANNELS).half(), local, (local.float().mean(1) @ readout.T).half())
    pasted = distil_photos_vit.paste(views, np.random.default_rng(1), readout)
    torch.testing.assert_close(pasted.logits.float(), pasted.local.float().mean(1) @ readout.T, atol=5e-3, rtol=1e-2)
    for number in range(3):
        own, other = ((pasted.features[number] == views.features[row]).all(1) for row in (number, number - 1))
        assert (own ^ other).all()  # every patch is of one of the two, features and local answers alike
        assert other.any()
        assert ((pasted.local[number] == local[number - 1]).all(1) == other).all()


def test_patches_are_kept_once_each() -> None:
    counts = set()
    for seed in range(30):
        kept = distil_photos_vit.choose_patches(np.random.default_rng(seed), 4, 196)
        if kept is not None:
            assert all(len(set(row)) == len(row) for row in kept.tolist())
        counts.add(None if kept is None else kept.shape[1])
    assert counts == {None, 59, 78, 98, 147}


def test_the_learning_rate_rises_stays_and_falls() -> None:
    factor = distil_photos_vit.learning_rate_factor
    assert factor(0, 0.0) == pytest.approx(1 / distil_photos_vit.WARM_UP_STEPS)
    assert factor(5000, 0.3) == 1
    assert factor(9000, 1 - distil_photos_vit.COOL_DOWN) == pytest.approx(1)
    assert factor(10_000, 1 - distil_photos_vit.COOL_DOWN / 2) == pytest.approx(0.5)
    assert factor(10_000, 1.0) == 0


def test_the_divergence_is_that_of_the_probabilities() -> None:
    logits, wanted = torch.randn(4, 9), torch.randn(4, 9)
    p, q = wanted.double().softmax(1), logits.double().softmax(1)
    assert float(distil_photos_vit.divergence(logits, wanted)) == pytest.approx(float((p * (p / q).log()).sum(1).mean()), rel=1e-5)


def test_one_head_gives_what_the_features_and_the_classifier_give() -> None:
    torch.manual_seed(0)
    vit = distil_photos_vit.create(distil_photos_vit.ARCHITECTURE, ["a"] * 7, {**distil_photos_vit.SHAPE, "depth": 1, "trunk_stages": 5})
    student = distil_photos_vit.Student(vit.eval(), torch.randn(7, 5), torch.randn(7))
    tokens = torch.randn(3, distil_photos_vit.SHAPE["embed_dim"])
    wanted = student.answer(tokens)
    vit.load_state_dict(student.vit_weights(student.state_dict()))
    torch.testing.assert_close(vit.head(tokens), wanted)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, untrained: None) -> None:
    """A narrow student, few views, and a clock on which every look takes nine minutes."""
    clock = itertools.count(0, 540)
    monkeypatch.setattr(distil_photos_vit, "SHAPE", {"img_size": SIDE, "embed_dim": 16, "depth": 2, "num_heads": 2})
    monkeypatch.setattr(distil_photos_vit, "BASIS_BATCHES", 1)
    monkeypatch.setattr(distil_photos_vit, "CAPACITY", 8)
    monkeypatch.setattr(distil_photos_vit, "WATCH_EVERY_STEPS", 2)
    monkeypatch.setattr(distil_photos_vit, "process_seconds", lambda: float(next(clock)))


def arguments(data: Path, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    distil_photos_vit.add_arguments(parser)
    return parser.parse_args(["--data", str(data), "--out", str(out), "--batch", "2", *more])


@pytest.mark.parametrize("stages", [5, 6])
def test_a_training_stops_and_goes_on(short: None, photo_data: Path, tmp_path: Path, stages: int) -> None:
    out = tmp_path / "run"
    distil_photos_vit.train(arguments(photo_data, out, "--stages", str(stages), "--hours", "4", "--until", "1"))
    first = torch.load(out / "checkpoint.pt", weights_only=True)
    assert 1 <= first["spent"] / 3600 < 2
    distil_photos_vit.train(arguments(photo_data, out, "--stages", str(stages), "--hours", "4"))
    last = torch.load(out / "checkpoint.pt", weights_only=True)
    assert last["step"] > first["step"]
    assert last["spent"] >= 4 * 3600
    rows = [json.loads(line) for line in (out / "curve.jsonl").read_text("utf-8").splitlines()]
    assert [row["step"] for row in rows] == list(range(2, last["step"] + 1, 2))
    assert {"held_back_agreement", "held_back_divergence", "hours", "views"} <= set(rows[0])
    assert (out / "average-after-02-hours.safetensors").exists()
    weights = load_file(out / "model/model.safetensors")
    trunk = train_photos_vit.teacher_trunk(stages)
    assert all(torch.equal(weights[f"patch_embed.backbone.{name}"], value.half()) for name, value in trunk.items())
    assert not [name for name in weights if "local_head" in name]
    result = explainers.explain(explainers.load(str(out / "model")), photo(1), "zebra", ["input_x_gradient"])
    assert int(result["input_x_gradient"].content.sum()) == 14 * 14


def test_a_checkpoint_of_another_cut_is_refused(short: None, photo_data: Path, tmp_path: Path) -> None:
    distil_photos_vit.train(arguments(photo_data, tmp_path, "--stages", "5", "--hours", "4", "--until", "0.5"))
    with pytest.raises(ExplainerError, match=r"checkpoint\.pt is after stage 5: give --stages 5, or another --out"):
        distil_photos_vit.train(arguments(photo_data, tmp_path, "--stages", "6", "--hours", "4"))


def test_masked_patches_hold_the_mean_of_all_features(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every patch is masked, the answer does not depend on the picture."""
    monkeypatch.setattr(distil_photos_vit, "MASK_SHARE", 1.0)
    monkeypatch.setattr(distil_photos_vit, "MASKED", 1.1)
    monkeypatch.setattr(distil_photos_vit, "PASTE_SHARE", 0.0)
    monkeypatch.setattr(distil_photos_vit, "KEPT_SHARES", (1.0,))
    teachers = Teachers()
    vit = distil_photos_vit.create(distil_photos_vit.ARCHITECTURE, ["a"] * CLASSES, {**distil_photos_vit.SHAPE, "trunk_stages": 5})
    student = distil_photos_vit.Student(vit.eval(), teachers.lite0.readout, teachers.lite0.bias)
    objective = distil_photos_vit.Objective(student, teachers, 5, torch.ones(CHANNELS), 0)
    first, second = (made_up_views(2, SIDE, seed) for seed in (0, 1))
    second = second._replace(local=first.local, logits=first.logits)
    with torch.no_grad():
        losses = [float(objective(views, 0)[0]) for views in (first, second)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_a_training_goes_on_from_a_small_checkpoint(short: None, photo_data: Path, tmp_path: Path) -> None:
    """The counters and averaged weights are the same, to float16; trunk, head and optimizers are made again."""
    first, second, small = tmp_path / "first", tmp_path / "second", tmp_path / "small/photos-vit.safetensors"
    distil_photos_vit.train(arguments(photo_data, first, "--stages", "5", "--hours", "4", "--until", "1"))
    distil_photos_vit.save_small_checkpoint(first / "checkpoint.pt", small)
    before = torch.load(first / "checkpoint.pt", weights_only=True)
    state = distil_photos_vit.load_state(arguments(photo_data, second, "--start", str(small), "--stages", "5"))
    assert state is not None
    assert (state["step"], state["spent"], state["stages"]) == (before["step"], before["spent"], 5)
    assert not [name for name in state["model"] if "backbone" in name or name.startswith("vit.head.")]
    for name, value in state["model"].items():
        torch.testing.assert_close(value, before["average"][name], atol=1e-3, rtol=1e-3)
    distil_photos_vit.train(arguments(photo_data, second, "--start", str(small), "--stages", "5", "--hours", "4"))
    last = torch.load(second / "checkpoint.pt", weights_only=True)
    assert last["step"] > before["step"]
    trunk = train_photos_vit.teacher_trunk(5)
    weights = load_file(second / "model/model.safetensors")
    assert all(torch.equal(weights[f"patch_embed.backbone.{name}"], value.half()) for name, value in trunk.items())


def test_a_small_checkpoint_behind_another_stage_gives_its_weights_to_a_new_training(
    short: None, photo_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks and heads are the same; the new projection of patches gives nearly what the old one gave; all counters start again."""
    first, small = tmp_path / "first", tmp_path / "small/photos-vit.safetensors"
    distil_photos_vit.train(arguments(photo_data, first, "--stages", "5", "--hours", "4", "--until", "1"))
    distil_photos_vit.save_small_checkpoint(first / "checkpoint.pt", small)
    state = distil_photos_vit.load_small_checkpoint(small)
    moved = []

    def look(student: distil_photos_vit.Student, *given: Any) -> None:
        move(student, *given)
        moved.append(({name: value.clone() for name, value in student.state_dict().items()}, *given))

    move = distil_photos_vit.move_to_other_stage_
    monkeypatch.setattr(distil_photos_vit, "move_to_other_stage_", look)
    second = arguments(photo_data, tmp_path / "second", "--start", str(small), "--stages", "6", "--hours", "4", "--until", "0.5")
    distil_photos_vit.train(second)
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
    vit = distil_photos_vit.create(distil_photos_vit.ARCHITECTURE, ["a"] * CLASSES, {**distil_photos_vit.SHAPE, "trunk_stages": 5})
    student = distil_photos_vit.Student(vit, torch.zeros(CLASSES, 320), torch.zeros(CLASSES))
    kept = [value for name, value in student.named_parameters() if not name.startswith(("vit.patch_embed.backbone.", "vit.head."))]
    assert 9e6 < 2 * sum(value.numel() for value in kept) < 10e6
