"""A finished run in a world of known truth, whose metrics have the order of the truth, the reverse, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from explainers.evaluation.rows import RUN, RowFile, schema_of
from explainers.metrics import METRICS
from tests.support.made_up_run import report

METHODS = ("best", "good", "fair", "poor", "random")
#: Controls and their places: the truth lies above the best method, its inverse below random numbers, edges between fair and poor.
CONTROLS = {"truth": -0.5, "truth_half": 1.5, "truth_inverted": 5.0, "edges": 2.5}
NAMES = ("patch_ap", "energy", "srg", "mif_log_odds", "lif", "completeness", "agreement")
INPUTS = 30


def values_of(name: str, place: float, draw: np.random.Generator) -> float | None:
    """Of the method at this place by truth: SRG has its order, log-odds (lower is better) the reverse, LIF none."""
    noise = float(draw.normal(0, 0.02))
    made: dict[str, float | None] = {
        "patch_ap": 0.9 - 0.2 * place + noise,
        "energy": 0.8 - 0.1 * place,
        "srg": 0.5 - 0.1 * place + noise,
        "mif_log_odds": -float(place),
        "lif": float(draw.random()),
        "completeness": 0.1 * place if place in (0, 1) else None,
        "agreement": 0.3,
    }
    return made[name]


def write_world(
    folder: Path, methods: tuple[str, ...] = METHODS, names: tuple[str, ...] = NAMES, kind: str = "image", dataset: str | None = None
) -> Path:
    """A finished run; of a data set that is named, with controls."""
    controls = CONTROLS if dataset is not None else {}
    draw = np.random.default_rng(0)
    folder.mkdir(parents=True)
    figure = {"value": 0.5, "error": 0.1, "low": 0.4, "high": 0.6, "inputs": INPUTS, "tied": False}
    of_methods = [{"spec": spec, "title": spec.title(), "by": "Doe", "year": 2026, "signed": True} for spec in methods]
    about: dict[str, Any] = {
        **report(),
        "kind": kind,
        "methods": of_methods,
        "metrics": [METRICS[name].to_json() for name in names],
        "results": {name: dict.fromkeys(methods, figure) for name in names},
    }
    if dataset is not None:
        about["plan"] = {**about["plan"], "controls": list(controls)}
        about["dataset"] = {**about["dataset"], "name": dataset}
    (folder / "report.json").write_text(json.dumps(about), "utf-8")
    (folder / RUN).write_text("{}", "utf-8")
    file = RowFile(folder, schema_of([METRICS[name] for name in names], []), 1)
    rows = [
        {"index": index, "input": f"{index}", "target": "zebra", "method": spec, **{name: values_of(name, place, draw) for name in names}}
        for index in range(INPUTS)
        for spec, place in ({spec: float(place) for place, spec in enumerate(methods)} | controls).items()
    ]
    file.add(0, rows)
    file.finish()
    return folder
