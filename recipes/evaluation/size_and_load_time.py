"""What the embedded models weigh together, and how long each takes to load."""

from __future__ import annotations

import time

import explainers
from explainers.models.catalogue import embedded_names
from recipes.evaluation import MODELS, Figure, Report, Setting


def load_seconds(name: str) -> float:
    """Return the seconds that loading the model ``name`` takes, its libraries being imported already."""
    explainers.load(name, device="cpu")  # imports what it needs of timm and transformers
    start = time.perf_counter()
    explainers.load(name, device="cpu")
    return time.perf_counter() - start


def measure(name: str, setting: Setting) -> Report:
    """Return as figures the total size of the embedded models, and the load time of each; ``name`` and ``setting`` change nothing."""
    size = sum(file.stat().st_size for file in MODELS.rglob("*") if file.is_file())
    figures = [Figure(name, "size of all embedded models", size / 1e6, 94, "megabytes", at_most=True)]
    note = "libraries already imported"
    figures += [
        Figure(name, f"load time of {model_name}", load_seconds(model_name), 3, "seconds", at_most=True, note=note)
        for model_name in embedded_names()
    ]
    return Report(figures)
