"""Counters in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Requests and explanations since the start; any thread may write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._jobs: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def request(self, method: str, route: str, status: int) -> None:
        """Count one answered request; ``route`` is the route's pattern, so that ids do not make a series each."""
        with self._lock:
            self._requests[method, route, status] += 1

    def job(self, state: str, seconds: float) -> None:
        """Count one explanation that has ended."""
        with self._lock:
            self._jobs[state] += 1
            self._seconds[state] += seconds

    def mean_job_seconds(self) -> float:
        """What a finished explanation has taken on average; 1 before there is one."""
        with self._lock:
            return self._seconds["done"] / self._jobs["done"] if self._jobs["done"] else 1.0

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything as text. ``gauges``: name -> (help, value) of what is measured at this moment."""
        lines = ["# HELP vitrine_requests_total Answered HTTP requests.", "# TYPE vitrine_requests_total counter"]
        with self._lock:
            for (method, route, status), count in sorted(self._requests.items()):
                labels = f'method="{_escape(method)}",route="{_escape(route)}",status="{status}"'
                lines.append(f"vitrine_requests_total{{{labels}}} {count}")
            lines += ["# HELP vitrine_explanation_seconds Time spent on explanations.", "# TYPE vitrine_explanation_seconds summary"]
            for state in sorted(self._jobs):
                lines.append(f'vitrine_explanation_seconds_sum{{state="{state}"}} {self._seconds[state]:.6f}')
                lines.append(f'vitrine_explanation_seconds_count{{state="{state}"}} {self._jobs[state]}')
        for name, (text, value) in gauges.items():
            lines += [f"# HELP vitrine_{name} {text}", f"# TYPE vitrine_{name} gauge", f"vitrine_{name} {value:g}"]
        return "\n".join(lines) + "\n"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
