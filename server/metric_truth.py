"""What worlds of known truth say of metrics: the comparison that ships, and the mark that each metric has from it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from explainers.evaluation.metrics_on_truth import FILE
from explainers.evaluation.truth_in_words import advice, conclusions, doubts
from server.json_text import parsed_json
from server.run_reports import shipped_folder

FOLDER = "metrics-on-truth"


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> dict[str, Any]:
    """The comparison in a file that was last changed at this time."""
    document: dict[str, Any] = parsed_json(path.read_bytes(), mend=True)
    return document


def metric_truth() -> dict[str, Any] | None:
    """The comparison that ships: its worlds, its metrics with the ``doubts`` of each, which metric to use (``advice``), and what the
    figures say in ``sentences``; None where none is there.
    """
    shipped = shipped_folder()
    path = None if shipped is None else shipped / FOLDER / FILE
    if path is None or not path.is_file():
        return None
    document = _read(path, path.stat().st_mtime_ns)
    metrics = [{**metric, "doubts": {kind: doubts(document, metric, kind) for kind in metric["kinds"]}} for metric in document["metrics"]]
    said = {"advice": advice(document), "sentences": conclusions(document)}
    return {"interval": document["interval"], "worlds": document["worlds"], "metrics": metrics, **said}


def truth_of(document: dict[str, Any] | None, metric: str, kind: str) -> dict[str, Any]:
    """The agreement of a metric with the truth on a kind of input as ``truth``, None where they were not compared, and its ``doubts``."""
    metrics = {} if document is None else {entry["name"]: entry for entry in document["metrics"]}
    entry = metrics.get(metric, {"kinds": {}, "doubts": {}})
    return {"truth": entry["kinds"].get(kind), "doubts": entry["doubts"].get(kind, [])}
