"""Counters in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from explainers.models.passes import Outcome

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
#: Counters for alarms. They exist from 0 on, since otherwise their first count would be no increase; others appear with their first count.
_WATCHED_REFUSALS = ("queue-full", "disk-full")
_WATCHED_ENDS = ("worker-ended", "worker-hung", "device-lost")
PLACES = ("device", "host", "disk")
SHORTAGE_OUTCOMES = get_args(Outcome)
#: Upper bounds, in seconds, of the buckets of times: two in each power of ten, since each is a series for every label.
_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300)
disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, with the time of its first count


@dataclass(frozen=True)
class GaugeValues:
    """The current values of one gauge: its name without the prefix, its help, the names of its labels, and a value for the values of these;
    without labels one value, for ``()``.
    """

    name: str
    text: str
    labels: Sequence[str]
    values: Mapping[tuple[str, ...], float]


class Metrics:
    """Prometheus counters of requests, explanations and refusals since the start of the server; any thread may write."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter("vitrine_requests", "Answered HTTP requests.", ("method", "route", "status"), registry=self._registry)
        self._seconds = Histogram(
            "vitrine_explanation_seconds", "Time spent on explanations.", ("state",), buckets=_SECONDS, registry=self._registry
        )
        waits = "Time that explanations waited for their first turn."
        self._waits = Histogram("vitrine_queue_wait_seconds", waits, buckets=_SECONDS, registry=self._registry)
        loads = "Time in which models were loaded from disk, their first pass included."
        self._loads = Histogram("vitrine_model_load_seconds", loads, ("device",), buckets=_SECONDS, registry=self._registry)
        self._methods = Summary("vitrine_method_seconds", "Time spent on maps.", ("method",), registry=self._registry)
        self._refusals = Counter("vitrine_refusals", "Refused requests.", ("reason",), registry=self._registry)
        self._reused = Counter("vitrine_answers_reused", "Questions that a finished explanation answered.", registry=self._registry)
        self._ended = Counter("vitrine_worker_restarts", "Processes of models that ended.", ("reason",), registry=self._registry)
        self._moves = Counter("vitrine_model_moves", "Models that moved to a place.", ("to", "device"), registry=self._registry)
        shortages = "How often memory was too short for a pass, for loading a model, or for moving one, by what became of it."
        self._shortages = Counter("vitrine_memory_shortages", shortages, ("device", "outcome"), registry=self._registry)
        watched = ((self._refusals, _WATCHED_REFUSALS), (self._ended, _WATCHED_ENDS))
        for counter, reasons in watched:
            for reason in reasons:
                counter.labels(reason)

    def request(self, method: str, route: str, status: int) -> None:
        """Count one answered request with its ``method`` and the ``status`` of the answer; ``route`` is the route's pattern, so that ids do
        not make a series each.
        """
        self._requests.labels(method, route, status).inc()

    def job(self, state: str, seconds: float) -> None:
        """Count one explanation that has ended in this ``state``, and its ``seconds``."""
        self._seconds.labels(state).observe(seconds)

    def waited(self, seconds: float) -> None:
        """Count one explanation at its first turn, and the ``seconds`` that it waited."""
        self._waits.observe(seconds)

    def method(self, method: str, seconds: float) -> None:
        """Count one map and its seconds; ``method`` comes without options, so that these do not make a series each."""
        self._methods.labels(method).observe(seconds)

    def reused(self) -> None:
        """Count one question that a finished explanation answered."""
        self._reused.inc()

    def refused(self, reason: str) -> None:
        """Count one refused request; ``reason`` is the slug of its problem."""
        self._refusals.labels(reason).inc()

    def worker_ended(self, reason: str) -> None:
        """Count one process of models that ended, for this reason; the next one takes its place."""
        self._ended.labels(reason).inc()

    def model_moved(self, place: str, device: str) -> None:
        """Count one model that computes on ``device`` and has moved to a ``place``: that device, host memory, or disk, which is that it was
        dropped.
        """
        for known in PLACES:  # those of a device exist from 0 on, as soon as a model comes to it
            self._moves.labels(known, device)
        self._moves.labels(place, device).inc()

    def model_loaded(self, device: str, seconds: float) -> None:
        """Count one model that was loaded from disk to ``device``, and the ``seconds`` that it took."""
        self._loads.labels(device).observe(seconds)

    def memory_was_short(self, device: str, times: Mapping[str, int]) -> None:
        """Count the ``times`` that ``device`` had too little memory, by what became of it: one of :data:`SHORTAGE_OUTCOMES`."""
        for outcome in SHORTAGE_OUTCOMES:  # those of a device exist from 0 on, as soon as it is known
            self._shortages.labels(device, outcome).inc(times.get(outcome, 0))

    def text(self, gauges: Iterable[GaugeValues]) -> str:
        """Return all counters, and these ``gauges``, in Prometheus's text format."""
        measured = CollectorRegistry()
        for each in gauges:
            gauge = Gauge(f"vitrine_{each.name}", each.text, each.labels, registry=measured)
            for labels, value in each.values.items():
                (gauge.labels(*labels) if labels else gauge).set(value)
        return (generate_latest(self._registry) + generate_latest(measured)).decode("utf-8")
