"""How far each method can be trusted on the embedded models: ``python -m benchmarks.standing --photos DIR`` and
``python -m benchmarks.standing --reviews FILE.jsonl.xz``.

The deletion test: tokens are taken away in the order of a map, most relevant first, and the probability of the class is watched; the mean
area under that curve is the figure, smaller is better. Writes ``explainers/methods/standing.json``, from which pages and API read it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import explainers
from explainers.methods.presets import PRESETS
from explainers.methods.standing import FILE
from explainers.metrics.faithfulness import area, curves, removal_counts, removal_order
from explainers.models.token_removal import patch_removal, word_removal

FRACTIONS = (0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1)
SEED = 0
SETS = ("default", "chefer", "lrp")
PLAIN = ("fullgrad_plus", "attcat")


def photos(folder: Path, count: int) -> list[Path]:
    """Photos of a folder, drawn with a fixed seed."""
    return random.Random(SEED).sample(sorted(folder.glob("*.jpg")), count)


def reviews(file: Path, count: int, words: int) -> list[str]:
    """Reviews of the test split of no more than ``words`` words, drawn with a fixed seed."""

    def read() -> Iterator[str]:
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if row["split"] == "test" and len(row["text"].split()) <= words:
                    yield row["text"]

    return random.Random(SEED).sample(list(read()), count)


def areas(model: explainers.Model, inputs: list[Any]) -> dict[str, float]:
    """The mean area over ``inputs`` of the methods that the pages begin with and of their plain forms, explained for the class that the
    model says.
    """
    sets = [preset for preset in PRESETS if preset.name in SETS]
    listed = explainers.variants(model)
    specs = list(dict.fromkeys([*(spec for scored in sets for spec in scored.specs(listed)), *PLAIN]))
    sums: dict[str, float] = dict.fromkeys(specs, 0.0)
    for given in inputs:
        prepared = model.prepare(given)
        result = explainers.explain(model, given, methods=specs)
        first = result.maps[0]
        if first.patches is not None:
            removal, places = patch_removal(model, prepared.tensors, first.patches), first.content
        else:
            places = first.content
            removal = word_removal(model, prepared.tensors, places)
        counts = removal_counts(FRACTIONS, removal.tokens, removal.least)
        orders = torch.stack([removal_order(scored.scores[places], "most") for scored in result.maps])
        index = int(result.logits.argmax())
        values: Tensor = curves(removal, orders, counts).double().softmax(-1)[..., index]
        for scored, curve in zip(result.maps, values, strict=True):
            sums[scored.method] += area([count / removal.tokens for count in counts], curve)
    return {spec: round(total / len(inputs), 4) for spec, total in sums.items()}


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=Path, help="a folder of .jpg that the model was not trained on")
    parser.add_argument("--reviews", type=Path, help="rows of {split, text}")
    parser.add_argument("--source", default="", help='where the photos or reviews come from, as the pages say it: "of COCO"')
    parser.add_argument("--number", type=int, default=24, help="of photos or reviews (default 24, some 10 seconds each on one core)")
    given = parser.parse_args()
    if given.photos and given.reviews:
        parser.error("give --photos or --reviews: they come from different sources")
    standing = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    if given.photos:
        chosen: list[Any] = list(photos(given.photos, given.number))
        standing["photos-vit"] = {
            "kind": "image",
            "measured": f"{len(chosen)} photos {given.source}".strip(),
            "areas": areas(explainers.load("photos-vit"), chosen),
        }
    if given.reviews:
        texts: list[Any] = reviews(given.reviews, given.number, 120)
        standing["reviews-bert"] = {
            "kind": "text",
            "measured": f"{len(texts)} reviews {given.source}".strip(),
            "areas": areas(explainers.load("reviews-bert"), texts),
        }
    FILE.write_text(json.dumps(standing, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
