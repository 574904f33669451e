"""What may begin on a device, and what waits: next to models at work, next to pinned ones, and next to other hosts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vitrine_server.jobs.catalogue.model_facts import DeviceBudget, ResidentModel
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry
from vitrine_server.jobs.queue.room import Room


class Device:
    """A GPU of 1,000 bytes with room for 800, and models of 300: "pinned" and "idle" are there, and "asked" is not."""

    def __init__(self, *pinned: str, there: tuple[str, ...] = ("pinned", "busy", "idle"), room: int = 800, start_room: int = 800) -> None:
        self.registry = ModelRegistry([])
        self.entries = {name: self.entry(name) for name in ("pinned", "busy", "idle", "asked")}
        self.registry._entries.update(self.entries)
        models = {name: ResidentModel("device", "cuda:0", 300) for name in there}
        budget = DeviceBudget("cuda:0", 1000, 0, 1000 - room, room, start_room=start_room)
        settings = SimpleNamespace(pinned_models=pinned)
        scheduler: Any = SimpleNamespace(registry=self.registry, settings=settings, hosts=())
        host: Any = SimpleNamespace(models=models, budget=budget)
        self.under_way: list[ModelEntry] = []
        self.room = Room(scheduler, host, self.under_way)

    def entry(self, name: str) -> ModelEntry:
        entry = ModelEntry(name, None, name, "", embedded=False)
        entry.bytes = 300
        return entry

    def may_begin(self, *begun: str, under_way: tuple[str, ...] = (), size: int = 300) -> bool:
        self.under_way[:] = [self.entries[name] for name in under_way]
        self.entries["asked"].bytes = size
        return self.room.may_begin(self.entries["asked"], [self.entries[name] for name in begun])


def test_next_to_models_at_work_it_waits_until_there_is_room() -> None:
    assert Device().may_begin()  # idle ones leave
    assert Device().may_begin("busy")
    assert not Device().may_begin("busy", "idle")
    assert Device(there=("busy",)).may_begin("busy", "idle")  # the other one is not on the device
    assert not Device(there=("busy",)).may_begin("busy", under_way=("idle",))  # it is on its way there


def test_a_pinned_model_takes_room_as_one_at_work_does() -> None:
    assert not Device("pinned").may_begin("busy")
    assert not Device("pinned").may_begin(under_way=("busy",))
    assert Device("pinned").may_begin()  # next to the pinned one alone it fits
    assert Device("pinned", there=("busy",)).may_begin("busy")  # which is not there yet
    assert Device("pinned").may_begin("pinned")  # it counts once


def test_what_never_fits_begins_and_is_refused_in_words() -> None:
    """It would wait for ever, or for work whose end does not help."""
    assert Device("pinned").may_begin("busy", size=501)
    assert not Device("pinned").may_begin("busy", size=500)
    assert Device("pinned", "idle").may_begin("busy")
    assert Device().may_begin("busy", size=1001)  # larger than the device
    assert not Device().may_begin("busy", size=1000)  # held alone


def test_next_to_pinned_models_the_share_of_the_start_counts_where_less_is_left_by_what_was_measured() -> None:
    """By it a load next to them is judged too."""
    assert not Device("pinned", room=500).may_begin("busy")  # alone next to the pinned one it is loaded
    assert Device("pinned", room=500, start_room=500).may_begin("busy")
    assert Device("pinned", room=500).may_begin()


def test_nothing_leaves_for_what_nobody_has_asked_for() -> None:
    def has_room(device: Device) -> bool:
        return device.room.has_spare_room(device.entries["asked"])

    assert not has_room(Device())
    assert has_room(Device(there=("idle",)))
    assert not has_room(Device("pinned", "idle", there=("pinned", "idle")))  # though it is refused if it is asked for


@pytest.mark.parametrize(
    ("size", "is_here", "others", "expected"),
    [
        (300, False, [900], False),  # another GPU has room for it
        (200, False, [900], True),
        (300, False, [200], True),  # no GPU has: this one says so
        (300, True, [900], True),
        (None, False, [900], True),
    ],
)
def test_a_model_that_one_gpu_cannot_hold_is_left_to_a_larger_one(
    size: int | None, is_here: bool, others: list[int], expected: bool
) -> None:
    """Other processes hold most of this one: whichever takes the question first would fail it."""
    registry, entry = ModelRegistry([]), ModelEntry("a", None, "a", "", embedded=False)
    entry.bytes = size
    budget = DeviceBudget("cuda:0", total=1000, others=750, headroom=50, room=200)
    models = {"a": ResidentModel("device", "cuda:0", 300)} if is_here else {}
    scheduler: Any = SimpleNamespace(registry=registry, settings=SimpleNamespace(pinned_models=()), hosts=())
    host: Any = SimpleNamespace(budget=budget, models=models)
    for number, free in enumerate([250, *others]):
        registry.note_residents(number, {}, set(), DeviceBudget(f"cuda:{number}", 1000, 1000 - free, 0, free))
    assert Room(scheduler, host, []).may_begin(entry, []) is expected
