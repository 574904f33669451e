"""Find what is stored of an explanation, finished or on its way; what is not there is a Problem 404 that says what is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.problems import Problem
from server.services import Services


def find_document(one: str, services: Services) -> dict[str, Any]:
    """The explanation ``one`` as it stands."""
    job = services.worker.find(one)
    document = job.document() if job is not None else services.store.document(one)
    if document is None:
        send = "POST /api/explanations makes one; the oldest ones are forgotten in time."
        raise Problem(404, "no-such-explanation", f"There is no explanation {one!r}.", send=send)
    return document


def stored_file(one: str, name: str, services: Services) -> bytes | None:
    """A file that is kept beside the explanation (``input.png``, ``original.jpg``, the tensors), or None."""
    job = services.worker.find(one)
    return (job.images.get(name) if job is not None else None) or services.store.file(one, name)


def find_map(one: str, spec: str, target: str | None, services: Services) -> tuple[dict[str, Any], dict[str, Any]]:
    """The explanation and its map of the method ``spec`` for the label ``target``, the first one by default."""
    document = find_document(one, services)
    if target is not None:
        find_target(document, target)
    for found in document["maps"]:
        if found["method"] == spec and (target is None or found["target"] == target):
            return document, found
    specs = dict.fromkeys(found["method"] for found in document["maps"])
    raise Problem(404, "no-such-map", f"The explanation has no map {spec!r}.", send=f"It has: {', '.join(specs) or 'none yet'}.")


def find_target(document: Mapping[str, Any], label: str | None) -> dict[str, Any]:
    """What the explanation says of the target called ``label``, the first one by default."""
    targets = list(document.get("targets", ()))
    found = next((one for one in targets if label in (None, one["label"])), None)
    if found is None:
        explained = ", ".join(one["label"] for one in targets) or "nothing"
        raise Problem(404, "no-such-target", f"{label!r} was not explained.", send=f"Explained: {explained}.")
    return dict(found)
