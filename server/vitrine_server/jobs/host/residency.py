"""Where the loaded models of a host are: on their device, in host memory, or gone. Those unused for longest make room for others."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from explainers.errors import MemoryShortageError, ran_out_of_memory
from explainers.models.memory import DeviceMemory, bytes_of_weights, indexed, measure_memory, release_memory, restart_peak
from explainers.models.passes import count_shortage
from explainers.pipeline.memory_steps import gigabytes
from vitrine_server.jobs.catalogue.model_facts import DeviceBudget, Place, ResidentModel
from vitrine_server.jobs.host.headroom import Headroom
from vitrine_server.settings import environment_name

log = logging.getLogger(__name__)
_CPU = torch.device("cpu")


@dataclass(eq=False)
class _Held:
    model: Any
    device: torch.device  # on which it computes
    bytes: int
    place: Place = "device"
    is_coming: bool = False  # it moves from host memory to its device, and counts on that; until it is there it takes both
    open_requests: int = 0  # while there are any, it stays where it is
    is_dropped: bool = False  # as soon as there are none


class Residency:
    """The loaded models of one host by name, in the order of their last use.

    A host may use its part of a device, as far as other processes leave it free. Of that the weights may take ``share`` at first, and later
    all but what the models on it need for their computations (:mod:`vitrine_server.jobs.host.headroom`). If they would take more, the
    models unused for longest are moved from a GPU to host memory, and from host memory they are dropped: they are loaded again from disk
    when they are needed. A model in use stays, and so does one of the ``pinned`` names. A single model may take more.
    """

    def __init__(
        self,
        share: float,
        memory: Callable[[torch.device], DeviceMemory | None] = measure_memory,
        pinned: Collection[str] = frozenset(),
        part: Callable[[torch.device], float] = lambda device: 1.0,
        restart_peak: Callable[[torch.device], None] = restart_peak,
    ) -> None:
        """``memory`` measures a device, or returns None where that is not known: then nothing has to leave it. ``part`` returns the share
        of a device that this host may use next to the other hosts on it.
        """
        self._share, self._memory, self._pinned, self._part = share, memory, frozenset(pinned), part
        self._held: dict[str, _Held] = {}
        self._replaced: list[_Held] = []  # in use still, while another model has the name
        self._headroom = Headroom(share, memory, restart_peak, self._taken)

    def budget(self, device: torch.device) -> DeviceBudget | None:
        """Return how the memory of a device is shared out now; None where it is not known."""
        return self._budget(indexed(device))

    def _budget(self, device: torch.device, newest: str = "") -> DeviceBudget | None:
        """Return how the memory of ``device`` is shared out, as if the model called ``newest``, if any, were on it too; None if the size of
        its memory is not known.
        """
        if (memory := self._memory(device)) is None:
            return None
        there = {name for name, held in self._held.items() if self._is_on(held, device)}
        available = max(0, min(int(self._part(device) * memory.total), memory.total - memory.others))
        headroom = self._headroom.bytes_for(there | {newest} if newest else there, device, available)
        peaks = {name: peak for name in there if (peak := self._headroom.peak(name, device)) is not None}
        start_room = round(self._share * available)
        return DeviceBudget(str(device), memory.total, memory.others, headroom, available - headroom, peaks, start_room, memory.cached)

    def make_room_for(self, name: str, wanted: int | None, device: torch.device) -> None:
        """Have models leave until one of ``wanted`` bytes (None: not known) fits on ``device``, and in host memory, through which it comes;
        an earlier one of that ``name`` is dropped.

        Raises MemoryShortageError, before any of them has left, if the device is too small for it, if those that stay there, in use or
        pinned, leave too little, or if host memory is too small for it to come through.
        """
        device = indexed(device)
        if wanted is not None:
            self._check_room(name, wanted, device)
            self._check_passage(name, wanted, device)
        self.drop({name})
        self._fit(device, name, wanted or 0)

    def loading(self, device: torch.device) -> AbstractContextManager[None]:
        """Return a context in which memory of ``device`` is not counted as that of the models in use, since another one is being loaded."""
        return self._headroom.paused(indexed(device))

    def add(self, name: str, model: Any) -> None:
        """Add a loaded model, in place of an earlier one of that name. Other models are moved to host memory, or dropped, until it has
        room.
        """
        self.drop({name})
        if name in self._held:
            self._replaced.append(self._held.pop(name))
        self._held[name] = _Held(model, indexed(model.device), bytes_of_weights(model.module))
        self._fit(indexed(model.device), name)

    @contextmanager
    def using(self, name: str) -> Iterator[Any]:
        """Return the model ``name`` inside this context, on its device, as the one used last. Others leave that device if there is less
        room than there was. Raises KeyError if it is not here, and MemoryShortageError if others in use leave it too little.
        """
        held = self._held[name] = self._held.pop(name)  # now the last
        held.open_requests += 1
        try:
            if held.place == "host":
                with self._headroom.paused(held.device):
                    self._bring(name, held)
            else:
                self._fit(held.device, name)
            with self._headroom.measuring(name, held.device):
                yield held.model
        finally:
            held.open_requests -= 1
            if held.is_dropped and self._held.get(name) is held:
                self.drop({name})
            if held in self._replaced and not held.open_requests:
                self._replaced.remove(held)
                release_memory()

    def drop(self, names: Iterable[str]) -> None:
        """Drop the models in ``names`` that are loaded here; one in use counts until its last request has ended."""
        unused = set[str]()
        for name in self._held.keys() & set(names):
            self._held[name].is_dropped = True
            if not self._held[name].open_requests:
                unused.add(name)
        for name in unused:
            del self._held[name]
        if unused:
            release_memory()

    def make_room(self, device: torch.device, needed: int | None = None) -> bool:
        """Have the models on ``device`` that are unused for longest leave it until ``needed`` bytes are free there, at least one (None: one
        model). Returns False if every model there is in use, and if ``needed`` bytes would not be free even without all that may leave:
        then none leaves.
        """
        place, has_left = indexed(device), False
        if needed is not None and needed > self._most_free(place):
            return False
        while (name := self._oldest(place)) is not None:
            self._leave(name)
            self._fit(_CPU, name)
            has_left = True
            if needed is None or needed <= self._free(place):
                break
        return has_left

    def resident(self) -> dict[str, ResidentModel]:
        """Return where each model is, by name."""
        return {name: ResidentModel(held.place, str(held.device), held.bytes) for name, held in self._held.items()}

    def _bring(self, name: str, held: _Held) -> None:
        """Move the model ``name``, which ``held`` describes, from host memory to its device; others are moved away until it fits. Raises
        torch's error if it does not fit even alone: then it is in host memory again, or gone where that has become full.
        """
        self._check_room(name, held.bytes, held.device)
        held.is_coming = True
        try:
            self._fit(held.device, name)
            self._move_to_device(name, held)
        finally:
            held.is_coming = False

    def _move_to_device(self, name: str, held: _Held) -> None:
        while True:
            try:
                held.model.module.to(held.device)
                held.place = "device"
                return
            except Exception as error:
                failed = error
            if ran_out_of_memory(failed):
                count_shortage(failed)
            if not _move_to_host(name, held):
                del self._held[name]
                raise failed
            if not (ran_out_of_memory(failed) and self.make_room(held.device)):
                raise failed

    def _fit(self, device: torch.device, newest: str = "", wanted: int = 0) -> None:
        """Move models off ``device``, and then drop models from host memory, until the weights on each, and ``wanted`` more bytes, take no
        more than their room. Where those only pass through host memory, what is kept free for computing may hold them. The model called
        ``newest``, those in use and pinned ones stay.
        """
        for full in (device, _CPU):
            while (budget := self._budget(full, newest)) is not None:
                passage = 0 if full == device else budget.headroom
                if self._taken(full) <= min(budget.room, budget.room + passage - wanted):
                    break
                if (name := self._oldest(full, newest)) is None:
                    break
                self._leave(name)

    def _check_room(self, name: str, wanted: int, device: torch.device) -> None:
        """Raise MemoryShortageError if a model of ``wanted`` bytes does not fit on ``device`` next to those that cannot leave it: not even
        into the share that weights have at first, where less is left by what was measured.
        """
        others = {other: held for other, held in self._held.items() if other != name and self._is_on(held, device)}
        stay = {other: held.bytes for other, held in others.items() if other in self._pinned or held.open_requests}
        budget, taken = self._budget(device), sum(stay.values())  # that which the queue goes by
        if budget is None or taken + wanted <= (room := max(budget.room, budget.start_room)):
            return
        # a process gets no more than its part of a GPU; of the machine the system may give it more
        if wanted > (budget.total - budget.others if device == _CPU else budget.room + budget.headroom):
            part = f", of which this process may take {gigabytes(budget.room + budget.headroom)}" if self._part(device) < 1 else ""
            held_by_others = f", of which other processes hold {gigabytes(budget.others)}" if budget.others and not part else part
            raise MemoryShortageError(
                f"{name} takes {gigabytes(wanted)}, and {device.type} has {gigabytes(budget.total)} in all{held_by_others}: choose a "
                f"smaller model, or load its weights in half precision ({environment_name('model_dtype')}=bfloat16)."
            )
        if stay:
            raise MemoryShortageError(
                f"{name} takes {gigabytes(wanted)}, and does not fit next to {', '.join(stay)}, in use or pinned, which take "
                f"{gigabytes(taken)} of the {gigabytes(room)} for models ({device.type}): ask again once they are done."
            )
        log.warning(
            "%s takes %s, more than the %s that are left for models on %s (%s, and what other processes hold): it is held alone, and "
            "little is left for what it computes",
            name,
            gigabytes(wanted),
            gigabytes(room),
            device,
            environment_name("model_memory"),
        )

    def _check_passage(self, name: str, wanted: int, device: torch.device) -> None:
        """Raise MemoryShortageError if a model of ``wanted`` bytes does not fit into host memory, through which it comes to ``device``: a
        system that is out of memory ends the process, with all its models, and raises no error.
        """
        if device == _CPU or (budget := self._budget(_CPU)) is None:
            return
        stay = sum(held.bytes for other, held in self._held.items() if self._is_on(held, _CPU) and not self._may_leave(other))
        if wanted > budget.total - budget.others - stay:
            raise MemoryShortageError(
                f"{name} takes {gigabytes(wanted)}, and comes to {device.type} by way of the machine's memory, which has "
                f"{gigabytes(budget.total)} in all, of which other processes hold {gigabytes(budget.others)}: free memory of the machine, "
                f"choose a smaller model, or load its weights in half precision ({environment_name('model_dtype')}=bfloat16)."
            )

    def _is_on(self, held: _Held, device: torch.device) -> bool:
        return (held.device if held.place == "device" or held.is_coming else _CPU) == device

    def _may_leave(self, name: str) -> bool:
        return name not in self._pinned and not self._held[name].open_requests

    def _taken(self, device: torch.device) -> int:
        return sum(held.bytes for held in (*self._held.values(), *self._replaced) if self._is_on(held, device))

    def _oldest(self, device: torch.device, newest: str = "") -> str | None:
        """Return the name of the model that is unused for longest on ``device``, apart from the one called ``newest``, those in use and
        pinned ones; None if there is none.
        """
        free = (name for name in self._held if name != newest and self._may_leave(name))
        return next((name for name in free if self._is_on(self._held[name], device)), None)

    def _free(self, device: torch.device) -> float:
        """Return the bytes of ``device`` that weights do not take, also those kept for what models compute; infinity where that is not
        known.
        """
        budget = self._budget(device)
        return math.inf if budget is None else budget.room + budget.headroom - self._taken(device)

    def _most_free(self, device: torch.device) -> float:
        """Return the bytes of ``device`` that would be free if every model left it that may; infinity where that is not known."""
        return self._free(device) + sum(
            held.bytes for name, held in self._held.items() if self._is_on(held, device) and self._may_leave(name)
        )

    def _make_host_room(self, wanted: int) -> bool:
        """Drop models from host memory, those unused for longest first, until ``wanted`` more bytes have room there, and return True;
        return False if they have none. A system that is out of memory ends the process, with all its models, and raises no error.

        A model that is on its way from host memory to its device is in both until it is there: for so long what is kept free for
        computing, which waits, may hold it, and no more.
        """
        if (budget := self._budget(_CPU)) is None:
            return True
        coming = sum(held.bytes for held in self._held.values() if held.is_coming)
        room = min(budget.room, budget.room + budget.headroom - coming)
        stay = sum(held.bytes for name, held in self._held.items() if self._is_on(held, _CPU) and not self._may_leave(name))
        if stay + wanted > room:
            return False
        while self._taken(_CPU) + wanted > room and (name := self._oldest(_CPU)) is not None:
            self._leave(name)
        return True

    def _leave(self, name: str) -> None:
        """Move the model ``name`` from its device to host memory, or drop it where that has no room, or is the memory of the device too, or
        where the model is there already.
        """
        held = self._held[name]
        with self._headroom.paused(held.device):
            held.model.clear_caches()  # which may hold tensors on the device
            if not (self._may_stay_in_host(held) and self._make_host_room(held.bytes) and _move_to_host(name, held)):
                del self._held[name]
            release_memory()

    def _may_stay_in_host(self, held: _Held) -> bool:
        """Return whether it frees memory of the device to move the model ``held`` to host memory."""
        memory = self._memory(held.device)
        return held.place == "device" and held.device != _CPU and not (memory is not None and memory.is_host)


def _move_to_host(name: str, held: _Held) -> bool:
    """Move the model ``held``, called ``name``, from its device to host memory and return True; return False if that is full, or the model
    refuses to be moved, so that it may be there in part only.
    """
    try:
        held.model.module.to(_CPU)
    except Exception as error:  # others ask for the room: what one model refuses, such as quantised weights, is no failure of theirs
        if ran_out_of_memory(error):
            count_shortage(error)
        else:
            log.warning("%s cannot be moved to host memory, so it is dropped: %s", name, error)
        return False
    held.place = "host"
    return True
