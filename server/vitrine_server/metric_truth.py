"""Metrics compared with worlds of known truth: the comparison that ships, the mark that each metric has from it, and the metric of a run
that decides by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from explainers.evaluation.known_truth.metrics_on_truth import FILE
from explainers.evaluation.known_truth.truth_in_words import KINDS, advice, conclusions, doubts, usable_metrics
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


#: The metrics that decide in a run where known truth says nothing of any of its metrics: the first one that the run has. Both compare with
#: the result of a random map.
DECIDING_UNTESTED = ("srg", "ap")


def deciding_metric(metrics: Sequence[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    """Return the one of ``metrics`` (JSON) of a run that ranks its methods: for this ``kind`` of input the one that agrees best with known
    truth among those that are not told it; where there is none, the first of `DECIDING_UNTESTED`; None without either.
    """
    by_name = {metric["name"]: metric for metric in metrics}
    names = [*(metric["name"] for metric in _tested(kind)), *DECIDING_UNTESTED]
    return next((by_name[name] for name in names if name in by_name), None)


def why_it_decides(decides: str, metrics: Sequence[dict[str, Any]], kind: str) -> str:
    """Return in sentences why the metric named ``decides`` ranks the methods of a run with these ``metrics`` (JSON) on a ``kind`` of input,
    and how far it may be believed.
    """
    tested = _tested(kind)
    agreement = {metric["name"]: metric["kinds"][kind]["tau"] for metric in tested}
    if decides in agreement:
        measured = {metric["name"] for metric in metrics}
        reason = (
            f"It decides: of the metrics here that are not told the truth, it agrees best with known truth ({agreement[decides]:.2f} of 1)."
        )
        better = tested[0]
        if better["name"] in measured:
            return reason
        return f"{reason} {better['title']} agrees better ({agreement[better['name']]:.2f}); this run did not measure it."
    if any(metric["name"] == decides and metric["family"] == "localisation" for metric in metrics):
        return "It decides: the data set says where the thing is. Whether the model looks there is not known."
    return f"It decides by our choice: how far it agrees with known truth {_untested(kind)}."


def models_of_known_truth() -> list[str]:
    """Return the names of the test models whose answers come from what is marked alone; they are measured, and no page asks them."""
    document = metric_truth()
    return [] if document is None else [world["model"] for world in document["worlds"] if world["marks_alone"]]


def _untested(kind: str) -> str:
    return "was not tested" if kind in KINDS else f"was tested on {' and '.join(KINDS.values())} only"


def _tested(kind: str) -> list[dict[str, Any]]:
    """Return the metrics that may decide on a ``kind`` of input, from the comparison that ships, the best agreement first."""
    document = metric_truth()
    return [] if document is None else usable_metrics(document, kind)
