"""Admission to a queue: who may still enter, on one machine and on a cluster alike."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from vitrine_server.http.limits import limits
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.settings import Settings

_ROOM_FOR_NEWCOMERS = 2  # times the queue's size: so many may wait where those who come have nothing waiting yet


def check_room(settings: Settings, waiting: Sequence[Visitor], visitor: Visitor, what: str, waits: Sequence[float]) -> None:
    """Raise Problem 429 if the queue or the visitor's share of it is full.

    A visitor from an address without queued items may enter a full queue, up to a larger bound: anybody can pose as many visitors, but not
    from many addresses.

    waiting  the visitor of each queued item
    what     the kind of the items, for the refusal: "explanations" or "studies"
    waits    seconds that items waited lately, or have waited so far; their median is the advised pause
    """
    mine = sum(other.turn == visitor.turn for other in waiting)
    is_near = any(other.address == visitor.address for other in waiting)
    size, share = settings.queue_size, limits(settings)["queue_share"]
    refusal = None
    if len(waiting) >= (size if is_near else _ROOM_FOR_NEWCOMERS * size):
        refusal = Problem(429, "queue-full", f"{len(waiting)} {what} are waiting already.", send=share.send)
    elif mine >= share.most:
        refusal = share.problem(mine, what)
    if refusal is not None:
        refusal.headers["Retry-After"] = str(max(1, round(statistics.median(waits))) if waits else 1)
        raise refusal
