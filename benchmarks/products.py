"""What products of float32 cost by MKL and by oneDNN, and what that is worth: ``python -m benchmarks.products``.

GFLOP/s of one thread for shapes of linear layers. Then CPU seconds by turns, all products by MKL and the larger ones by oneDNN: of maps,
and with ``--scene`` of one input of experiments/scenes-vit-on-scenes.toml, all methods and metrics. *Difference* is the largest between the
maps of two turns, over the largest score; of a scene between values of metrics; but for maps that are rounding alone (docs/limits.md).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

import explainers
import explainers.models.libraries.torchvision_ops  # before timm

# isort: split
import timm

from benchmarks.panel import CAT
from explainers.datasets import open_dataset
from explainers.evaluation.measuring import EvaluationRow, EvaluationSetup, rows_of
from explainers.evaluation.plan import make_plan
from explainers.models import matrix_products
from vitrine_server.commands.measuring.experiment import read_options

T = TypeVar("T")
#: Rows, inner and outer width of linear layers of scenes-vit, ViT-S and ViT-B.
SHAPES = ((2000, 192, 576), (2000, 768, 192), (197, 384, 1536), (197, 768, 3072), (197, 3072, 768))
EXPERIMENT = Path(__file__).parents[1] / "experiments" / "scenes-vit-on-scenes.toml"
#: Methods whose terms cancel except for the LayerNorm's epsilon: no two orders of summation agree about them.
ROUNDING_ALONE = ("hirescam", "input_x_gradient")


def seconds(run: Callable[[], T]) -> tuple[float, T]:
    """Run a function, and return its CPU seconds and its result."""
    start = time.process_time()
    out = run()
    return time.process_time() - start, out


def by_turns(run: Callable[[], T], turns: int) -> tuple[float, float, T, T]:
    """Run a function by MKL and by oneDNN in turn; return the median CPU seconds of both after a turn that warms up, and their last
    results.
    """
    least, taken, given = matrix_products.MIN_PRODUCT_SIZE, {True: list[float](), False: list[float]()}, dict[bool, T]()
    for _ in range(1 + turns):
        for by_onednn in (False, True):
            matrix_products.MIN_PRODUCT_SIZE = least if by_onednn else 1 << 62
            spent, given[by_onednn] = seconds(run)
            taken[by_onednn].append(spent)
    matrix_products.MIN_PRODUCT_SIZE = least
    return median(taken[False][1:]), median(taken[True][1:]), given[False], given[True]


def rate(shape: tuple[int, int, int], layer: Callable[[Tensor, Tensor, Tensor], Tensor]) -> float:
    """Return the GFLOP/s of a linear layer of this shape, the best of 20 runs."""
    rows, inner, outer = shape
    x, weight, bias = torch.randn(rows, inner), torch.randn(outer, inner), torch.randn(outer)
    best = min(seconds(lambda: layer(x, weight, bias))[0] for _ in range(20))
    return 2e-9 * rows * inner * outer / best


def maps(name: str, model: explainers.Model) -> None:
    """Time two kinds of map and the default panel of ``model`` before and after a change, and print a row, which begins with ``name``, for
    each.
    """
    picture = Image.open(CAT).convert("RGB").resize((224, 224))
    for specs in (["saliency"], ["transformer_attribution"], list(explainers.default_methods(model))):
        before, after, first, second = by_turns(lambda specs=specs: explainers.explain(model, picture, 1, specs), 3)  # type: ignore[misc]
        pairs = [(first[spec].scores, second[spec].scores) for spec in specs if spec not in ROUNDING_ALONE]
        difference = max(float((a - b).abs().max() / a.abs().max()) for a, b in pairs)
        what = specs[0] if len(specs) == 1 else f"panel of {len(specs)}"
        print(f"| {name}: {what} | {before:.3f} | {after:.3f} | {after / before:.2f} | {difference:.0e} |", flush=True)


def scene() -> None:
    """Time one input of the experiment, and print a row."""
    options, model, data = read_options(EXPERIMENT), explainers.load("scenes-vit", device="cpu"), open_dataset("scenes")
    setup = EvaluationSetup(model, data, make_plan(model, data, options["methods"], options["metrics"]))
    before, after, first, second = by_turns(lambda: rows_of(setup, 1), 3)

    def value(row: EvaluationRow, metric: str) -> float:
        return float(row[metric] or 0)

    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a["method"] not in ROUNDING_ALONE]
    difference = max(abs(value(a, metric) - value(b, metric)) for a, b in pairs for metric in options["metrics"])
    print(f"| a scene, {len(first)} methods | {before:.2f} | {after:.2f} | {after / before:.2f} | {difference:.0e} |")


def main() -> None:
    """Time products, maps and with ``--scene`` an input of an evaluation, and print tables."""
    parser = argparse.ArgumentParser(description="Products of float32 by MKL and by oneDNN.")
    parser.add_argument("--scene", action="store_true", help="also one input of an evaluation, of all methods and metrics")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"oneDNN is taken here: {'yes' if matrix_products.onednn_is_faster() else 'no'}\n\n| shape | MKL | oneDNN |\n|---|---|---|")
    for shape in SHAPES:
        print(f"| {' x '.join(map(str, shape))} | {rate(shape, F.linear):.0f} | {rate(shape, matrix_products.linear):.0f} |", flush=True)
    print("\n| what | MKL, s | oneDNN, s | ratio | difference |\n|---|---|---|---|---|")
    maps("scenes-vit", explainers.load("scenes-vit", device="cpu"))
    torch.manual_seed(0)
    vit = timm.create_model("vit_base_patch16_224").eval()
    maps(
        "ViT-B/16",
        explainers.wrap(vit, kind="image", preprocess=explainers.Preprocessing(resize=(224, 224), mean=(0.5,) * 3, std=(0.5,) * 3)),
    )
    if args.scene:
        scene()


if __name__ == "__main__":
    main()
