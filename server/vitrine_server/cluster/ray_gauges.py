"""The gauges of a replica in Ray's own metrics, which a cluster exports for each of its processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from vitrine_server.http.metrics import GaugeValues


class RayGauges:
    """The gauges of one replica. What is not there any more, such as a model that has left, is set to 0, as Ray forgets no series."""

    def __init__(self, make_gauge: Callable[..., Any]) -> None:
        """``make_gauge`` is ``ray.serve.metrics.Gauge``."""
        self._make_gauge = make_gauge
        self._gauges: dict[str, Any] = {}
        self._known: dict[str, set[tuple[str, ...]]] = {}

    def set(self, gauges: Iterable[GaugeValues]) -> None:
        """Set each of ``gauges`` to its current values."""
        for each in gauges:
            if each.name not in self._gauges:
                self._gauges[each.name] = self._make_gauge(f"vitrine_{each.name}", description=each.text, tag_keys=tuple(each.labels))
            known = self._known.setdefault(each.name, set())
            known.update(each.values)
            for labels in known:
                tags = dict(zip(each.labels, labels, strict=True))
                self._gauges[each.name].set(each.values.get(labels, 0.0), tags=tags)
