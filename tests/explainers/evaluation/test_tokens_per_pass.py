"""How many tokens share a forward pass: from free memory and a measured cost, and kept by the run."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

import explainers
from explainers.datasets import open_dataset
from explainers.evaluation.measuring import EvaluationRow, EvaluationSetup, rows_of
from explainers.evaluation.plan import make_plan
from explainers.evaluation.run_engines import Parts, Size, TellInputs
from explainers.evaluation.running import run
from explainers.evaluation.tokens_per_pass import tokens_at_once
from explainers.models.memory import bytes_of_pass
from explainers.models.model import Model
from explainers.models.passes import MAX_GPU_ROWS
from explainers.models.removal.token_removal import TOKENS
from explainers.records.session import Cancelled
from tests.explainers.support.saved_models import save_timm


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A tiny one that reads 13 tokens, of which 12 are patches."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_timm(folder)
    return explainers.load(folder, "cpu")


def test_memory_bounds_a_pass(model: Model) -> None:
    tensors = model.tensors(open_dataset("scenes")[0].model_input)
    cost = bytes_of_pass(model, tensors)
    assert tokens_at_once(model, tensors, "cpu", None) == TOKENS
    assert tokens_at_once(model, tensors, "cpu", 10**12) == TOKENS
    assert tokens_at_once(model, tensors, "cuda", 10**12) == tokens_at_once(model, tensors, "cuda", None) == MAX_GPU_ROWS * 13
    assert tokens_at_once(model, tensors, "cuda", 2 * 5 * cost) == tokens_at_once(model, tensors, "cpu", 2 * 5 * cost) == 5 * 13
    assert tokens_at_once(model, tensors, "cuda", 0) == 1


def test_passes_are_no_larger(model: Model) -> None:
    data = open_dataset("scenes")
    plan = make_plan(model, data, ["random", "rollout"], ["mif", "lif", "positive_auc"])
    passes: list[int] = []

    def seen(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if not torch.is_grad_enabled():
            passes.append(args[0].shape[0] * (args[0].shape[1] - 1))

    with model.blocks[0].register_forward_pre_hook(seen):
        rows_of(EvaluationSetup(model, data, plan), 0)
        largest = max(passes)
        passes.clear()
        rows_of(EvaluationSetup(model, data, plan, at_once=26), 0)
    assert max(passes) <= 26 < largest


def test_a_run_keeps_the_size_that_it_began_with(model: Model, tmp_path: Path) -> None:
    data = open_dataset("scenes")
    plan = make_plan(model, data, ["random"], ["mif"], limit=2)
    sizes: list[int | None] = []

    def stopped(setup: EvaluationSetup, parts: Parts, tell: TellInputs, size: Size) -> Generator[tuple[int, list[EvaluationRow]]]:
        sizes.append(size("cpu", 10**9 if sizes else 1).at_once)
        raise Cancelled
        yield

    assert run(model, data, plan, tmp_path / "run", engine=stopped) is None
    assert run(model, data, plan, tmp_path / "run", engine=stopped) is None
    assert sizes == [1, 1]
    finished = run(model, data, plan, tmp_path / "run")
    assert finished is not None
    assert finished.about["tokens_at_once"] == json.loads((tmp_path / "run/run.json").read_text("utf-8"))["tokens_at_once"] == 1
