"""What worlds of known truth say of metrics: the comparison that ships, and the mark that each metric has from it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from explainers.evaluation.metrics_on_truth import FILE
from explainers.evaluation.truth_in_words import conclusions
from server.json_text import parsed_json
from server.run_reports import shipped_folder

FOLDER = "metrics-on-truth"


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> dict[str, Any]:
    """The comparison in a file that was last changed at this time."""
    document: dict[str, Any] = parsed_json(path.read_bytes(), mend=True)
    return document


def metric_truth() -> dict[str, Any] | None:
    """The comparison that ships: its worlds, its metrics, and what they say in ``sentences``; None where none is there."""
    shipped = shipped_folder()
    path = None if shipped is None else shipped / FOLDER / FILE
    if path is None or not path.is_file():
        return None
    document = _read(path, path.stat().st_mtime_ns)
    return {name: document[name] for name in ("interval", "worlds", "metrics")} | {"sentences": conclusions(document)}


def truth_of(document: dict[str, Any] | None, metric: str, kind: str) -> dict[str, Any] | None:
    """The agreement of a metric with the truth on a kind of input; None where they were not compared."""
    metrics = {} if document is None else {entry["name"]: entry["kinds"] for entry in document["metrics"]}
    figure: dict[str, Any] | None = metrics.get(metric, {}).get(kind)
    return figure
