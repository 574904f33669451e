"""The engine ray on a cluster of two workers on this machine: rows are those of the engine local, whatever happens to a worker."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import torch

import explainers
from explainers import ExplainerError
from explainers.datasets import Dataset, open_dataset
from explainers.evaluation.broken_inputs import BrokenInput
from explainers.evaluation.distributed import RayWorker, Sources, WorkOrder, ray_engine
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.plan import Plan, make_plan
from explainers.evaluation.running import EvaluationRun, first_inputs, run
from explainers.models.companion_files.calibration import UNCALIBRATED
from explainers.models.model import Model
from explainers.pipeline.explain import versions
from tests.explainers.evaluation.deadly import Deadly
from tests.explainers.support.made_up_datasets import made_up
from tests.explainers.support.saved_models import save_timm

pytestmark = pytest.mark.slow
METHODS = ("random", "rollout", "fullgrad")
INPUTS = 6
#: No report to anybody, no key in the person's home; and patience where the machine is busy with other tests. Ray would let its workers
#: stand back behind everything else (nice 15): beside other tests they then get next to nothing, and this file waits for minutes.
SURROUNDINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",
    "RAY_raylet_start_wait_time_s": "200",
    "RAY_worker_register_timeout_seconds": "200",
    "RAY_health_check_failure_threshold": "40",
}
PLAN = Plan(model="tiny", dataset="scenes", methods=("random",), metrics=("mif",))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Ray with room for two workers of one thread, which tells nobody of it."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, of what it imports and starts
        for name, value in SURROUNDINGS.items():
            patch.setenv(name, value)
        patch.delenv("RAY_ADDRESS", raising=False)
        ray = pytest.importorskip("ray", reason="Ray is not installed: it is the extra ray")
        # short, since sockets lie in it
        folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        before, threads = signal.getsignal(signal.SIGTERM), torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            ray.init(
                address="local",
                num_cpus=2,
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=100 * 2**20,
                log_to_driver=False,
                logging_level="error",
                _temp_dir=folder,
            )
        except Exception as problem:  # of whatever kind: this machine has no room for a cluster, which says nothing of our engine
            pytest.skip(f"Ray cannot start a cluster on this machine: {problem}")
        yield ray
        ray.shutdown()
        torch.set_num_threads(threads)
        signal.signal(signal.SIGTERM, before)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny random model."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_timm(folder)
    return folder


@pytest.fixture(scope="module")
def wanted(cluster: Any, saved: Path) -> tuple[Model, Dataset, Plan]:
    model, data = explainers.load(saved, "cpu"), open_dataset("scenes")
    return model, data, make_plan(model, data, METHODS, ["mif", "srg", "completeness", "class_correlation"], limit=INPUTS)


@pytest.fixture(scope="module")
def alone(wanted: tuple[Model, Dataset, Plan], tmp_path_factory: pytest.TempPathFactory) -> EvaluationRun:
    """The run in this process, which nothing disturbs."""
    finished = run(*wanted, tmp_path_factory.mktemp("alone") / "run")
    assert finished is not None
    return finished


def test_a_killed_worker_changes_no_row(wanted: tuple[Model, Dataset, Plan], alone: EvaluationRun, saved: Path, tmp_path: Path) -> None:
    """Killed while it measures the fifth input; a part that is there already is measured by nobody."""
    indices = wanted[1].choose(INPUTS)
    folder, readings = tmp_path / "run", tmp_path / "readings"
    readings.mkdir()
    begun: list[int] = []
    assert run(*wanted, folder, progress=lambda done, _: begun.append(done), cancelled=lambda: bool(begun and begun[-1])) is None
    assert [path.name for path in (folder / "parts").iterdir()] == ["000000.parquet"]

    told: list[int] = []
    engine = ray_engine(Deadly(model=str(saved), dataset="scenes", index=indices[4], readings=readings), workers=2)
    finished = run(*wanted, folder, engine=engine, progress=lambda done, _: told.append(done))
    assert finished is not None
    assert (readings / "killed").exists()
    killed = [path for path in readings.iterdir() if path.name != "killed"]
    read = [int(index) for path in killed for index in path.read_text().split()]
    assert len(killed) > 1
    assert set(read) == set(indices)
    assert read.count(indices[0]) == len(killed)  # once in each process, to see that it has the inputs of the run
    assert read.count(indices[4]) > 1
    assert told == [1, 2, 3, 4, 5, 6]
    assert finished.rows == alone.rows
    assert (folder / "rows.parquet").read_bytes() == (alone.folder / "rows.parquet").read_bytes()


def test_what_a_worker_cannot_measure_ends_the_run(
    cluster: Any, wanted: tuple[Model, Dataset, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that lacks the model, in this process: one of the cluster would import all that it needs to say so."""

    def from_items(items: list[dict[str, Any]], **_: Any) -> Any:
        def map_batches(worker: type[RayWorker], fn_constructor_args: tuple[WorkOrder], **_: Any) -> Any:
            answers = map(worker(*fn_constructor_args), (pa.Table.from_pylist([item]) for item in items))
            return SimpleNamespace(context=SimpleNamespace(), iter_batches=lambda **_: answers)

        return SimpleNamespace(map_batches=map_batches)

    monkeypatch.setattr(cluster.data, "from_items", from_items)
    engine = ray_engine(Sources(model=str(tmp_path / "gone"), dataset="scenes"), workers=1)
    with pytest.raises(ExplainerError, match=r"worker on .* could not measure: there is no model .*gone"):
        run(*wanted, tmp_path / "run", engine=engine)


def test_a_worker_with_another_model_says_so(saved: Path) -> None:
    sources = Sources(model=str(saved), dataset="scenes")
    order = WorkOrder(
        sources=sources,
        plan=PLAN,
        device="cpu",
        threads=torch.get_num_threads(),
        weights="0",
        calibration={"temperature": 2.0, "lapse": 0.0},
        inputs="0",
        versions=versions(),
    )
    assert "other weights than" in _problem(order)
    same_weights = replace(order, weights=explainers.load(saved, "cpu").weights_digest)
    assert "another calibration of the probabilities than" in _problem(same_weights)
    same_model = replace(same_weights, calibration=UNCALIBRATED.probability_settings())
    assert "its scenes holds other inputs than" in _problem(same_model)
    assert "it has torch " in _problem(replace(order, versions=versions() | {"torch": "1.0"}))


def test_a_worker_leaves_broken_inputs_out_where_the_run_does(saved: Path, tmp_path: Path) -> None:
    folder = made_up("pictures", tmp_path)
    (folder / "two.png").write_bytes(b"no picture")
    model, data = explainers.load(saved, "cpu"), open_dataset("pictures", folder)
    setup = EvaluationSetup(model, data, make_plan(model, data, ["random"], ["class_correlation"]), skip_broken=True)
    order = WorkOrder(
        sources=Sources(model=str(saved), dataset="pictures", data=folder),
        plan=setup.plan,
        device="cpu",
        threads=torch.get_num_threads(),
        weights=model.weights_digest,
        calibration=model.calibration.probability_settings(),
        inputs=first_inputs(setup),
        versions=versions(),
        skip_broken=True,
    )
    answer = RayWorker(order)(pa.table({"number": [0], "indices": [[0, 1]]})).to_pylist()[0]
    assert answer["problem"] is None
    measured, broken = json.loads(answer["rows"])
    assert (measured["index"], broken["index"]) == (0, 1)
    assert broken["broken"].startswith("two.png is not an image")
    with pytest.raises(BrokenInput, match="Input 1 of pictures"):
        first_inputs(replace(setup, skip_broken=False))


def _problem(order: WorkOrder) -> str:
    """What a worker answers when it is told to measure a part."""
    answer: str = RayWorker(order)(pa.table({"number": [0], "indices": [[0]]})).to_pylist()[0]["problem"]
    return answer


def test_a_cluster_without_room_is_refused(wanted: tuple[Model, Dataset, Plan], saved: Path, tmp_path: Path) -> None:
    engine = ray_engine(Sources.with_absolute_paths(str(saved), "scenes"), device="cuda")
    with pytest.raises(ExplainerError, match="No machine of the cluster has a GPU: choose --device cpu"):
        run(*wanted, tmp_path / "run", engine=engine)


def test_ray_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExplainerError, match=r"pip install -e '\.\[evaluate,ray\]'"):
        ray_engine(Sources(model="scenes-vit", dataset="scenes"))
