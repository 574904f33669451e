"""The sample scenes of the pages: ``python -m embedded.recipes.assets.scene_samples`` draws them into ``embedded/samples/scenes``.

For each scene a PNG, and a mask PNG of the same size whose pixel value is the number of the object one sees there: 0 for
background, 1 for the first of the objects listed, and so on. ``index.json`` lists every scene twice: to be classified, and
to be matched with prompts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from embedded.recipes.data.scenes import Composition, Placement, Scene, draw
from embedded.recipes.data.sprites import file_names

SIZE = 336  # three times what the models see
OUT = Path(__file__).parents[2] / "samples" / "scenes"
DOWN = 38  # a seed whose gradient runs from top to bottom
INKS = [(236, 229, 216), (96, 44, 38), (38, 70, 96), (60, 92, 58), (138, 98, 40)]  # of the masks, background first


@dataclass(frozen=True)
class SceneSample:
    """A composed scene and what to ask about it first."""

    name: str
    title: str
    note: str
    composition: Composition
    target: str
    absent: tuple[str, ...]  # kinds that look like those that are there


def placed(kind: str, x: float, y: float, length: float, angle: float = 0.0, *, variant: int = 0, mirrored: bool = False,
          brightness: float = 1.0) -> Placement:  # fmt: skip
    """An object at ``x``, ``y`` (fractions of the side, of its centre), as the sprite shows it."""
    return Placement(kind, file_names(kind)[variant], (x, y), length, angle, mirrored, 1.0, brightness)


def over(background: str, first: str, second: str, *placements: Placement, seed: int = DOWN, grain: float = 0.0) -> Composition:
    """Objects over a background of two colours, written ``rrggbb``."""
    colours = tuple(tuple(bytes.fromhex(colour)) for colour in (first, second))
    return Composition(background, seed, placements, colours, grain)  # type: ignore[arg-type]


SAMPLES = (
    SceneSample("zebra-elephant", "Zebra and elephant", "Two animals apart: each has its own evidence.",
                over("gradient", "d9e2e4", "d8bd8c", placed("elephant", 0.71, 0.62, 0.50), placed("zebra", 0.26, 0.44, 0.46)),
                "zebra", ("horse", "lion")),
    SceneSample("dog-cat", "Dog and cat", "Two pets side by side.",
                over("paper", "cfd8c4", "cfd8c4", placed("dog", 0.29, 0.52, 0.50), placed("cat", 0.72, 0.50, 0.50)), "dog",
                ("lion", "horse")),
    SceneSample("spoon-fork", "Spoon and fork", "They share colour and shape; only their heads differ.",
                over("paper", "5f7681", "5f7681", placed("fork", 0.70, 0.50, 0.62), placed("spoon", 0.34, 0.52, 0.55)), "fork",
                ("scissors", "hammer")),
    SceneSample("bus-car-bicycle", "Bus, car and bicycle", "Three vehicles; all have wheels.",
                over("gradient", "c5d3dc", "a9a59c", placed("bus", 0.30, 0.30, 0.46), placed("car", 0.70, 0.46, 0.40),
                     placed("bicycle", 0.34, 0.74, 0.40)), "bicycle", ("train", "boat")),
    SceneSample("fruit", "Banana, apple and strawberry", "A still life with overlaps.",
                over("gradient", "34423f", "232b2c", placed("banana", 0.35, 0.42, 0.50), placed("apple", 0.66, 0.50, 0.40),
                     placed("strawberry", 0.42, 0.72, 0.34)), "strawberry", ("mushroom", "pizza")),
    SceneSample("whale-boat", "Whale and boat", "What floats above and what swims below.",
                over("gradient", "dfe9e6", "5b8ba4", placed("boat", 0.66, 0.31, 0.44), placed("whale", 0.36, 0.68, 0.56)), "whale",
                ("fish", "duck")),
    SceneSample("owl-tree", "Owl before a tree", "One object in front of the other.",
                over("gradient", "1f2b46", "46506b", placed("tree", 0.56, 0.46, 0.74), placed("owl", 0.34, 0.68, 0.38)), "owl",
                ("bird", "sunflower")),
    SceneSample("lion-tiger", "Lion and tiger", "Two big cats of one colour: what tells them apart?",
                over("stripes", "e6ddcb", "ddd2bc", placed("lion", 0.30, 0.36, 0.48), placed("tiger", 0.68, 0.66, 0.48)), "tiger",
                ("zebra", "cat")),
)  # fmt: skip


def named(kind: str) -> str:
    """A kind with its article."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def sets_of(sample: SceneSample, kinds: list[str]) -> list[dict[str, object]]:
    """Lists of prompts to take as they are: what there is, with what there is not beside it, and all of it in one prompt."""
    present, others = ([f"a photo of {named(kind)}" for kind in names] for names in (kinds, sample.absent))
    together = " and ".join(named(kind) for kind in kinds)
    return [
        {"name": "what is there", "prompts": present},
        {"name": "and what is not", "prompts": [*present, *others]},
        {"name": "all in one", "prompts": [f"a photo of {together}", *present]},
    ]


def mask_of(scene: Scene) -> Image.Image:
    """Palette picture: pixel value 0 for background, i + 1 for object i."""
    numbers = np.zeros((scene.image.height, scene.image.width), np.uint8)
    for index, item in enumerate(scene.objects):
        numbers[item.mask] = index + 1
    picture = Image.fromarray(numbers).convert("P")
    picture.putpalette([channel for ink in INKS for channel in ink])
    return picture


def main() -> None:
    """Draw every sample and write the index."""
    OUT.mkdir(parents=True, exist_ok=True)
    rows = []
    for sample in SAMPLES:
        scene, _ = draw(sample.composition, SIZE)
        scene.image.save(OUT / f"{sample.name}.png", optimize=True)
        mask_of(scene).save(OUT / f"{sample.name}.mask.png", optimize=True)
        kinds = [item.kind for item in scene.objects]
        shown = {
            "title": sample.title,
            "note": sample.note,
            "image": f"{sample.name}.png",
            "mask": f"{sample.name}.mask.png",
            "objects": kinds,
        }
        sorted_kinds = sorted(kinds, key=lambda kind: kind != sample.target)
        prompts = [f"a photo of {named(kind)}" for kind in sorted_kinds]
        rows.append({"id": sample.name, "kind": "image", "model": "scenes-vit", **shown, "target": sample.target})
        rows.append(
            {
                "id": f"{sample.name}-prompts",
                "kind": "clip",
                "model": "clip",
                **shown,
                "prompts": prompts,
                "sets": sets_of(sample, sorted_kinds),
            }
        )
    (OUT / "index.json").write_text(json.dumps({"samples": rows}, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
