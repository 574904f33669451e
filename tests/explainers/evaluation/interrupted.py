"""A run that waits after each input until it is told to go on: ``python -m tests.explainers.evaluation.interrupted FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from explainers.datasets import open_dataset
from explainers.evaluation.plan import Plan, make_plan
from explainers.evaluation.running import EvaluationRun, InputsProgress, run
from tests.support.embedded_models import loaded

METHODS = ("random", "rollout", "fullgrad")
METRICS = ("mif", "lif", "srg", "completeness", "conservation", "ap", "miou", "class_correlation")
INPUTS = 4


def begin(folder: Path, progress: InputsProgress | None = None) -> tuple[Plan, EvaluationRun | None]:
    """Begin the run of these tests, or go on with it."""
    model, data = loaded("scenes-vit"), open_dataset("scenes")
    plan = make_plan(model, data, METHODS, METRICS, limit=INPUTS)
    return plan, run(model, data, plan, folder, progress=progress)


def wait(done: int, total: int) -> None:
    """Say how far it is, and go on only after a line on stdin."""
    print(done, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    begin(Path(sys.argv[1]), wait)
