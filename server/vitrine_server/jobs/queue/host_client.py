"""The side of a runner that asks its model host: it loads models, follows requests, and tells what the host says of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from vitrine_server.http.problems import OUT_OF_MEMORY, Problem
from vitrine_server.jobs.catalogue.model_facts import ModelFacts, ResidentModel
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.failures import interrupted, load_problem
from vitrine_server.jobs.feed import Feed
from vitrine_server.jobs.host.interface import (
    DropRequest,
    Host,
    HostLostError,
    HostRequest,
    LoadRequest,
    LoadStage,
    Message,
    Reply,
    Residents,
    Result,
    Watch,
    follow,
)
from vitrine_server.jobs.queue.room import Room
from vitrine_server.jobs.queue.scheduler import Scheduler

log = logging.getLogger(__name__)
#: Seconds of silence after which a process is killed whose work is cancelled or over its time; passes are usually shorter.
GRACE = 5.0
_GRACE_AT_STOP = 1.0
_LONGEST_LOAD = 900.0  # seconds: a host sends no messages while it loads


class HostClient:
    """Asks ``host`` for work of ``scheduler``. The registry and the metrics are told which models the host holds, and how often its memory
    was too short.
    """

    def __init__(self, scheduler: Scheduler, host: Host, room: Room) -> None:
        """``room`` is that for models on the host's device."""
        self._scheduler, self._host, self._room = scheduler, host, room
        self._shortages: tuple[int | None, Mapping[str, int]] = (None, {})  # the process that last told of them, and how many by outcome
        self._told_to_wait: dict[str, Feed] = {}  # the feeds of the models whose followers know that they wait
        self._at_start = 0  # memory of the host in bytes once it had loaded its models

    def watch(
        self, limit_passed: Callable[[], Problem | None], is_unwanted: Callable[[], bool] = lambda: False, longest: float | None = None
    ) -> Watch:
        """Return the watch of a request: a function from the seconds for which the host has been silent to a Problem, if the host is to be
        killed for it, or to None.

        It returns a Problem after ``longest`` seconds (None: as the settings say), and after ``GRACE`` seconds if ``is_unwanted()`` is true
        or ``limit_passed()`` returns a Problem.
        """
        most = self._scheduler.settings.silence_seconds if longest is None else longest

        def watch(silence: float) -> Problem | None:
            if self._scheduler.stopping and silence > _GRACE_AT_STOP:
                return interrupted()
            if silence > GRACE:
                if is_unwanted():
                    return Problem(
                        409, "cancelled", "Nobody waited for this any more, and the model did not stop by itself.", send="Ask again."
                    )
                if (problem := limit_passed()) is not None:
                    return problem
            if silence > most:
                detail = f"The model gave no sign of life for {most:g} seconds, and was ended."
                return Problem(503, "worker-hung", detail, send="Ask for less, or choose another model or other methods.")
            return None

        return watch

    def load(self, entry: ModelEntry) -> None:
        """Load the model of ``entry`` into the host; one that nobody has asked for yet only where no other has to leave."""
        registry = self._scheduler.registry
        if entry.is_early and not self._room.has_spare_room(entry):
            log.info("%s is loaded when somebody asks for it: it does not fit next to the other models", entry.name)
            registry.put_off(entry)
            return
        self.bring(entry)
        if entry.facts is not None:
            log.info("loaded %s on %s", entry.name, entry.facts.device)

    def follow(self, request: HostRequest[Result], watch: Watch, handle: Callable[[Message], Reply] = lambda _: None) -> Result:
        """Send ``request`` to the host, reply to its messages with what ``handle(message)`` returns, and return the result. ``watch`` is
        called while the host is silent. The registry is told which models the host holds and which it dropped.
        """

        def handle_each(message: Message) -> Reply:
            if not isinstance(message, Residents):
                return handle(message)
            dropped = self._host.models.keys() - message.models.keys()
            self._count_moves(message.models)
            self._count_shortages(message)
            self._host.models, self._host.budget = message.models, message.budget
            self._scheduler.registry.note_residents(id(self._host), message.models, dropped, message.budget)
            return None

        return follow(self._host.ask(request, watch), handle_each)

    def tell_what_waits(self) -> None:
        """Tell those who follow the loading of a model that has no room yet what it waits for, once."""
        for entry in self._scheduler.loads_without_room(self._room.may_begin):
            if not self._room.is_elsewhere(entry) and self._told_to_wait.get(entry.name) is not entry.feed:
                self._told_to_wait[entry.name] = entry.feed
                text = f"{entry.name_to_show} waits for memory: it is loaded once work under way with other models has ended"
                self._scheduler.registry.tell(entry, "progress", {"text": text})

    def _count_moves(self, models: Mapping[str, ResidentModel]) -> None:
        """Count the models that came to the device, left it for host memory or were dropped, since the host last said what it holds."""
        before = self._host.models
        for name in before.keys() | models.keys():
            was, now = (each[name].place if name in each else "disk" for each in (before, models))
            if was != now:
                self._scheduler.metrics.model_moved(now, (models.get(name) or before[name]).device)

    def _count_shortages(self, message: Residents) -> None:
        """Count the times that memory was too short on the host's device since it last said how many there were, by outcome; a new process
        begins at 0.
        """
        (process, before), self._shortages = self._shortages, (self._host.pid, message.shortages)
        if message.budget is not None:
            known = before if process == self._host.pid else {}
            new = {outcome: count - known.get(outcome, 0) for outcome, count in message.shortages.items()}
            self._scheduler.metrics.memory_was_short(message.budget.device, new)

    def bring(self, entry: ModelEntry) -> Problem | None:
        """Have the host load the model of ``entry``, and drop those that the registry has dropped. Returns the Problem if that fails."""
        registry, watch = self._scheduler.registry, self.watch(lambda: None, longest=_LONGEST_LOAD)
        before = self._own_memory() if self._host.models else 0
        request = LoadRequest(entry.name, entry.place, entry.open_options)

        def handle(message: Message) -> None:
            if isinstance(message, LoadStage) and entry.state == "loading":  # else it is known, and only brought back into memory
                registry.tell(entry, "progress", {"text": f"{entry.name_to_show} is {message.stage}", "stage": message.stage})

        began = time.monotonic()
        try:
            try:
                facts = self.follow(request, watch, handle)
            except HostLostError as lost:
                if lost.problem.slug != "worker-ended":
                    raise
                facts = self.follow(request, watch, handle)  # whatever killed it may have had nothing to do with this model
            if entry.state != "loaded" or entry.facts is None or entry.facts.weights_digest != facts.weights_digest:
                registry.loaded(entry, facts)
            if released := frozenset(self._host.models.keys() - set(registry.in_memory)):
                self.follow(DropRequest(released), watch)
        except HostLostError as lost:
            return self._not_loaded(entry, lost.problem)
        except Exception as error:
            return self._not_loaded(entry, load_problem(entry.name, error))
        self._scheduler.metrics.model_loaded(facts.device, time.monotonic() - began)
        self._room.take_back(entry)
        self._at_start = (self._at_start if before else 0) + self._own_memory() - before
        return None

    def _not_loaded(self, entry: ModelEntry, problem: Problem) -> Problem:
        """Mark the model of ``entry`` as failed to load, unless another host holds it: then it is left to that one. Returns ``problem``."""
        if self._room.is_held_elsewhere(entry):
            log.warning("%s could not be loaded here and is left to the host that holds it: %s", entry.name, problem.detail)
            self._room.leave(entry, is_for_good=problem.slug != OUT_OF_MEMORY)
        else:
            self._scheduler.load_failed(entry, problem)
        return problem

    def restart_if_grown(self) -> None:
        """End the process of a host whose memory has grown by more than the settings allow since it loaded its models."""
        host = self._host
        if self._at_start and self._own_memory() - self._at_start > self._scheduler.settings.grown_mb * 1e6:
            log.info("the process of the models (%s) holds %d MB: it is restarted", host.pid, host.memory // 1_000_000)
            self._scheduler.metrics.worker_ended("memory")
            host.close()

    def _own_memory(self) -> int:
        """Return the resident memory of the host in bytes, without the weights that were moved there from a GPU."""
        return self._host.memory - sum(model.bytes for model in self._host.models.values() if model.place == "host")

    def loaded(self, entry: ModelEntry) -> ModelFacts:
        """Return the facts of the model of ``entry``, after loading it into the host if need be. Raises the Problem with which it failed to
        load.
        """
        facts = self._scheduler.registry.use(entry)
        self._host.look_after()
        if entry.name in self._host.models:
            return facts
        if (problem := self.bring(entry)) is not None:  # another host has loaded it, or one that has ended
            raise problem
        return self._scheduler.registry.use(entry)
