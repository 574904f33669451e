"""A list of events that one thread writes and any number of web clients follow, from the start or from where they left off."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from vitrine_server.json_text import json_text


@dataclass(frozen=True)
class Event:
    """One event of a feed.

    id    its number in the feed, kept over a reconnect and a restart
    name  its kind, such as "progress"
    data  its data as JSON text
    """

    id: int
    name: str
    data: str


def event(number: int, name: str, data: Any) -> Event:
    """Make the event number ``number`` called ``name``, with ``data`` as JSON. Raises NotJsonError if ``data`` contains a value that JSON
    lacks.
    """
    return Event(number, name, json_text(data))


class Feed:
    """Events in order; ``publish`` and ``close`` from any thread, ``follow`` from an event loop."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._closed = False
        self._lock = threading.Lock()
        self._followers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._left: float | None = None  # when the last follower went away; None while there is one, and before the first

    @property
    def unfollowed_seconds(self) -> float | None:
        """Return the seconds since the last follower left; None while there is a follower, and if there never was one."""
        with self._lock:
            return None if self._left is None else time.monotonic() - self._left

    def asked_about(self) -> None:
        """Reset ``unfollowed_seconds`` to None: a client that does not follow the feed still wants the result, and
        followers may come back.
        """
        with self._lock:
            self._left = None

    def publish(self, *events: Event) -> None:
        """Add events and wake whoever follows."""
        with self._lock:
            self._events.extend(events)
            self._wake()

    def close(self) -> None:
        """Mark the feed as complete: followers get the remaining events and stop."""
        with self._lock:
            self._closed = True
            self._wake()

    def _wake(self) -> None:
        for follower, loop in self._followers.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(follower.set)

    async def follow(self, after: int = -1) -> AsyncIterator[Event]:
        """Yield every event with an id above ``after``, past ones first, then new ones, until the feed is closed."""
        fresh = asyncio.Event()
        with self._lock:
            self._followers[fresh] = asyncio.get_running_loop()
            self._left = None
        sent = 0
        try:
            while True:
                fresh.clear()
                with self._lock:
                    waiting, closed = self._events[sent:], self._closed
                sent += len(waiting)
                for following in waiting:
                    if following.id > after:
                        yield following
                if closed:
                    return
                await fresh.wait()
        finally:
            with self._lock:
                del self._followers[fresh]
                if not self._followers:
                    self._left = time.monotonic()
