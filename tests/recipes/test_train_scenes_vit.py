"""The recipe of the model of scenes, and the training loop."""

from __future__ import annotations

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before timm and transformers)

# isort: split

import argparse
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from explainers.embedded.synthetic.scenes import KINDS
from recipes import train_scenes_vit, training
from recipes.networks import vits


def arguments(module: Any, out: Path, *more: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(["--out", str(out), "--steps", "2", "--device", "cpu", *more])


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of four, rendered in this process."""

    def vit(seed: int, first: int) -> Iterator[Any]:
        make = functools.partial(train_scenes_vit.render_batch, size=4)
        return training.endless(make, [seed], first, workers=0)

    monkeypatch.setattr(train_scenes_vit, "batches", vit)
    monkeypatch.setattr(train_scenes_vit, "CALIBRATION_SCENES", 4)
    monkeypatch.setattr(train_scenes_vit, "CALIBRATION_PICTURES", 4)


@pytest.mark.usefixtures("small_batches")
def test_the_recipe_writes_a_folder_that_timm_loads(tmp_path: Path) -> None:
    train_scenes_vit.train(arguments(train_scenes_vit, tmp_path / "vit"))
    (line,) = json.loads((tmp_path / "vit" / "calibration.json").read_text("utf-8"))["lines"].values()
    assert "95% of 4 rendered scenes stay above the line" in line["measured"]
    vit = timm.create_model(f"local-dir:{tmp_path / 'vit'}", pretrained=True)
    assert vit.pretrained_cfg["label_names"] == list(KINDS)
    assert not list(tmp_path.glob("*/checkpoint*"))


@pytest.mark.usefixtures("small_batches")
def test_what_a_training_keeps_of_the_weights_it_started_from(tmp_path: Path) -> None:
    first = tmp_path / "first"
    train_scenes_vit.train(arguments(train_scenes_vit, first))
    found = {}
    for keep in ("0", "0.25", "1"):
        more = ("--start", str(first), "--seed", "1", "--keep", keep)
        train_scenes_vit.train(arguments(train_scenes_vit, tmp_path / keep, *more))
        found[keep] = vits.load(tmp_path / keep).state_dict()
    for name, before in vits.load(first).state_dict().items():
        new, some = found["0"][name], found["0.25"][name]
        assert torch.equal(found["1"][name], before)
        torch.testing.assert_close(some, 0.75 * new + 0.25 * before, atol=1e-4, rtol=2e-3)  # both are stored as float16
    assert any(not torch.equal(value, found["1"][name]) for name, value in found["0"].items())


def test_more_than_all_is_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(train_scenes_vit, tmp_path, "--keep", "1.5")
    assert "1.5 is not from 0" in capsys.readouterr().err


def test_nothing_can_be_kept_of_no_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give --start DIR too"):
        train_scenes_vit.train(arguments(train_scenes_vit, tmp_path, "--keep", "0.2"))
    assert not list(tmp_path.iterdir())


def test_all_patches_in_any_order_say_the_same() -> None:
    torch.manual_seed(0)
    vit = train_scenes_vit.new_model().eval()
    pixels, order = torch.randn(2, 3, 112, 112), torch.rand(2, 196).argsort(1)
    with torch.inference_mode():
        full, mixed = vits.encode(vit, pixels), train_scenes_vit.encode(vit, pixels, order)
    torch.testing.assert_close(full[:, 0], mixed[:, 0], atol=1e-5, rtol=1e-4)


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
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
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


def test_a_run_of_no_steps_returns_what_it_was_given(tmp_path: Path) -> None:
    torch.manual_seed(0)
    before = nn.Linear(3, 1)
    torch.testing.assert_close(fit_line(tmp_path, steps=0).state_dict(), before.state_dict(), atol=0, rtol=0)


def test_a_run_needs_one_length(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give minutes or steps"):
        fit_line(tmp_path, minutes=1.0)
