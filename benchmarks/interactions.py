"""Faithfulness of the interactions of FIxLIP and exCLIP: ``python -m benchmarks.interactions [--photos N] [--parts N] [--budget N]``.

``clip`` is asked about photos that ship. FIxLIP and exCLIP (rule Libra) are held against the same coalitions of words and parts, drawn
again: deletion of the sets that their terms call most and least important, R^2 and rank correlation (``explainers.measure_interactions``).
Where the cosine with everything is lower than with nothing, the sign of the deletion score is turned: smaller is then better.
"""

from __future__ import annotations

import argparse
import time

import explainers  # before timm and transformers

# isort: split
from importlib.resources import files
from itertools import pairwise
from statistics import fmean

from PIL import Image

PHOTOS = files("explainers.embedded").joinpath("samples", "photos")
#: Names of sample photos, each with a prompt that describes it.
QUESTIONS = (
    ("cat-coffee", "a cat and a cup of coffee"),
    ("bee-bridge", "a bee on a flower above a bridge"),
    ("fig-brushes", "a fig and some paintbrushes"),
    ("cat-dog", "a cat beside a dog"),
    ("coffee", "a cup of coffee and a spoon"),
    ("bee", "a bee on a purple flower"),
    ("bridge", "a bridge at night"),
    ("dogs", "two dogs at a window"),
    ("drum", "a drum on a cushion"),
    ("citrus", "slices of lemon and orange"),
    ("rocket", "a rocket between towers"),
    ("temple", "a temple above a lake"),
)
WAYS = ("FIxLIP", "exCLIP")
MEASURES = ("insertion_deletion", "r2", "spearman")


def main() -> None:
    """Measure both methods on each photo, then print how often FIxLIP is ahead."""
    parser = argparse.ArgumentParser(description="FIxLIP and exCLIP compared on held-out coalitions.")
    parser.add_argument("--photos", type=int, default=len(QUESTIONS))
    parser.add_argument("--parts", type=int, default=16, help="of the picture that are hidden on their own, at most")
    parser.add_argument("--budget", type=int, default=512, help="coalitions to which FIxLIP is fitted, at most")
    parser.add_argument("--coalitions", type=int, default=64, help="held-out coalitions to draw")
    args = parser.parse_args()
    model = explainers.load("clip", "cpu")
    values: dict[str, dict[str, list[float]]] = {way: {name: [] for name in MEASURES} for way in WAYS}
    for photo, prompt in QUESTIONS[: args.photos]:
        with PHOTOS.joinpath(f"{photo}.jpg").open("rb") as file:
            image = Image.open(file).convert("RGB")
        clock = [time.process_time()]
        fitted = explainers.faithful_interaction(model, image, prompt, parts=args.parts, budget=args.budget)
        clock.append(time.process_time())
        by_jacobians = explainers.interaction(model, image, prompt)
        clock.append(time.process_time())
        seconds = [after - before for before, after in pairwise(clock)]
        found = explainers.measure_interactions(model, image, prompt, [fitted, by_jacobians], parts=args.parts, count=args.coalitions)
        for way, measures, took in zip(WAYS, found, seconds, strict=True):
            numbers = [getattr(measures, name) for name in MEASURES]
            for name, number in zip(MEASURES, numbers, strict=True):
                values[way][name].append(number)
            print(f"{photo:12} {way}  " + "  ".join(f"{number:6.2f}" for number in numbers) + f"  {took:5.1f} s of work", flush=True)
    for name in MEASURES:
        ahead = sum(a > b for a, b in zip(values[WAYS[0]][name], values[WAYS[1]][name], strict=True))
        means = ", ".join(f"{way} {fmean(values[way][name]):.2f}" for way in WAYS)
        print(f"{name}: mean {means}; FIxLIP ahead in {ahead} of {len(values[WAYS[0]][name])}")


if __name__ == "__main__":
    main()
