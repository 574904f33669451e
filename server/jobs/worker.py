"""What works for the web threads: the scheduler, and the runners that do what it has."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from server.http.metrics import Metrics
from server.jobs.costs import COSTS_FILE, Costs
from server.jobs.failures import load_problem
from server.jobs.host_process import HostProcess
from server.jobs.host_thread import HostThread
from server.jobs.model_registry import ModelEntry, ModelRegistry
from server.jobs.model_source import ModelSource
from server.jobs.runner import Runner
from server.jobs.scheduler import Scheduler
from server.settings import Settings
from server.store.store import Store

log = logging.getLogger(__name__)
_PATIENCE = 4.0  # seconds until a runner that does not stop is left alone

#: Makes the host of a runner from what is to be told why a process of models ended.
MakeHost = Callable[[Callable[[str], None]], HostProcess | HostThread]


class Worker(Scheduler):
    """Does what it is asked, with one runner for each host. Web threads call it; nothing else touches a model."""

    def __init__(
        self,
        source: ModelSource,
        registry: ModelRegistry,
        store: Store,
        settings: Settings,
        metrics: Metrics,
        make_host: MakeHost,
        hosts: int = 1,
    ) -> None:
        super().__init__(registry, store, settings, metrics, Costs(settings.home / COSTS_FILE))
        self._source = source
        names = ["worker", *(f"worker {number}" for number in range(2, hosts + 1))]
        self.runners = [Runner(self, make_host(metrics.worker_ended), name) for name in names]

    def start(self) -> None:
        """Begin to work."""
        for runner in self.runners:
            runner.start()

    @property
    def healthy(self) -> bool:
        """Whether work moves."""
        return all(runner.healthy for runner in self.runners)

    @property
    def memory(self) -> int:
        """Bytes that the processes of models hold."""
        return sum(runner.host.memory for runner in self.runners)

    def load(self, entry: ModelEntry) -> None:
        """Have a runner load ``entry``, once its files are fetched in a thread of their own; those inside, and those brought, are there."""
        if entry.embedded or entry.place is not None:
            self.load_soon(entry)
        else:
            threading.Thread(target=self._fetch, args=(entry,), name=f"fetch {entry.name}", daemon=True).start()

    def _fetch(self, entry: ModelEntry) -> None:
        def progress(text: str, fraction: float | None = None) -> None:
            self.registry.tell(entry, "progress", {"text": text} if fraction is None else {"text": text, "fraction": fraction})

        try:
            self._source.fetch(entry.name, progress)
        except Exception as error:
            self.load_failed(entry, load_problem(entry.name, error))
        else:
            self.load_soon(entry)

    def stop(self) -> None:
        """End after the current pass, or end the process that does not; what is unfinished is left to the next server."""
        with self.change:
            self.stopping = True
            self.change.notify_all()
        until = time.monotonic() + _PATIENCE
        for runner in self.runners:
            runner.join(max(0.0, until - time.monotonic()))
            if runner.is_alive():
                log.error("a model hangs in the server's own process, where nothing can end it: it ends with the server")
        self.costs.save()
        self.drain()
