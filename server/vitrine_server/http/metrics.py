"""Counters in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
#: Counters for alarms. They exist from 0 on, since otherwise their first count would be no increase; others appear with their first count.
_WATCHED_REFUSALS = ("queue-full", "disk-full")
_WATCHED_ENDS = ("worker-ended", "worker-hung")
_PLACES = ("device", "host", "disk")
disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, with the time of its first count


class Metrics:
    """Prometheus counters of requests, explanations and refusals since the start of the server; any thread may write."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter("vitrine_requests", "Answered HTTP requests.", ("method", "route", "status"), registry=self._registry)
        self._seconds = Summary("vitrine_explanation_seconds", "Time spent on explanations.", ("state",), registry=self._registry)
        self._waits = Summary("vitrine_queue_wait_seconds", "Time that explanations waited for their first turn.", registry=self._registry)
        self._methods = Summary("vitrine_method_seconds", "Time spent on maps.", ("method",), registry=self._registry)
        self._refusals = Counter("vitrine_refusals", "Refused requests.", ("reason",), registry=self._registry)
        self._reused = Counter("vitrine_answers_reused", "Questions that a finished explanation answered.", registry=self._registry)
        self._ended = Counter("vitrine_worker_restarts", "Processes of models that ended.", ("reason",), registry=self._registry)
        self._moves = Counter("vitrine_model_moves", "Models that moved to a place.", ("to",), registry=self._registry)
        watched = ((self._refusals, _WATCHED_REFUSALS), (self._ended, _WATCHED_ENDS), (self._moves, _PLACES))
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

    def model_moved(self, place: str) -> None:
        """Count one model that moved to ``place``: to the device that computes, to host memory, or to disk, which means that it was
        dropped.
        """
        self._moves.labels(place).inc()

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return all counters in Prometheus's text format, with ``gauges``: name -> (help, current value)."""
        measured = CollectorRegistry()
        for name, (text, value) in gauges.items():
            Gauge(f"vitrine_{name}", text, registry=measured).set(value)
        return (generate_latest(self._registry) + generate_latest(measured)).decode("utf-8")
