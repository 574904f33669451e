"""The engine that measures the parts of a run on many machines and GPUs, with Ray Data.

Each worker opens the model and the data set once, by their names, and measures whole parts. This process alone writes rows. Floating-point
numbers travel as JSON, which keeps every bit of them.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import threading
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from explainers.datasets import Dataset, open_dataset
from explainers.errors import ExplainerError
from explainers.evaluation.measuring import EvaluationRow, EvaluationSetup
from explainers.evaluation.plan import Plan
from explainers.evaluation.run_engines import Parts, RunEngine, Size, TellInputs, one_by_one
from explainers.evaluation.running import first_inputs
from explainers.models.catalogue import embedded_names
from explainers.models.loading import load
from explainers.models.memory import free_memory
from explainers.models.model import Model
from explainers.pipeline.explain import versions
from explainers.ray_library import cluster_address, load_ray
from explainers.records.session import Cancelled

__all__ = ["Sources", "ray_engine"]

MAX_RETRIES = 3  # retries of a part whose worker died: a part that kills every worker must not be retried for ever
OBJECT_STORE_BYTES = 200 * 2**20  # bytes of the object store for rows, where we start a cluster on this machine


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The names of what a worker opens. Folders must be in the same place on every machine.

    model    a name that ``explainers.load`` takes
    dataset  name of the data set
    data     the folder or file of the data set; None if it needs none
    split    which of its parts; None: the first that exists
    """

    model: str
    dataset: str
    data: Path | None = None
    split: str | None = None

    @classmethod
    def with_absolute_paths(cls, model: str, dataset: str, data: Path | None = None, split: str | None = None) -> Sources:
        """Return sources with the name of the ``model`` (or its folder), that of the ``dataset``, the folder of its ``data`` and its
        ``split``, with all paths absolute. Workers do not run in the folder that this process runs in.
        """
        folder = Path(model).expanduser()
        elsewhere = model in embedded_names() or model.startswith(("timm/", "hf/", "openclip/"))
        name = str(folder.resolve()) if folder.is_dir() and not elsewhere else model
        return cls(model=name, dataset=dataset, data=None if data is None else data.expanduser().resolve(), split=split)

    def open(self, device: str) -> tuple[Model, Dataset]:
        """Open the model on ``device`` and the data set, and return both.

        Raises ExplainerError if one of them is missing on this machine.
        """
        return load(self.model, device), open_dataset(self.dataset, self.data, self.split)


def ray_engine(sources: Sources, *, workers: int | None = None, address: str | None = None, device: str | None = None) -> RunEngine:
    """Return an engine that measures the model and data set in ``sources`` on a Ray cluster: the one at ``address``, else the one that
    ``RAY_ADDRESS`` names, else a cluster started here for the run.

    workers  maximum number of processes that measure at the same time; None: as many as the cluster has room for
    device   kind of device of a worker; None: a GPU for each worker if the cluster has any

    On a CPU a worker has as many threads as torch has in this process, so that its rows are those that this process would have computed,
    bit for bit. A worker that dies is started again, and the part that it was measuring is measured again. Raises ExplainerError without
    Ray, and in the run for a cluster that cannot be reached or has no room, and for a worker that cannot open the model or the data set, or
    whose weights, calibration, inputs or versions are not those of the run.
    """
    ray = ray_for(workers)

    def engine(setup: EvaluationSetup, parts: Parts, tell: TellInputs, size: Size) -> Generator[tuple[int, list[EvaluationRow]]]:
        tell(0)
        if not parts:
            return
        with connect(ray, address):
            kind, room = count_workers(ray, device)
            count = min(workers or room, room, len(parts))
            worker_setup = size(kind, _free_memory(ray, kind, count))
            order = WorkOrder(
                sources=sources,
                plan=setup.plan,
                device=kind,
                threads=torch.get_num_threads(),
                weights=setup.model.weights_digest,
                calibration=setup.model.calibration.probability_settings(),
                inputs=first_inputs(setup),
                versions=versions(),
                at_once=worker_setup.at_once,
                skip_broken=setup.skip_broken,
            )
            count_done = 0
            for number, rows in receive_parts(ray, order, parts, count):
                yield number, rows
                count_done += len(parts[number])
                tell(count_done)
                if setup.cancelled is not None and setup.cancelled():
                    raise Cancelled

    return engine


def ray_for(workers: int | None) -> Any:
    """Return the module ``ray``, for an engine with at most so many ``workers`` (None: any number). Raises ExplainerError without Ray, and
    for fewer than 1.
    """
    ray = load_ray("ray.data", need="The engine ray needs Ray", extras="evaluate,ray")
    if workers is not None and workers < 1:
        raise ExplainerError("There must be at least 1 worker.")
    return ray


@contextmanager
def connect(ray: Any, address: str | None) -> Iterator[None]:
    """Connect by the module ``ray`` to a cluster inside this context: to the one that this process is connected to already, which then
    stays connected, or to the one at ``address`` until the end of the context. Raises ExplainerError if it cannot be reached.
    """
    if ray.is_initialized():
        yield
        return
    address = cluster_address(address)
    before = signal.getsignal(signal.SIGTERM)
    options = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="warning", **options)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        raise ExplainerError(f"No cluster of Ray can be used at {address}: {problem}") from problem
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)  # Ray's own handler aborts; its processes end with this one anyway
    try:
        yield
    finally:
        ray.shutdown()


def count_workers(ray: Any, device: str | None) -> tuple[str, int]:
    """Return the kind of device of the workers ("cuda" or "cpu"), that of ``device`` if it is not None, and how many workers the cluster
    that ``ray`` is connected to can hold.

    Raises ExplainerError if it can hold none.
    """
    machines = [machine["Resources"] for machine in ray.nodes() if machine["Alive"]]
    kind = str(device).partition(":")[0] if device else "cuda" if any(machine.get("GPU") for machine in machines) else "cpu"
    cpus = _cpus(kind)
    room = [machine.get("CPU", 0) // cpus for machine in machines]
    if kind == "cuda":
        room = [min(workers, machine.get("GPU", 0)) for workers, machine in zip(room, machines, strict=True)]
    if sum(room) < 1:
        remedy = "a GPU: choose --device cpu" if kind == "cuda" else f"{cpus} CPUs, one a thread: set OMP_NUM_THREADS to fewer"
        raise ExplainerError(f"No machine of the cluster has {remedy}.")
    return kind, int(sum(room))


def _cpus(kind: str) -> int:
    """Return the number of CPUs that a worker on a device of this ``kind`` ("cuda" or "cpu") needs: 1 with a GPU, else one for each of
    torch's threads.
    """
    return 1 if kind == "cuda" else torch.get_num_threads()


def _free_memory(ray: Any, kind: str, count: int) -> int | None:
    """Return the free bytes for one worker, asked by the module ``ray``; None if unknown. For ``kind`` "cuda" it is the free memory of the
    first available GPU; for "cpu" this machine's free memory divided by ``count``, the number of workers.
    """
    if kind == "cuda":
        ask = ray.remote(num_cpus=1, num_gpus=1)(free_memory)
        memory: int | None = ray.get(ask.remote(torch.device(kind)))
        return memory
    memory = free_memory(torch.device(kind))
    return None if memory is None else memory // count


class Order(Protocol):
    """The instructions for workers, which are sent to each: where it runs, how it opens what all parts share, and how it does a part."""

    @property
    def device(self) -> str:
        """The kind of device of a worker: "cuda" or "cpu"."""

    @property
    def threads(self) -> int:
        """The number of torch's threads in a worker."""

    def open(self) -> Any:
        """Open what all parts share. Raises ExplainerError if it is not that of the run."""

    def rows_of(self, setup: Any, number: int, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the rows of the part ``number``, with the inputs ``indices``; ``setup`` is what :meth:`open` returned."""


def check_versions(of_run: Mapping[str, str]) -> None:
    """Raise ExplainerError if this machine has other versions of the libraries than those of a run."""
    here = versions()
    if differences := [f"{name} {here.get(name)}, not {number}" for name, number in of_run.items() if here.get(name) != number]:
        raise ExplainerError(f"it has {'; '.join(differences)}. Install the versions of the run.")


def check_model(model: Model, name: str, weights: str, calibration: Mapping[str, float]) -> None:
    """Raise ExplainerError if a model that was opened by its ``name`` has other ``weights``, by digest, or another ``calibration``."""
    if model.weights_digest != weights:
        raise ExplainerError(f"its {name} has other weights than that of the run.")
    if model.calibration.probability_settings() != calibration:
        raise ExplainerError(f"its {name} has another calibration of the probabilities than that of the run.")


@dataclass(frozen=True, kw_only=True)
class WorkOrder:
    """The instructions for workers that measure a run, and what each must have so that all get the same rows.

    sources      the model and the data set to open
    plan         what is measured
    device       "cpu" or "cuda"
    threads      number of torch's threads in a worker
    weights      digest of the model's weights; ``inputs`` is that of the data set's first inputs
    calibration  constants of the model's probabilities
    versions     name of a library -> its version
    at_once      number of tokens in one pass; None: as many as suit the device
    skip_broken  whether inputs that cannot be read are left out
    """

    sources: Sources
    plan: Plan
    device: str
    threads: int
    weights: str
    calibration: dict[str, float]
    inputs: str
    versions: dict[str, str]
    at_once: int | None = None
    skip_broken: bool = False

    def open(self) -> EvaluationSetup:
        """Open the model and the data set of the run and return its setup.

        Raises ExplainerError for another model or calibration than that of the run, other inputs, or other versions.
        """
        check_versions(self.versions)
        model, data = self.sources.open(self.device)
        check_model(model, self.sources.model, self.weights, self.calibration)
        setup = EvaluationSetup(model, data, self.plan, at_once=self.at_once, skip_broken=self.skip_broken)
        if first_inputs(setup) != self.inputs:
            raise ExplainerError(f"its {self.sources.dataset} holds other inputs than that of the run.")
        return setup

    def rows_of(self, setup: EvaluationSetup, number: int, indices: Sequence[int]) -> list[EvaluationRow]:
        """Measure the inputs with these ``indices``, one after the other, and return their rows."""
        return next(one_by_one(setup, {number: indices}, lambda done: None))[1]


def receive_parts(ray: Any, order: Order, parts: Parts, count: int) -> Iterator[tuple[int, list[EvaluationRow]]]:
    """Send the ``parts`` of a run (indices of inputs by number) to at most ``count`` workers with their instructions ``order``, by ``ray``,
    and yield the number and the rows of each part when a worker has finished it.
    """
    items = [{"number": number, "indices": list(indices)} for number, indices in parts.items()]
    with warnings.catch_warnings():
        # Ray has no other way yet to bound retries; the extra stays below the version that drops this one
        warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")
        answers = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
            RayWorker,
            fn_constructor_args=(order,),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=_cpus(order.device),
            num_gpus=1 if order.device == "cuda" else None,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=count, initial_size=count, max_tasks_in_flight_per_actor=2),
            max_restarts=-1,
            max_task_retries=MAX_RETRIES,
        )
    answers.context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)  # progress is told by whoever began the run
    try:
        for table in answers.iter_batches(batch_size=None, prefetch_batches=0, batch_format="pyarrow"):
            for answer in table.to_pylist():
                if answer["problem"] is not None:
                    raise ExplainerError(answer["problem"])
                yield answer["number"], json.loads(answer["rows"])
    except ray.exceptions.RayTaskError:
        raise  # a mistake in what was measured, with its trace
    except ray.exceptions.RayError as problem:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        raise ExplainerError(
            f"The cluster lost a worker {MAX_RETRIES + 1} times or more: {lines[0]} What is measured is kept."
        ) from problem


class RayWorker:
    """The worker that Ray Data calls in a process of its own: from a table of parts to a table of their rows, or of the reason why a part
    has none.

    The setup is opened with the first part, so that an error that a person can correct is returned and does not kill the worker.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.setup: Any = None

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        answers = [self._answer(part["number"], part["indices"]) for part in table.to_pylist()]
        return pa.Table.from_pylist(answers, schema=pa.schema([("number", pa.int64()), ("rows", pa.string()), ("problem", pa.string())]))

    def _answer(self, number: int, indices: list[int]) -> dict[str, Any]:
        try:
            if self.setup is None:
                torch.set_num_threads(self.order.threads)
                self.setup = self.order.open()
            rows = self.order.rows_of(self.setup, number, indices)
        except (ExplainerError, OSError) as problem:
            return {"number": number, "rows": None, "problem": f"The worker on {socket.gethostname()} could not measure: {problem}"}
        return {"number": number, "rows": json.dumps(rows), "problem": None}
