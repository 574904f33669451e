"""The worker of one machine: a scheduler with a runner for each model host."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from vitrine_server.http.metrics import Metrics
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry
from vitrine_server.jobs.catalogue.model_source import ModelSource, dtype_of
from vitrine_server.jobs.failures import load_problem
from vitrine_server.jobs.host.interface import Host
from vitrine_server.jobs.queue.costs import COSTS_FILE, Costs
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.runner import Runner
from vitrine_server.jobs.queue.scheduler import Scheduler
from vitrine_server.settings import Settings
from vitrine_server.store.store import Store

log = logging.getLogger(__name__)
_PATIENCE = 4.0  # seconds until a runner that does not stop is left alone

#: Makes the host of a runner; its argument is called with the slug of the problem when a process of models ends.
MakeHost = Callable[[Callable[[str], None]], Host]


class Worker(Scheduler):
    """A scheduler whose items are run by one thread for each host. Web threads call it, and never touch a model."""

    def __init__(
        self,
        source: ModelSource,
        registry: ModelRegistry,
        store: Store,
        settings: Settings,
        metrics: Metrics,
        make_hosts: Sequence[MakeHost],
        claim: Callable[[Job], bool] = lambda _: True,
    ) -> None:
        super().__init__(registry, store, settings, metrics, Costs(settings.home / COSTS_FILE), claim)
        self._source = source
        self.hosts = [make_host(metrics.worker_ended) for make_host in make_hosts]
        self.runners = [Runner(self, host, f"worker {number}" if number > 1 else "worker") for number, host in enumerate(self.hosts, 1)]

    def start(self) -> None:
        """Start the runners, and look which models of the hub are on the disk."""
        for runner in self.runners:
            runner.start()
        threading.Thread(target=self._find_downloads, name="find downloads", daemon=True).start()

    @property
    def healthy(self) -> bool:
        """Return True if every runner, a thread that runs models, is alive, and its host has a device, and either sent a sign of life
        lately or can be ended.
        """
        return all(runner.healthy for runner in self.runners)

    @property
    def memory(self) -> int:
        """Return the resident memory of the processes of models, in bytes."""
        return sum(runner.host.memory for runner in self.runners)

    def load(self, entry: ModelEntry) -> None:
        """Queue the loading of ``entry``. The files of a hub model are fetched first, in a thread of their own."""
        if entry.embedded or entry.place is not None:
            self._load_from_disk(entry)
        else:
            threading.Thread(target=self._fetch, args=(entry,), name=f"fetch {entry.name}", daemon=True).start()

    def _find_downloads(self) -> None:
        for entry in self.registry.all():
            if entry.origin == "hub":
                entry.downloaded = entry.downloaded or self._source.is_downloaded(entry.name)

    def _fetch(self, entry: ModelEntry) -> None:
        def progress(text: str, fraction: float | None = None) -> None:
            self.registry.tell(entry, "progress", {"text": text} if fraction is None else {"text": text, "fraction": fraction})

        try:
            self._source.fetch(entry.name, progress)
        except Exception as error:
            self.load_failed(entry, load_problem(entry.name, error))
        else:
            entry.downloaded = True
            self._load_from_disk(entry)

    def _load_from_disk(self, entry: ModelEntry) -> None:
        """Queue the loading of the model of ``entry``, whose files are on the disk, and note the bytes that it will take."""
        entry.bytes = entry.bytes or self._source.bytes_of(entry.place or entry.name, dtype_of(entry.name, self.settings))
        self.load_soon(entry)

    def stop(self) -> None:
        """Stop after the current pass, or kill a process that does not stop; unfinished explanations wait for the next start."""
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
