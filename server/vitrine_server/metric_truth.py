"""Metrics compared with worlds of known truth: the comparison that ships, and the mark that each metric has from it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from explainers.evaluation.known_truth.metrics_on_truth import FILE
from explainers.evaluation.known_truth.truth_in_words import advice, conclusions, doubts
from vitrine_server.json_text import decode_json
from vitrine_server.run_reports import shipped_folder

FOLDER = "metrics-on-truth"


@lru_cache(maxsize=2)
def _read(path: Path, changed: int) -> dict[str, Any]:
    """Return the comparison with the truth in the file at ``path``; ``changed``, the time of its last change, makes the cache notice a new
    version.
    """
    document: dict[str, Any] = decode_json(path.read_bytes(), mend=True)
    return document


def metric_truth(folder: str = FOLDER) -> dict[str, Any] | None:
    """Return the comparison of metrics with known truth that ships in ``folder`` of the results: its worlds, its metrics with their
    ``doubts``, which metric to use (``advice``), and its conclusions as ``sentences``; None if none ships.
    """
    shipped = shipped_folder()
    path = None if shipped is None else shipped / folder / FILE
    if path is None or not path.is_file():
        return None
    document = _read(path, path.stat().st_mtime_ns)
    metrics = [{**metric, "doubts": {kind: doubts(document, metric, kind) for kind in metric["kinds"]}} for metric in document["metrics"]]
    said = {"advice": advice(document), "sentences": conclusions(document)}
    return {"interval": document["interval"], "worlds": document["worlds"], "metrics": metrics, **said}


def truth_of(document: dict[str, Any] | None, metric: str, kind: str) -> dict[str, Any]:
    """Return from ``document``, the comparison of metrics with the truth, a dict for one metric and kind of input: its agreement as
    ``truth`` (None if it was not measured), and reasons to doubt it as ``doubts``.
    """
    metrics = {} if document is None else {entry["name"]: entry for entry in document["metrics"]}
    entry = metrics.get(metric, {"kinds": {}, "doubts": {}})
    return {"truth": entry["kinds"].get(kind), "doubts": entry["doubts"].get(kind, [])}
