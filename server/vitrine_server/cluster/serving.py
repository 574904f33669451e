"""``vitrine serve --engine ray``: the application as an ingress of Ray Serve, the models as a deployment with several replicas.

Nothing else of the server imports Ray.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any

from fastapi import FastAPI

from explainers.errors import ExplainerError
from explainers.ray_library import cluster_address, load_ray
from vitrine_server.app import create_app, host_maker, own_model_host
from vitrine_server.cluster.model_replica import ModelReplica
from vitrine_server.cluster.ray_gauges import RayGauges
from vitrine_server.cluster.ray_worker import RayWorker
from vitrine_server.cluster.replicas import MakeRequest, ReplicaRequest
from vitrine_server.http.hosts import are_apart
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import VisitorSecrets
from vitrine_server.jobs.catalogue.model_registry import ModelRegistry
from vitrine_server.jobs.catalogue.model_source import ModelSource
from vitrine_server.jobs.host.model_host import ModelHost
from vitrine_server.log import set_up_log
from vitrine_server.settings import Settings, environment_name
from vitrine_server.store.database import open_database
from vitrine_server.store.shared_store import SharedStore, open_shared_store

log = logging.getLogger(__name__)
APPLICATION, MODELS, WEB = "vitrine", "models", "web"
_AT_ONCE = 8  # calls that one replica has; more go to another one
_SENT_AT_ONCE = 6  # of these for explanations: a study never waits for the end of explanations
_ANY_NUMBER = -1  # of models, for Ray Serve
_REQUESTS_AT_ONCE = 1000  # of one process that answers: event streams stay open
_OBJECT_STORE = 256 * 2**20  # bytes, of a cluster that is begun for this server: little goes through it
_STOP_SECONDS = 20.0
_CONNECT_SECONDS = 10.0
_RAY_LOG = "/tmp/ray/session_latest/logs"  # nosec B108  # where Ray writes it
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RAISED = re.compile(r"[\w.]*(Error|Exception|Problem|Exit)\b.*: \S")
_RAY_PREFIX = re.compile(r"^[\w.]*(Error|Exception|Problem|Exit)(\([^)]*\))?: ")

MakeModelHost = Callable[[Settings], ModelHost]


def serve(settings: Settings, say: Callable[[str], None], make_model_host: MakeModelHost = own_model_host) -> None:
    """Serve on the Ray cluster of the settings until interrupted; ``say`` is called with the address. Raises ExplainerError if Ray is not
    installed or no cluster is found, and StoreError if the store cannot be used.

    ``make_model_host`` (picklable) makes the host of the models in each replica.
    """
    ray = _ray()
    settings = settings.model_copy(update={"own_models": "off"})
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if are_apart(settings) or settings.token:
        VisitorSecrets(settings.home)  # before several processes make the key at once
    open_database(settings, is_shared=True).close()  # what is wrong with it is said here
    ended = threading.Event()
    with _cluster(ray, settings):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        options = ray.serve.config.HTTPOptions(host=settings.host, port=settings.port, location="HeadOnly")
        advice = f"look into its log in {_RAY_LOG}, or choose another {environment_name('port')} if this one is taken"
        with in_one_sentence(f"Ray Serve did not start at {settings.host} port {settings.port}", advice):
            if cluster_address(settings.ray_address) == "local":  # Ray Serve would try again for a minute
                check_free(settings.host, settings.port)
            ray.serve.start(http_options=options)
        advice = f"put that right and start it again; Ray's log in {_RAY_LOG} has the details"
        try:
            with in_one_sentence("The processes of Vitrine did not start on the cluster", advice):
                run(ray, application(settings, make_model_host))
        except ExplainerError:
            with suppress(Exception):  # of a cluster that is gone already
                ray.serve.delete(APPLICATION)
            raise
        say(f"http://{settings.host}:{settings.port}")
        ended.wait()
        ray.serve.delete(APPLICATION)


def application(settings: Settings, make_model_host: MakeModelHost = own_model_host) -> Any:
    """Return the application that Ray Serve runs: the web processes with these ``settings``, connected to the replicas of the models, each
    with a host that ``make_model_host`` makes.
    """
    serve = _ray().serve

    class Models(ModelReplica):
        """A :class:`ModelReplica` to which Ray Serve sends the requests for the models that it has loaded."""

        def __init__(self) -> None:
            store = open_shared_store(settings, _process_name("models"))
            source = ModelSource()
            set_up_log(settings.log_level, settings.log_format)
            super().__init__(settings, store, source, host_maker(settings, source, make_model_host))
            self._gauges = RayGauges(serve.metrics.Gauge)

        @serve.multiplexed(max_num_models_per_replica=_ANY_NUMBER)  # type: ignore[untyped-decorator]
        async def model(self, name: str) -> str:
            """Load the model ``name`` for the first time and return its name, under which Ray Serve then finds this replica. Which models
            stay in memory is decided by their size, and not by Ray Serve.
            """
            await self.bring(name)
            return name

        async def ask_here(self, request: ReplicaRequest) -> AsyncIterator[tuple[str, Any]]:
            """Yield the answers to ``request`` about the model for which this replica was chosen, see :meth:`ModelReplica.ask`."""
            name = serve.get_multiplexed_model_id()
            try:
                await self.model(name)
            except Problem:
                if not isinstance(request, MakeRequest):  # the explanation has it, too
                    raise
            async with aclosing(self.ask(name, request)) as messages:  # type: ignore[type-var]
                async for message in messages:
                    yield message

        def check_health(self) -> None:
            """Tell Ray's metrics where memory is. Raises RuntimeError if work hangs: Ray Serve then starts another replica."""
            self._gauges.set(self.gauges())
            if not self.healthy:
                raise RuntimeError("work does not move")

        def __del__(self) -> None:
            with suppress(AttributeError):  # it was never begun
                self.stop()

    threads = settings.replica_threads
    models = serve.deployment(Models, name=MODELS).options(
        ray_actor_options={
            "num_cpus": threads,
            "num_gpus": settings.replica_gpus,
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(threads)}},
        },
        autoscaling_config={
            "min_replicas": settings.min_replicas,
            "initial_replicas": settings.min_replicas,
            "max_replicas": settings.max_replicas,
            "target_ongoing_requests": 2,
        },
        max_ongoing_requests=_AT_ONCE,
        health_check_period_s=5,
        graceful_shutdown_timeout_s=_STOP_SECONDS,
    )
    web = serve.deployment(serve.ingress(lambda: _web(settings))(), name=WEB).options(
        num_replicas=settings.web_replicas, max_ongoing_requests=_REQUESTS_AT_ONCE, ray_actor_options={"num_cpus": 0}
    )
    return web.bind(models.bind())


class _Handle:
    """An implementation of :class:`vitrine_server.cluster.replicas.Replicas` that sends requests through a handle of Ray Serve to a replica
    with the model.
    """

    def __init__(self, serve: Any) -> None:
        self._handle = serve.get_deployment_handle(MODELS, app_name=APPLICATION)

    async def ask(self, model: str, request: ReplicaRequest) -> AsyncIterator[tuple[str, Any]]:
        """Send ``request`` to a replica of ``model`` and yield its messages."""
        with self._problems():
            messages = self._handle.options(multiplexed_model_id=model, stream=True).ask_here.remote(request)
            try:
                async for message in messages:
                    yield message
            finally:
                messages.cancel()

    @contextmanager
    def _problems(self) -> Iterator[None]:
        """Convert errors of Ray inside this context that were caused by a replica's Problem to that Problem."""
        try:
            yield
        except Exception as error:
            if isinstance(cause := getattr(error, "cause", None), Problem):
                raise cause from None
            raise


def run(ray: Any, built: Any) -> None:
    """Have Ray Serve, by the module ``ray``, run the application ``built``. Raises RuntimeError with what the process that did not start
    had to say, as the error of Ray Serve itself only names it.
    """
    try:
        ray.serve.run(built, name=APPLICATION, route_prefix="/")
    except RuntimeError as error:
        messages = []
        with suppress(Exception):  # of a cluster that is gone already
            status = ray.serve.status().applications[APPLICATION]
            messages = [deployment.message for deployment in status.deployments.values() if deployment.message]
        raise RuntimeError("\n".join([str(error), *messages])) from error


def check_reachable(address: str) -> None:
    """Raise OSError if nothing answers at an address of the form host:port: ``ray.init`` would try again for many minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()


def check_free(host: str, port: int) -> None:
    """Raise OSError if this machine cannot listen at the address ``host:port``."""
    socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()


@contextmanager
def in_one_sentence(what: str, advice: str) -> Iterator[None]:
    """Turn any error inside this context into an ExplainerError of one sentence: ``what`` failed, why, and the ``advice``."""
    try:
        yield
    except Exception as error:
        raise ExplainerError(f"{what} ({reason_of(error)}): {advice}.") from error


def reason_of(error: Exception) -> str:
    """Return the line of an error of Ray that states its cause, without colours: the last exception of the traceback in its message, else
    the first line.
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.partition(" (while")[0]  # which socket.create_server adds
    if isinstance(getattr(error, "cause", None), Exception):  # of a call in another process
        return reason_of(error.cause)  # type: ignore[attr-defined]
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    line = (raised or lines or [type(error).__name__])[-1 if raised else 0]
    return _RAY_PREFIX.sub("", line).rstrip(".:")


def _web(settings: Settings) -> FastAPI:
    """Return the application of a web process, which answers requests, from the ``settings``."""
    serve = _ray().serve

    def open_work(registry: ModelRegistry) -> tuple[SharedStore, RayWorker]:
        store = open_shared_store(settings, _process_name("web"))
        most_sent = max(1, _SENT_AT_ONCE * settings.max_replicas // settings.web_replicas)
        return store, RayWorker(_Handle(serve), registry, store, settings, most_sent)

    return create_app(settings, open_work=open_work)


def _process_name(kind: str) -> str:
    """Return a unique name for this process, beginning with ``kind``, under which it claims explanations and by which
    an operator finds it.
    """
    return f"{kind} {os.getpid()} {socket.gethostname()} {uuid.uuid4().hex[:8]}"


def _ray() -> Any:
    return load_ray(
        "ray.serve",
        "ray.serve.config",
        "ray.serve.exceptions",
        "ray.serve.metrics",
        need="The engine ray needs Ray Serve",
        extras="ray,postgresql",
    )


@contextmanager
def _cluster(ray: Any, settings: Settings) -> Iterator[None]:
    """Connect by the module ``ray`` to the cluster of ``settings``, or to a new one on this machine, inside this context."""
    address = cluster_address(settings.ray_address)
    options = {"include_dashboard": False, "object_store_memory": _OBJECT_STORE} if address == "local" else {}
    advice = f"start one with `ray start --head`, or set {environment_name('ray_address')} to the address of one that runs"
    if address == "local":
        advice = f"look into Ray's log in {_RAY_LOG}, or use a cluster that runs, by {environment_name('ray_address')}"
    with in_one_sentence(f"No cluster of Ray can be used at {address}", advice):
        check_reachable(address)
        ray.init(address=address, logging_level="warning", log_to_driver=False, **options)  # tracebacks of its processes are in its log
    try:
        yield
    finally:
        with suppress(Exception):  # of a cluster that is gone already
            if not ray.serve.status().applications:  # another one's
                ray.serve.shutdown()
        ray.shutdown()
