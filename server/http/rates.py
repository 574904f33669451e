"""How often one visitor may ask, and one address."""

from __future__ import annotations

import time
from collections.abc import Callable

_MINUTE = 60.0
_MOST_KEYS = 10_000  # that are kept before those are forgotten that have their whole minute again


class Rate:
    """At most ``a_minute`` requests of each key at once, and then one more with each such part of a minute that passes.

    It is the generic cell rate algorithm: one number a key, the time at which all its requests are there again.
    """

    def __init__(self, a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval, self._clock = _MINUTE / a_minute, clock
        self._whole_at: dict[str, float] = {}

    def seconds_full(self, key: str) -> float:
        """Seconds until there is room for a request; 0 where there is."""
        now = self._clock()
        too_early = max(self._whole_at.get(key, now), now) + self._interval - now - _MINUTE
        return too_early if too_early > 1e-6 else 0.0

    def wait(self, key: str) -> float:
        """Count a request and give 0; or, where it is one too many, give the seconds until there is room for it, and count nothing."""
        if (seconds := self.seconds_full(key)) > 0:
            return seconds
        now = self._clock()
        self._whole_at[key] = max(self._whole_at.get(key, now), now) + self._interval
        if len(self._whole_at) > _MOST_KEYS:
            self._whole_at = {known: until for known, until in self._whole_at.items() if until > now}
        return 0.0
