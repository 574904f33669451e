"""A run of three methods and three metrics with figures written by hand, as ``vitrine evaluate`` leaves one behind."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from explainers.evaluation.examples import pack_scores
from explainers.metrics import METRICS

METRIC_NAMES = ("mif", "completeness", "ap")
#: method -> values of the metrics, and whether each is tied with the best
FIGURES: dict[str, tuple[tuple[float | None, bool], ...]] = {
    "rollout": ((0.4, False), (None, False), (0.9, True)),
    "fullgrad:libra": ((0.8, True), (0.0, True), (0.5, False)),
    "random": ((0.2, False), (None, False), (0.1, False)),
}


#: (metric, method) -> of how many inputs the value is, where not of all
COUNTS = {("ap", "rollout"): 5}


def figure(value: float | None, tied: bool, inputs: int = 7) -> dict[str, Any]:
    if value is None:
        return {"value": None, "error": None, "low": None, "high": None, "inputs": 0, "tied": False}
    return {"value": value, "error": 0.01, "low": value - 0.02, "high": value + 0.03, "inputs": inputs, "tied": tied}


def report(model: str = "scenes-vit") -> dict[str, Any]:
    methods = [{"spec": spec, "title": spec.title(), "by": "Doe", "year": 2026, "signed": spec != "rollout"} for spec in FIGURES]
    results = {
        name: {spec: figure(*values[i], COUNTS.get((name, spec), 7)) for spec, values in FIGURES.items()}
        for i, name in enumerate(METRIC_NAMES)
    }
    return {
        "format": 1,
        "plan": {"model": model, "dataset": "scenes", "limit": 7, "target": "predicted", "how": None, "seed": 0},
        "inputs": 7,
        "unknown": {"unicorn": 2},
        "command": "vitrine evaluate --model scenes-vit --dataset scenes --out DIR",
        "seconds": 3.5,
        "date": "2026-11-28",
        "kind": "image",
        "dataset": {"name": "scenes", "title": "Scenes", "description": "", "source": None},
        "methods": methods,
        "metrics": [METRICS[name].to_json() for name in METRIC_NAMES],
        "interval": {"level": 0.95, "draws": 2000},
        "results": results,
        "apart": {name: [[1.0] * 3] * 3 for name in METRIC_NAMES},
        "curves": {},
    }


def examples() -> dict[str, Any]:
    data = io.BytesIO()
    Image.new("RGB", (32, 32), (90, 120, 60)).save(data, "JPEG")
    picture = base64.b64encode(data.getvalue()).decode("ascii")
    ends = {"best": [[4, 0.9]], "worst": [[5, 0.1]]}
    return {
        "among": 7,
        "grid": [2, 2],
        "inputs": {place: {"name": f"scene {place}", "target": "zebra", "picture": picture} for place in ("4", "5")},
        "maps": {spec: {place: pack_scores([1.0, -0.5, 0.0, 0.2]) for place in ("4", "5")} for spec in FIGURES},
        "chosen": {name: dict.fromkeys(FIGURES, ends) for name in METRIC_NAMES},
    }


def texts() -> dict[str, Any]:
    """Examples of a run on texts."""
    inputs = {place: {"name": place, "target": "positive", "words": ["A", "lovely", "film"]} for place in ("4", "5")}
    maps = {spec: dict.fromkeys(("4", "5"), pack_scores([0.0, 1.0, -0.5])) for spec in FIGURES}
    return {**{name: value for name, value in examples().items() if name != "grid"}, "inputs": inputs, "maps": maps}


def write_run(folder: Path, model: str = "scenes-vit", of: dict[str, Any] | None = None) -> Path:
    """A run in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report(model)), "utf-8")
    (folder / "examples.json").write_text(json.dumps(of or examples()), "utf-8")
    return folder
