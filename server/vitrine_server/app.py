"""The application: the calls, the pages, and the worker behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from starlette.concurrency import run_in_threadpool

from explainers.errors import ExplainerError
from explainers.models.loading import device_named
from explainers.pipeline.explain import versions
from vitrine_server.api import (
    collections,
    comparisons,
    explanations,
    export,
    leaderboard,
    models,
    opening,
    operations,
    runs,
    slices,
    studies,
    tables,
)
from vitrine_server.http.access import Access
from vitrine_server.http.encodings import ReadEncodings
from vitrine_server.http.gate import Gate
from vitrine_server.http.hosts import are_apart, is_reached_by_others
from vitrine_server.http.metrics import Metrics
from vitrine_server.http.middleware import Surroundings
from vitrine_server.http.openapi import complete_openapi
from vitrine_server.http.problems import add_handlers
from vitrine_server.http.uploads import forbid_bombs
from vitrine_server.http.visitors import Visitor, VisitorSecrets
from vitrine_server.jobs.catalogue.model_registry import ModelRegistry
from vitrine_server.jobs.catalogue.model_source import ModelSource, open_options_of
from vitrine_server.jobs.catalogue.own_models import OwnModels
from vitrine_server.jobs.host.host_process import HostProcess
from vitrine_server.jobs.host.host_thread import HostThread
from vitrine_server.jobs.host.model_host import ModelHost
from vitrine_server.jobs.queue.worker import MakeHost, Worker
from vitrine_server.jobs.queue.worker_interface import WorkerInterface
from vitrine_server.jobs.recovery import resume_unfinished
from vitrine_server.jobs.runs.collecting import COLLECTING
from vitrine_server.jobs.runs.data_sources import DataCatalogue
from vitrine_server.jobs.runs.measurable import Measurable
from vitrine_server.jobs.runs.runs import RunController
from vitrine_server.jobs.runs.sent_data import SentData
from vitrine_server.jobs.runs.slicing import SLICING, SearchableCollections
from vitrine_server.log import set_up_log
from vitrine_server.pages.routes import add_pages
from vitrine_server.samples import read_samples, sample_folders
from vitrine_server.services import Services
from vitrine_server.settings import Settings, environment_name
from vitrine_server.shelf import Shelf
from vitrine_server.store.store import Store, open_store

API = (
    explanations,
    comparisons,
    studies,
    export,
    models,
    opening,
    operations,
    leaderboard,
    tables,
    runs,
    collections,
    slices,
)
#: The store and what makes explanations, for the registry of models of one process.
OpenWork = Callable[[ModelRegistry], tuple[Store, WorkerInterface]]
_DECODER_THREADS = 2  # uploads decoded at once
_PACKED_FROM, _PACKING = 1000, 5  # bytes of an answer that is sent packed, and gzip's level: 571 kB become 40 in 3 ms


def create_app(
    settings: Settings,
    source: ModelSource | None = None,
    samples: Iterable[Path] | None = None,
    make_model_host: Callable[[Settings], ModelHost] | None = None,
    open_work: OpenWork | None = None,
) -> FastAPI:
    """Make the application. ``source`` provides the models, None for those of ``explainers``; ``samples`` are the folders of the sample
    inputs, None for those that ship.

    The embedded models and ``settings.models`` load in the background once it runs, the one for photos first, and requested ones before the
    rest; /readyz tells when the first is loaded. They are in a separate process, which can be killed, in the :class:`ModelHost` that
    ``make_model_host`` (picklable) makes there; with a ``source`` and no ``make_model_host``, they are in a thread of this process. With
    ``open_work`` the models are elsewhere, such as on a cluster: it returns the store and the worker, given this process's registry of
    models.

    Raises ExplainerError if ``settings.device`` does not exist or ``settings.path_prefix`` is taken, and StoreError if ``settings.home`` or
    ``settings.database`` cannot be used.
    """
    if source is None and make_model_host is None:
        make_model_host = own_model_host
    source = ModelSource() if source is None else source
    visitor_secrets = VisitorSecrets(settings.home) if are_apart(settings) or settings.token else None
    access = Access(settings.token, visitor_secrets) if settings.token and visitor_secrets is not None else None
    metrics = Metrics()
    known_samples = read_samples(sample_folders() if samples is None else samples)
    if open_work is None:
        makers = host_makers(settings, source, make_model_host)
        open_store(settings).close()  # what is wrong with it is said before anything runs
        open_work = partial(_open_work_here, settings, source, metrics, makers)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        forbid_bombs()
        set_up_log(settings.log_level, settings.log_format)
        registry = _registry(settings, source)
        store, worker = open_work(registry)
        decoders = anyio.CapacityLimiter(_DECODER_THREADS)
        run_controller, collecting, sent_data = _runs_of(settings, registry, worker)
        shelf = Shelf([Path(folder).expanduser() for folder in settings.collections], partial(_made_here, collecting))
        searchable = SearchableCollections(registry, shelf, settings.max_run_inputs)
        slicing = RunController(searchable, worker, settings.home, lambda name: None, SLICING)
        own_models = OwnModels(settings.home, settings.max_model_bytes)
        app.state.services = Services(
            settings,
            registry,
            store,
            worker,
            metrics,
            known_samples,
            decoders,
            run_controller,
            own_models,
            sent_data,
            shelf,
            collecting,
            slicing,
        )
        worker.start()
        try:
            embedded = [entry for entry in registry.all() if entry.embedded]
            for entry in sorted(embedded, key=lambda entry: not entry.photos):  # that of the first page first
                registry.ask(entry.name, worker.load, trusted=True, is_early=True)
            for name in settings.models:
                registry.ask(name, worker.load, trusted=True, is_early=True, open_options=open_options_of(name, settings))
            if isinstance(worker, Worker):  # processes of a cluster look after each other
                await run_in_threadpool(resume_unfinished, store, registry, worker)
            await run_in_threadpool(sent_data.sweep)
            await run_in_threadpool(run_controller.measurable.catalogue.check)
            yield
        finally:
            await run_in_threadpool(worker.stop)
            store.close()
            own_models.close()

    # FastAPI's own documentation pages load scripts from elsewhere, which the content security policy forbids
    app = FastAPI(title="Vitrine", version=versions()["vitrine"], docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.metrics, app.state.access = metrics, access
    app.add_middleware(GZipMiddleware, minimum_size=_PACKED_FROM, compresslevel=_PACKING)  # pictures and streams of events it leaves
    app.add_middleware(ReadEncodings)
    app.add_middleware(Gate, settings=settings, visitor_secrets=visitor_secrets, access=access)
    app.add_middleware(Surroundings, metrics=metrics, settings=settings)
    add_handlers(app)
    for module in API:
        app.include_router(module.router)
    add_pages(app, settings)
    complete_openapi(app)
    _check_prefix(app, settings)
    return app


def _check_prefix(app: FastAPI, settings: Settings) -> None:
    """Raise ExplainerError if the path prefix in ``settings`` begins like one of the paths of ``app``, from which it could not be
    distinguished.
    """
    first = settings.path_prefix.split("/")[1:2]
    taken = {path.split("/")[1] for route in app.routes if (path := getattr(route, "path", ""))} - {""}
    if first and first[0] in taken:
        raise ExplainerError(f"path_prefix is {settings.path_prefix!r}, which is a path of the server's own; choose another, as /vitrine")


def _runs_of(
    settings: Settings, registry: ModelRegistry, worker: WorkerInterface
) -> tuple[RunController[Measurable], RunController[Measurable], SentData]:
    """Make the controllers of runs and of collections, with the models of ``registry``, and the store of data sets that visitors send for
    them; return all three. They are kept in the server's home, and the work goes through ``worker``.
    """
    sent_data = SentData(settings.home, settings)
    catalogue = DataCatalogue(settings.dataset_folders, sent_data.find)
    measurable = Measurable(registry, catalogue, settings.max_run_inputs)
    run_controller = RunController(measurable, worker, settings.home, sent_data.forget)
    collecting = RunController(measurable, worker, settings.home, lambda name: None, COLLECTING, sent_data.keep)  # runs may need it
    controllers = (run_controller, collecting)
    sent_data.states_on = lambda name: set[str]().union(*(controller.states_on(name) for controller in controllers))
    return run_controller, collecting, sent_data


def _made_here(collecting: RunController[Measurable], visitor: Visitor) -> list[tuple[str, Path, str]]:
    """List id, folder and title of the finished collections that ``visitor`` made."""
    return [(run.id, run.folder, run.title) for run in collecting.all(visitor) if run.state == "done"]


def host_maker(settings: Settings, source: ModelSource, make_model_host: Callable[[Settings], ModelHost] | None) -> MakeHost:
    """Return a function that makes a process of models with ``make_model_host``; if that is None, a thread with the models of
    ``source``.
    """
    if make_model_host is None:
        return lambda _: HostThread(ModelHost(source.load, settings, bytes_of=source.bytes_of))
    process = partial(make_model_host, settings)
    return lambda on_end: HostProcess(process, (settings.log_level, settings.log_format), on_end)


def host_makers(settings: Settings, source: ModelSource, make_model_host: Callable[[Settings], ModelHost] | None) -> list[MakeHost]:
    """Return a function like that of :func:`host_maker` for each process of models on this machine: one on each device of the settings, and
    on a CPU as many as ``settings.workers``. A thread of this process is one. Raises ExplainerError for a device that does not exist.
    """
    devices = [device_named(name) for name in settings.devices]
    devices = devices * settings.workers if devices[0].type == "cpu" else devices
    if make_model_host is None:
        devices = devices[:1]
    # by name, also for "auto": a process that is started again after its GPU was lost must not go on with the CPU unsaid
    each = [settings.model_copy(update={"device": str(device), "workers": len(devices)}) for device in devices]
    return [host_maker(of_one, source, make_model_host) for of_one in each]


def _open_work_here(
    settings: Settings,
    source: ModelSource,
    metrics: Metrics,
    make_hosts: Sequence[MakeHost],
    registry: ModelRegistry,
) -> tuple[Store, WorkerInterface]:
    """Open the store of ``settings`` and make the worker, with ``registry``, for the models of ``source``, with a process of models by each
    of ``make_hosts``; return both.
    """
    store = open_store(settings)
    return store, Worker(source, registry, store, settings, metrics, make_hosts)


def _registry(settings: Settings, source: ModelSource) -> ModelRegistry:
    """Make the registry of the models of ``source``, as ``settings`` allow; on a cluster it has only those of the catalogue and of the
    settings.
    """
    if settings.engine == "local":
        return ModelRegistry(source.catalogue, settings.allow_models or not is_reached_by_others(settings))
    return ModelRegistry(source.catalogue, False, f"{environment_name('models')} names those of a cluster")


def own_model_host(settings: Settings) -> ModelHost:
    """Return the host of the models of ``explainers``, by the ``settings``; it runs in a process of its own."""
    source = ModelSource()
    return ModelHost(source.load, settings, bytes_of=source.bytes_of)
