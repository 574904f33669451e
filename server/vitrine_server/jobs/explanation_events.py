"""The events of an explanation, made from its document: the same while it is computed and when it is read from the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vitrine_server.jobs.feed import Event, event
from vitrine_server.schemas.explanations import Answer
from vitrine_server.store.tables import FINAL


def started_event(document: Mapping[str, Any], costs: Mapping[str, float] | None = None) -> Event:
    """Make the event ``started`` of an explanation from ``document``, its JSON: the model's answer, the specs of the maps to come and, with
    ``costs``, the estimated seconds of each.
    """
    known = {name: document[name] for name in Answer.model_fields if name in document}
    seconds = {} if costs is None else {"costs": {spec: round(cost, 3) for spec, cost in costs.items()}}
    left = {"left": document["left"]} if "left" in document else {}
    return event(1, "started", {**known, "expected": document["methods"], **seconds, **left})


def map_event(entry: Mapping[str, Any], index: int) -> Event:
    """Make the event of one finished map (``entry``), the ``index``-th of the explanation."""
    return event(2 + index, "method", entry)


def end_event(document: Mapping[str, Any]) -> Event:
    """Make the last event of an explanation from ``document``, its JSON: done, failed or cancelled."""
    number = 2 + len(document.get("maps", ()))
    data = {"done": {"seconds": document.get("seconds")}, "failed": {"problem": document.get("problem")}, "cancelled": {}}
    return event(number, document["state"], data[document["state"]])


def events_so_far(document: Mapping[str, Any]) -> list[Event]:
    """List all events of the explanation ``document`` (JSON) up to its present state, in the order in which its maps were made."""
    events = [event(0, "queued", {"position": 0})]
    if "targets" in document:
        events.append(started_event(document))
        maps = document["maps"]
        events += [map_event(maps[place], index) for index, place in enumerate(document.get("made", range(len(maps))))]
    return [*events, end_event(document)] if document["state"] in FINAL else events
