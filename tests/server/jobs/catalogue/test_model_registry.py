"""The registry knows which host holds which model, and releases a model once no host holds it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vitrine_server.jobs.catalogue.model_facts import ResidentModel
from vitrine_server.jobs.catalogue.model_registry import ModelEntry, ModelRegistry

HELD = ResidentModel("device", "cpu", 400)


def registry_of(*names: str) -> ModelRegistry:
    """Return a registry of models that are loaded."""
    listed = [
        SimpleNamespace(name=name, kind="image", title=name, description="", embedded=True, photos=False, recommended=False,
                        megabytes=None, revision=None, good_for="")
        for name in names
    ]  # fmt: skip
    registry = ModelRegistry(listed)
    for entry in registry.all():
        facts: Any = SimpleNamespace(kind="image", details={}, device="cpu", weights_digest="", calibration=None)
        entry.facts, entry.state = facts, "loaded"
    return registry


def states(registry: ModelRegistry) -> dict[str, str]:
    return {entry.name: entry.state for entry in registry.all()}


def test_a_model_is_released_once_no_host_holds_it() -> None:
    registry = registry_of("a", "b")
    for host in (1, 2):
        registry.note_residents(host, {"a": HELD, "b": HELD}, set())
    registry.note_residents(1, {"b": HELD}, {"a"})
    assert states(registry) == {"a": "loaded", "b": "loaded"}
    registry.note_residents(2, {"b": HELD}, {"a"})
    assert states(registry) == {"a": "available", "b": "loaded"}
    assert registry.find("a").resident is None


def test_where_a_model_is_follows_its_host() -> None:
    registry = registry_of("a")
    registry.note_residents(1, {"a": HELD}, set())
    moved = ResidentModel("host", "cuda:0", 400)
    registry.note_residents(1, {"a": moved}, set())
    assert registry.find("a").resident == moved


def test_models_that_are_lost_with_their_process_stay_loaded() -> None:
    """So that the next process loads them again."""
    registry = registry_of("a", "b")
    registry.note_residents(1, {"a": HELD, "b": HELD}, set())
    registry.note_residents(1, {"b": HELD}, set())  # a new process has loaded the first of them
    assert states(registry) == {"a": "loaded", "b": "loaded"}


@pytest.mark.parametrize(
    ("digest", "name", "expected"),
    [
        ("1", "model", "/srv/model"),
        ("1", "other", "/srv/model"),  # its weights say which it is
        ("2", "c", "c"),  # of two with these weights the one of that name
        ("2", "other", "b"),
        ("1", "late", "/srv/model"),
        ("9", "late", "/srv/late"),  # which was not loaded yet
        ("9", "b", None),  # which has other weights
        (None, "b", "b"),  # of a collection that does not say which weights
        (None, "/srv/late", "/srv/late"),
        (None, "broken", None),
    ],
)
def test_the_model_of_a_collection_is_found_by_its_weights(digest: str | None, name: str, expected: str | None) -> None:
    registry = registry_of("/srv/model", "b", "c", "/srv/late", "broken")
    for entry, weights in zip(registry.all(), ("1", "2", "2", None, None), strict=True):
        entry.digest = weights
    registry.find("broken").state = "failed"
    found = registry.find_weights(digest, name)
    assert (None if found is None else found.name) == expected


def test_messages_name_a_folder_of_this_machine_by_its_own_name() -> None:
    names = ["/home/somebody/runs/best", "own/best", "hf/google/vit"]
    shown = [ModelEntry(name, "image", "", "", False).name_to_show for name in names]
    assert shown == ["best", "own/best", "hf/google/vit"]
