"""The sample scenes of the pages: ``python -m recipes.assets.scene_samples`` draws them into ``explainers/embedded/samples/scenes``.

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

from explainers.embedded.synthetic.scenes import Composition, Placement, Scene, draw
from explainers.embedded.synthetic.sprites import file_names

SIZE = 336  # three times what the models see
OUT = Path(__file__).parents[2] / "explainers" / "embedded" / "samples" / "scenes"
TOP_TO_BOTTOM_SEED = 38  # a seed whose gradient runs from top to bottom
MASK_COLOURS = [(236, 229, 216), (96, 44, 38), (38, 70, 96), (60, 92, 58), (138, 98, 40)]  # of the masks, background first


@dataclass(frozen=True)
class SceneSample:
    """A composed scene.

    name         stem of its file; ``title`` and ``note`` are shown with it
    composition  what is drawn
    target       the class to explain first
    absent       kinds of objects that are not in it
    """

    name: str
    title: str
    note: str
    composition: Composition
    target: str
    absent: tuple[str, ...]  # kinds that look like those that are there


def place(kind: str, x: float, y: float, length: float, angle: float = 0.0, *, variant: int = 0, mirrored: bool = False,
          brightness: float = 1.0) -> Placement:  # fmt: skip
    """Return the placement of an object of this ``kind``, turned by ``angle`` degrees, with its centre at ``x``, ``y`` and its longer side
    ``length`` long (fractions of the scene's side); ``variant`` is the number of its sprite. Its colours are those of the sprite.
    """
    return Placement(kind, file_names(kind)[variant], (x, y), length, angle, mirrored, 1.0, brightness)


def compose(
    background: str, first: str, second: str, *placements: Placement, seed: int = TOP_TO_BOTTOM_SEED, grain: float = 0.0
) -> Composition:
    """Return a composition of objects, at ``placements``, over a ``background`` of two colours, ``first`` and ``second``, written
    ``rrggbb``. ``seed`` draws the background, and ``grain`` is the deviation of its noise.
    """
    colours = tuple(tuple(bytes.fromhex(colour)) for colour in (first, second))
    return Composition(background, seed, placements, colours, grain)  # type: ignore[arg-type]


SAMPLES = (
    SceneSample("zebra-elephant", "Zebra and elephant", "Two animals apart: each has its own evidence.",
                compose("gradient", "d9e2e4", "d8bd8c", place("elephant", 0.71, 0.62, 0.50), place("zebra", 0.26, 0.44, 0.46)),
                "zebra", ("horse", "lion")),
    SceneSample("dog-cat", "Dog and cat", "Two pets side by side.",
                compose("paper", "cfd8c4", "cfd8c4", place("dog", 0.29, 0.52, 0.50), place("cat", 0.72, 0.50, 0.50)), "dog",
                ("lion", "horse")),
    SceneSample("spoon-fork", "Spoon and fork", "They share colour and shape; only their heads differ.",
                compose("paper", "5f7681", "5f7681", place("fork", 0.70, 0.50, 0.62), place("spoon", 0.34, 0.52, 0.55)), "fork",
                ("scissors", "hammer")),
    SceneSample("bus-car-bicycle", "Bus, car and bicycle", "Three vehicles; all have wheels.",
                compose("gradient", "c5d3dc", "a9a59c", place("bus", 0.30, 0.30, 0.46), place("car", 0.70, 0.46, 0.40),
                     place("bicycle", 0.34, 0.74, 0.40)), "bicycle", ("train", "boat")),
    SceneSample("fruit", "Banana, apple and strawberry", "A still life with overlaps.",
                compose("gradient", "34423f", "232b2c", place("banana", 0.35, 0.42, 0.50), place("apple", 0.66, 0.50, 0.40),
                     place("strawberry", 0.42, 0.72, 0.34)), "strawberry", ("mushroom", "pizza")),
    SceneSample("whale-boat", "Whale and boat", "What floats above and what swims below.",
                compose("gradient", "dfe9e6", "5b8ba4", place("boat", 0.66, 0.31, 0.44), place("whale", 0.36, 0.68, 0.56)), "whale",
                ("fish", "duck")),
    SceneSample("owl-tree", "Owl before a tree", "One object in front of the other.",
                compose("gradient", "1f2b46", "46506b", place("tree", 0.56, 0.46, 0.74), place("owl", 0.34, 0.68, 0.38)), "owl",
                ("bird", "sunflower")),
    SceneSample("lion-tiger", "Lion and tiger", "Two big cats of one colour: what tells them apart?",
                compose("stripes", "e6ddcb", "ddd2bc", place("lion", 0.30, 0.36, 0.48), place("tiger", 0.68, 0.66, 0.48)), "tiger",
                ("zebra", "cat")),
)  # fmt: skip


def with_article(kind: str) -> str:
    """Return ``kind`` with its indefinite article: "a dog", "an owl"."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def sets_of(sample: SceneSample, kinds: list[str]) -> list[dict[str, object]]:
    """Return three named lists of prompts for a sample that shows these ``kinds``: a prompt for each kind; these and prompts for absent
    kinds; and a prompt that names all kinds, followed by a prompt for each.
    """
    present, others = ([f"a photo of {with_article(kind)}" for kind in names] for names in (kinds, sample.absent))
    together = " and ".join(with_article(kind) for kind in kinds)
    return [
        {"name": "what is there", "prompts": present},
        {"name": "and what is not", "prompts": [*present, *others]},
        {"name": "all in one", "prompts": [f"a photo of {together}", *present]},
    ]


def mask_of(scene: Scene) -> Image.Image:
    """Return the mask of a scene as a palette picture: pixel value 0 for background, i + 1 for object i."""
    numbers = np.zeros((scene.image.height, scene.image.width), np.uint8)
    for index, item in enumerate(scene.objects):
        numbers[item.mask] = index + 1
    picture = Image.fromarray(numbers).convert("P")
    picture.putpalette([channel for ink in MASK_COLOURS for channel in ink])
    return picture


def main() -> None:
    """Draw every sample scene and its mask, and write them as .png with ``index.json`` to the samples' folder, `OUT`."""
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
        prompts = [f"a photo of {with_article(kind)}" for kind in sorted_kinds]
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
