"""Which models have room on the device of a host: what may begin there, what waits, and what another host is better for."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Sequence

from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.host.interface import Host
from vitrine_server.jobs.queue.scheduler import Scheduler

_LEFT_SECONDS = 60.0  # after which a host tries again to load a model for which its memory was too short


class Room:
    """The room for models on the device of ``host``, which runs work of ``scheduler``, now that of the models ``under_way``. A pinned model
    stays on the device, and so does one whose work has begun; the others leave for what is loaded.
    """

    def __init__(self, scheduler: Scheduler, host: Host, under_way: Sequence[ModelEntry]) -> None:
        self._scheduler, self._host, self._under_way = scheduler, host, under_way
        self._left: dict[str, float] = {}  # models that this host could not load and another holds: until when it leaves them to that one

    def may_begin(self, entry: ModelEntry, begun: Collection[ModelEntry]) -> bool:
        """Return whether work on the model of ``entry`` may begin: the model fits next to those under way, to those of ``begun`` work that
        are on the device and to the pinned ones; or it never will, so that it is refused in words and does not wait for their end.

        False for a model that the device cannot hold while a larger one has room for it, and for one that could not be loaded and that
        another host holds.
        """
        if self.is_elsewhere(entry):
            return False
        busy, pinned, budget = self._there(begun), self._pinned(), self._host.budget
        busy |= {each.name: each.bytes or 0 for each in self._under_way}
        if not busy or entry.name in busy or budget is None:
            return True
        size = entry.bytes or 0
        beside_pinned = size + sum(bytes_ for name, bytes_ in pinned.items() if name != entry.name)
        never_fits = size > budget.total - budget.others or size < beside_pinned > max(budget.room, budget.start_room)
        return never_fits or sum((busy | pinned | {entry.name: size}).values()) <= budget.room

    def has_spare_room(self, entry: ModelEntry) -> bool:
        """Return whether the model of ``entry`` fits next to all that are on the device, so that none has to leave for it."""
        if self.is_elsewhere(entry):
            return False
        there, budget = self._there(self._scheduler.registry.all()), self._host.budget
        there |= {each.name: each.bytes or 0 for each in self._under_way}
        if not there or entry.name in there or budget is None:
            return True
        return sum(there.values()) + (entry.bytes or 0) <= budget.room

    def leave(self, entry: ModelEntry, is_for_good: bool) -> None:
        """Leave the model of ``entry``, which could not be loaded, to the host that holds it: for a while, or ``is_for_good``."""
        self._left[entry.name] = math.inf if is_for_good else time.monotonic() + _LEFT_SECONDS

    def take_back(self, entry: ModelEntry) -> None:
        """Note that the model of ``entry`` is loaded: it is left to no other host any more."""
        self._left.pop(entry.name, None)

    def is_held_elsewhere(self, entry: ModelEntry) -> bool:
        """Return whether another host of the scheduler holds the model of ``entry``."""
        return entry.state == "loaded" and any(entry.name in host.models for host in self._scheduler.hosts if host is not self._host)

    def is_left(self, entry: ModelEntry) -> bool:
        """Return whether the model of ``entry`` is left to another host that holds it, since this one could not load it."""
        return time.monotonic() < self._left.get(entry.name, -math.inf) and self.is_held_elsewhere(entry)

    def _there(self, entries: Iterable[ModelEntry]) -> dict[str, int]:
        """Return the bytes of those models of ``entries`` that are on the device, by name."""
        models = self._host.models
        return {each.name: each.bytes or 0 for each in entries if each.name in models and models[each.name].place == "device"}

    def _pinned(self) -> dict[str, int]:
        """Return the bytes of the pinned models that are on the device, by name."""
        pinned = self._scheduler.settings.pinned_models
        return self._there(entry for entry in self._scheduler.registry.all() if entry.name in pinned) if pinned else {}

    def is_elsewhere(self, entry: ModelEntry) -> bool:
        """Return whether the model of ``entry`` is for another host, which has more memory or holds it already."""
        return self._is_for_another_host(entry) or self.is_left(entry)

    def _is_for_another_host(self, entry: ModelEntry) -> bool:
        """Return whether the device cannot hold the model of ``entry``, for what other processes hold of it, and that of another host has
        more memory.
        """
        budget = self._host.budget
        if budget is None or entry.bytes is None or entry.name in self._host.models:
            return False
        here = budget.total - budget.others
        return entry.bytes > here and any(other.total - other.others > here for other in self._scheduler.registry.budgets)
