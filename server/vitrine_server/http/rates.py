"""Limits on how often one visitor, or one address, may ask."""

from __future__ import annotations

import time
from collections.abc import Callable

_MINUTE = 60.0
_MOST_KEYS = 10_000  # that are kept before those are forgotten that have their whole minute again


class Rate:
    """A rate limit of ``a_minute`` requests a minute for each key. That number may come at once; then one more is allowed whenever a minute
    divided by ``a_minute`` has passed. ``clock`` returns seconds.

    It is the generic cell rate algorithm: one number a key, the time at which its whole allowance is available again.
    """

    def __init__(self, a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval, self._clock = _MINUTE / a_minute, clock
        self._whole_at: dict[str, float] = {}

    def seconds_full(self, key: str) -> float:
        """Return the seconds until a request of ``key`` is allowed; 0 if it is now."""
        now = self._clock()
        too_early = max(self._whole_at.get(key, now), now) + self._interval - now - _MINUTE
        return too_early if too_early > 1e-6 else 0.0

    def wait(self, key: str) -> float:
        """Count a request of ``key`` and return 0; if it is one too many, count nothing and return the seconds until it is allowed."""
        if (seconds := self.seconds_full(key)) > 0:
            return seconds
        now = self._clock()
        self._whole_at[key] = max(self._whole_at.get(key, now), now) + self._interval
        if len(self._whole_at) > _MOST_KEYS:
            self._whole_at = {known: until for known, until in self._whole_at.items() if until > now}
        return 0.0
