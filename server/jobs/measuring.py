"""What a run of the page measures: the data sets for a kind of model, and the run itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import explainers


def measurable(kind: str) -> list[dict[str, Any]]:
    """The data sets that need no download and suit models of this ``kind``, each with the metrics that can be measured on it."""
    from explainers.datasets import DATASETS  # these load scikit-learn and SciPy, which nothing else here needs
    from explainers.evaluation.plan import lacking
    from explainers.metrics import METRICS

    listed = []
    for entry in DATASETS.values():
        if entry.layout or entry.kind != ("text" if kind == "text" else "image"):
            continue
        data = entry.open()
        if kind == "clip" and not data.classes:
            continue
        metrics = [{"name": name, "title": metric.title} for name, metric in METRICS.items() if lacking(metric, data, 2) is None]
        listed.append({"name": entry.name, "title": entry.title, "inputs": len(data), "metrics": metrics})
    return listed


def evaluate(
    model: explainers.Model,
    wanted: Mapping[str, Any],
    folder: Path,
    tell: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> bool:
    """Measure what is ``wanted`` (model, dataset, methods, metrics, limit) in ``folder``, and write its reports; False where it was
    stopped before its end.
    """
    from explainers.datasets import open_dataset
    from explainers.evaluation.measuring import EvaluationSetup
    from explainers.evaluation.plan import make_plan
    from explainers.evaluation.reporting import write_reports
    from explainers.evaluation.running import run

    data = open_dataset(wanted["dataset"])
    plan = make_plan(model, data, wanted["methods"], wanted["metrics"], limit=wanted["limit"])
    finished = run(model, data, plan, folder, progress=tell, cancelled=cancelled)
    if finished is None:
        return False
    write_reports(finished, EvaluationSetup(model, data, plan))
    return True
