"""Time of measuring all methods of an input together against one by one: ``python -m benchmarks.evaluation``.

CPU seconds for the default methods in one run, and in a run for each method alone, on the same inputs. Together they share the
recordings of the model and the forward passes of the deletion curves. Exits with 1 where the figures differ by more than 1e-5.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import torch

import explainers
from explainers.datasets import open_dataset
from explainers.evaluation.measuring import EvaluationRow, EvaluationSetup, rows_of
from explainers.evaluation.plan import make_plan

METRICS = ("mif", "lif", "srg")
DATASETS = {"scenes-vit": "scenes", "photos-vit": "sample-photos", "reviews-bert": "sample-reviews"}


def measure(model: explainers.Model, methods: Sequence[str], places: Sequence[int]) -> tuple[float, list[EvaluationRow]]:
    """Measure the inputs numbered ``places`` of the data set of ``model`` by ``methods``; return the CPU seconds and the rows."""
    data = open_dataset(DATASETS[model.name])
    bench = EvaluationSetup(model, data, make_plan(model, data, methods, METRICS))
    start = time.process_time()
    rows = [row for place in places for row in rows_of(bench, place)]
    return time.process_time() - start, rows


def main() -> None:
    """Time methods together and alone, print both, and exit with 1 where the figures differ."""
    parser = argparse.ArgumentParser(description="Measuring all methods together, against each alone.")
    parser.add_argument("--model", choices=DATASETS, default="scenes-vit")
    parser.add_argument("--inputs", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = explainers.load(args.model, device="cpu")
    places = range(args.inputs)
    methods = explainers.default_methods(model)
    measure(model, methods[:1], places[:1])  # imports, caches
    together, rows = measure(model, methods, places)
    alone = 0.0
    apart: dict[tuple[int, str], EvaluationRow] = {}
    for method in methods:
        seconds, rows_alone = measure(model, [method], places)
        alone += seconds
        apart |= {(row["index"], row["method"]): row for row in rows_alone}
    error = max(abs(row[name] - apart[row["index"], row["method"]][name]) for row in rows for name in METRICS)
    print(
        f"{args.model}, {len(methods)} methods, {args.inputs} inputs: {together:.1f} s together, {alone:.1f} s each alone, "
        f"ratio {together / alone:.2f}; figures differ by {error:.1g} at most"
    )
    sys.exit(error > 1e-5)


if __name__ == "__main__":
    main()
