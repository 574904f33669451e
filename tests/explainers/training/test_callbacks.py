"""Training with a panel gives the same weights, bit by bit, as without: in a plain loop, transformers' Trainer, and Lightning."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explainers import ExplainerError
from explainers.training import Panel, PanelLogger, PanelView, lightning_callback, to_folder, transformers_callback
from tests.explainers.support.collected import picture
from tests.explainers.support.training import WRAPPING, batch, loss_of, tiny_with_dropout

Seen = list[tuple[int, PanelView]]


def logger(seen: Seen, every: int = 2, wrapping: dict[str, Any] | None = None) -> PanelLogger:
    panel = Panel({"a": picture(1)}, ("input_x_gradient", "random"), {"a": 0}, WRAPPING if wrapping is None else wrapping)
    return PanelLogger(panel, lambda view, step: seen.append((step, view)), every)


def seed_all() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def same(first: nn.Module, second: nn.Module) -> bool:
    states = first.state_dict(), second.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def plain(draw: PanelLogger | None) -> nn.Module:
    module = tiny_with_dropout().train()
    seed_all()
    optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
    for step in range(5):
        if draw is not None:
            draw(module, step)
        loss_of(module, step).backward()
        optimizer.step()
        optimizer.zero_grad()
    return module


def test_a_plain_loop() -> None:
    seen: Seen = []
    assert same(plain(None), plain(logger(seen)))
    assert [step for step, _ in seen] == [0, 2, 4]
    assert seen[-1][1].figures["correlation/a/input_x_gradient"] < 0.999  # the model learnt something in between
    assert not same(plain(None), tiny_with_dropout())


def of_transformers(folder: Path, draw: PanelLogger | None, **arguments: Any) -> nn.Module:
    import transformers

    seed_all()
    config = transformers.ViTConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        image_size=16,
        patch_size=8,
        num_labels=3,
        hidden_dropout_prob=0.2,
    )
    model = transformers.ViTForImageClassification(config)
    rows = [{"pixel_values": torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(i)), "labels": i % 3} for i in range(8)]
    known: dict[str, Any] = {"per_device_train_batch_size": 2, "max_steps": 4, "learning_rate": 1e-2, "report_to": [], "use_cpu": True}
    known |= {"save_strategy": "no", "disable_tqdm": True, "dataloader_pin_memory": False, "logging_strategy": "no"}
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(str(folder), **known | arguments),
        train_dataset=rows,
        processing_class=transformers.ViTImageProcessorPil(size={"height": 16, "width": 16}),
        callbacks=[] if draw is None else [transformers_callback(draw)],
    )
    trainer.train()
    return model


@pytest.mark.parametrize("arguments", [{}, {"bf16": True}, {"gradient_accumulation_steps": 2}])
def test_transformers_trainer(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """Also in mixed precision, where accelerate puts autocast around the model; the processor is the trainer's own."""
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    seen: Seen = []
    assert same(of_transformers(tmp_path, None, **arguments), of_transformers(tmp_path, logger(seen, wrapping={}), **arguments))
    assert [step for step, _ in seen] == [0, 2, 4]


def of_lightning(folder: Path, draw: PanelLogger | None, within: str | None) -> nn.Module:
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = tiny_with_dropout()

        def training_step(self, numbers: Tensor, index: int) -> Tensor:
            return loss_of(self.inner, int(numbers[0]))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), 1e-2)

    module = Classifier()
    seed_all()
    trainer = lightning.Trainer(
        max_steps=4,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        callbacks=[] if draw is None else [lightning_callback(draw, within)],
    )
    trainer.fit(module, torch.utils.data.DataLoader(torch.arange(8)))
    return module.inner


@pytest.mark.filterwarnings("ignore")  # of Lightning, on the workers of data loaders
def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="Lightning is no dependency; it is tested where it is installed")
    seen: Seen = []
    assert same(of_lightning(tmp_path, None, None), of_lightning(tmp_path, logger(seen), "inner"))
    assert [step for step, _ in seen] == [0, 2, 4]


def test_packages_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ExplainerError, match="pip install lightning"):
        lightning_callback(logger([]))


def test_every_is_a_number_of_steps(tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="every=0"):
        PanelLogger(Panel({"a": picture(1)}), to_folder(tmp_path), 0)


def test_the_batches_of_these_tests_differ() -> None:
    assert not torch.equal(batch(0)[0], batch(1)[0])
