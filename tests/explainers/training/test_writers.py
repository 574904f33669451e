"""Views of a panel in a folder, in TensorBoard, and in Weights & Biases, read back with their own readers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from explainers import ExplainerError
from explainers.training import PanelImage, PanelView, to_folder, to_tensorboard, to_wandb

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8))
VIEW = PanelView([PanelImage("a cat", PICTURE, "a cat: ant 90%")], {"probability/a cat": 0.9, "correlation/a cat/rollout": 0.5})


def test_a_folder_has_pictures_and_a_line_of_figures_for_each_step(tmp_path: Path) -> None:
    write = to_folder(tmp_path / "panels")
    write(VIEW, 0)
    write(VIEW, 100)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "panels/step-000100/a-cat.png")), np.asarray(PICTURE))
    lines = [json.loads(line) for line in (tmp_path / "panels/figures.jsonl").read_text("utf-8").splitlines()]
    assert lines == [{"step": step, "probability/a cat": 0.9, "correlation/a cat/rollout": 0.5} for step in (0, 100)]


@pytest.mark.filterwarnings("ignore")  # of tensorboard, on numpy
def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is no dependency; it is tested where it is installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write = to_tensorboard(tmp_path)
    write(VIEW, 3)
    write(VIEW, 6)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("vitrine/probability/a cat")] == [
        (3, pytest.approx(0.9)),
        (6, pytest.approx(0.9)),
    ]
    drawn = events.Images("vitrine/a cat")
    assert [(image.step, image.width, image.height) for image in drawn] == [(3, 5, 6), (6, 5, 6)]


@pytest.mark.filterwarnings("ignore")  # of wandb
def test_weights_and_biases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb: Any = pytest.importorskip("wandb", reason="Weights & Biases is no dependency; it is tested where it is installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(ExplainerError, match=r"wandb\.init"):
        to_wandb()
    run = wandb.init(mode="offline", dir=str(tmp_path), project="panel")
    run.log({"loss": 1.0}, step=500)  # another callback is further: steps must not be refused
    write = to_wandb()
    write(VIEW, 3)
    assert run.summary["vitrine/step"] == 3
    assert run.summary["vitrine/probability/a cat"] == 0.9
    folder = Path(run.dir)
    run.finish()
    assert len(list(folder.rglob("*.png"))) == 1


@pytest.mark.parametrize(
    ("missing", "call", "command"),
    [("torch.utils.tensorboard", lambda: to_tensorboard("x"), "pip install tensorboard"), ("wandb", to_wandb, "pip install wandb")],
)
def test_packages_that_are_not_there_are_named(missing: str, call: Any, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ExplainerError, match=command):
        call()
