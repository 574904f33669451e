"""Where the loaded models of a host are: on their device, in host memory, or gone. Those unused for longest make room for others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from explainers.errors import MemoryShortageError, ran_out_of_memory
from explainers.models.memory import bytes_of_weights, release_memory, total_memory
from explainers.pipeline.memory_steps import gigabytes
from vitrine_server.jobs.catalogue.model_facts import Place, ResidentModel
from vitrine_server.settings import environment_name

log = logging.getLogger(__name__)
_CPU = torch.device("cpu")


@dataclass
class _Held:
    model: Any
    device: torch.device  # on which it computes
    bytes: int
    place: Place = "device"
    open_requests: int = 0  # while there are any, it stays where it is


class Residency:
    """The loaded models of one host by name, in the order of their last use.

    Their weights may take ``share`` of the memory of a device; the rest is for what the models compute. If they would take more, the models
    unused for longest are moved from a GPU to host memory, and from host memory they are dropped: they are loaded again from disk when they
    are needed. A model in use stays, and so does one of the ``pinned`` names. A single model may take more than the share.
    """

    def __init__(
        self, share: float, total: Callable[[torch.device], int | None] = total_memory, pinned: Collection[str] = frozenset()
    ) -> None:
        """``share`` is the share of a device's memory that models may take, and ``pinned`` the names of models that never leave it.
        ``total`` returns the bytes of memory of a device, or None where they are not known: then nothing has to leave it.
        """
        self._share, self._total, self._pinned = share, total, frozenset(pinned)
        self._held: dict[str, _Held] = {}

    def room(self, device: torch.device) -> int | None:
        """Return the bytes that the weights of all models may take on a device; None where its memory is not known."""
        total = self._total(device)
        return None if total is None else int(self._share * total)

    def make_room_for(self, name: str, wanted: int, device: torch.device) -> None:
        """Have models leave until one of ``wanted`` bytes fits on ``device``, and in host memory, through which it comes; an earlier one of
        that ``name`` is dropped.

        Raises MemoryShortageError if the device is too small for it, or if those that stay there, in use or pinned, leave too little.
        """
        self._check_room(name, wanted, device)
        self.drop({name})
        self._fit(device, wanted=wanted)

    def add(self, name: str, model: Any) -> None:
        """Add a loaded model, in place of an earlier one of that name. Other models are moved to host memory, or dropped, until it has
        room.
        """
        self.drop({name})
        self._held[name] = _Held(model, model.device, bytes_of_weights(model.module))
        self._fit(model.device, name)

    @contextmanager
    def using(self, name: str) -> Iterator[Any]:
        """Return the model ``name`` inside this context, on its device, as the one used last. Raises KeyError if it is not here, and
        MemoryShortageError if others in use leave it too little.
        """
        held = self._held[name] = self._held.pop(name)  # now the last
        held.open_requests += 1
        try:
            if held.place == "host":
                self._bring(name, held)
            yield held.model
        finally:
            held.open_requests -= 1

    def drop(self, names: Iterable[str]) -> None:
        """Drop the models in ``names`` that are loaded here."""
        if gone := self._held.keys() & set(names):
            for name in gone:
                del self._held[name]
            release_memory()

    def make_room(self, device: torch.device | None = None) -> bool:
        """Have the model on ``device`` that is unused for longest leave it (None: any, those in host memory last). Returns False if every
        model there is in use.
        """
        name = self._oldest(device)
        if name is None:
            return False
        self._leave(name)
        self._fit(_CPU, name)
        return True

    def resident(self) -> dict[str, ResidentModel]:
        """Return where each model is, by name."""
        return {name: ResidentModel(held.place, str(held.device), held.bytes) for name, held in self._held.items()}

    def _bring(self, name: str, held: _Held) -> None:
        """Move the model ``name``, which ``held`` describes, from host memory to its device; others are moved away until it fits. Raises
        torch's error if it does not fit even alone.
        """
        self._check_room(name, held.bytes, held.device)
        held.place = "device"
        self._fit(held.device, name)
        while True:
            try:
                held.model.module.to(held.device)
                return
            except Exception as error:
                held.model.module.to(_CPU)
                if not (ran_out_of_memory(error) and self.make_room(held.device)):
                    held.place = "host"
                    raise

    def _fit(self, device: torch.device, newest: str = "", wanted: int = 0) -> None:
        """Move models off ``device``, and then drop models from host memory, until the weights on each, and ``wanted`` more bytes, take no
        more than their share of it. The model called ``newest``, those in use and pinned ones stay.
        """
        for full in (device, _CPU):
            room = self.room(full)
            while room is not None and self._taken(full) + wanted > room and (name := self._oldest(full, newest)) is not None:
                self._leave(name)

    def _check_room(self, name: str, wanted: int, device: torch.device) -> None:
        """Raise MemoryShortageError if the model ``name`` of ``wanted`` bytes does not fit on ``device`` next to those that cannot leave
        it.
        """
        others = {other: held for other, held in self._held.items() if other != name and self._is_on(held, device)}
        stay = {other: held.bytes for other, held in others.items() if other in self._pinned or held.open_requests}
        total, room, taken = self._total(device), self.room(device), sum(stay.values())
        if total is None or room is None or taken + wanted <= room:
            return
        if wanted > total:
            raise MemoryShortageError(
                f"{name} takes {gigabytes(wanted)}, and {device.type} has {gigabytes(total)} in all: choose a smaller model, or load its "
                f"weights in half precision ({environment_name('model_dtype')}=bfloat16)."
            )
        if stay:
            raise MemoryShortageError(
                f"{name} takes {gigabytes(wanted)}, and does not fit next to {', '.join(stay)}, in use or pinned, which take "
                f"{gigabytes(taken)} of the {gigabytes(room)} for models ({device.type}): ask again once they are done."
            )
        log.warning(
            "%s takes %s, more than the %s that %s allows for models on %s: it is held alone, and little is left for what it computes",
            name,
            gigabytes(wanted),
            gigabytes(room),
            environment_name("model_memory"),
            device.type,
        )

    def _is_on(self, held: _Held, device: torch.device) -> bool:
        return (held.device if held.place == "device" else _CPU) == device

    def _taken(self, device: torch.device) -> int:
        return sum(held.bytes for held in self._held.values() if self._is_on(held, device))

    def _oldest(self, device: torch.device | None, newest: str = "") -> str | None:
        """Return the name of the model that is unused for longest on ``device``, apart from the one called ``newest``, those in use and
        pinned ones; None if there is none. With ``device`` None models on every device count, those in host memory last.
        """
        free = [name for name, held in self._held.items() if name not in (newest, *self._pinned) and not held.open_requests]
        if device is None:
            return min(free, key=lambda name: self._held[name].place == "host", default=None)
        return next((name for name in free if self._is_on(self._held[name], device)), None)

    def _leave(self, name: str) -> None:
        held = self._held[name]
        held.model.cache.clear()  # it may hold tensors on the device
        if held.place == "host" or held.device == _CPU or not _move_to_host(held):
            del self._held[name]
        release_memory()


def _move_to_host(held: _Held) -> bool:
    """Move the model ``held`` from its device to host memory and return True; return False if that is full, so that the model may be there
    in part only.
    """
    try:
        held.model.module.to(_CPU)
    except Exception as error:
        if not ran_out_of_memory(error):
            raise
        return False
    held.place = "host"
    return True
