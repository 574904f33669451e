"""A worker of the engine ray, in this process: its rows are those of the engine local, and it refuses what is not of the collection."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import torch

import explainers
from explainers.collection.collect import make_setup
from explainers.collection.distributed import CollectionOrder
from explainers.collection.running import data_digest, rows_of_part
from explainers.collection.sources import Sources
from explainers.evaluation.distributed import RayWorker
from explainers.pipeline.explain import versions
from tests.explainers.support.collected import save_pictures
from tests.explainers.support.saved_models import save_timm


@pytest.fixture
def order(tmp_path: Path) -> CollectionOrder:
    save_timm(tmp_path / "tiny")
    model, data = explainers.load(tmp_path / "tiny", "cpu"), save_pictures(tmp_path / "data", 5)
    setup = make_setup(model, data, ["rollout"])
    return CollectionOrder(
        model=str(tmp_path / "tiny"),
        sources=Sources(str(data)),
        methods=setup.methods,
        prompts=None,
        has_labels=True,
        removal=True,
        seed=0,
        batch=2,
        how="removed",
        skip_broken=False,
        device="cpu",
        threads=torch.get_num_threads(),
        weights=model.weights_digest,
        calibration=model.calibration.probability_settings(),
        inputs=data_digest(setup),
        versions=versions(),
    )


def answer_of(order: CollectionOrder) -> dict[str, str]:
    answer: dict[str, str] = RayWorker(order)(pa.table({"number": [0], "indices": [[1, 2, 3]]})).to_pylist()[0]
    return answer


def test_a_worker_collects_the_same_rows(order: CollectionOrder) -> None:
    setup = replace(make_setup(explainers.load(order.model, "cpu"), order.sources.data, ["rollout"]), batch=2)
    answer = answer_of(order)
    assert answer["problem"] is None
    assert json.loads(answer["rows"]) == rows_of_part(setup, [1, 2, 3])


def test_a_worker_refuses_what_is_not_of_the_collection(order: CollectionOrder) -> None:
    assert "other weights than" in answer_of(replace(order, weights="0"))["problem"]
    assert "another calibration" in answer_of(replace(order, calibration={"temperature": 9.0}))["problem"]
    assert "holds other inputs" in answer_of(replace(order, inputs="0"))["problem"]
    assert "it has torch " in answer_of(replace(order, versions=versions() | {"torch": "1.0"}))["problem"]
