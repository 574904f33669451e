"""Made-up birds in the layout of FunnyBirds: coloured squares for parts, and every picture without any of them."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIDE = 38  # pixels: no multiple of the rows of a map
#: Name of a part -> (colour in the map of parts, top, left, height, width) of each of its pieces.
PIECES: dict[str, list[tuple[tuple[int, int, int], int, int, int, int]]] = {
    "beak": [((255, 255, 0), 3, 20, 4, 5)],
    "eye": [((255, 255, 253), 9, 14, 2, 2), ((255, 255, 254), 9, 18, 2, 2)],
    "foot": [((255, 0, 1), 31, 10, 5, 3), ((255, 0, 2), 31, 16, 5, 3)],
    "tail": [((0, 0, 255), 18, 1, 6, 6)],
    "wing": [((0, 255, 1), 16, 12, 8, 4), ((0, 255, 2), 16, 26, 8, 4)],
}
PARTS = ("beak", "eye", "foot", "tail", "wing")
#: The forms of the parts of each class.
CLASSES = [
    {"beak": 0, "eye": 0, "foot": 0, "tail": 0, "wing": 0},
    {"beak": 0, "eye": 0, "foot": 1, "tail": 1, "wing": 1},
    {"beak": 0, "eye": 1, "foot": 1, "tail": 0, "wing": 1},
    {"beak": 1, "eye": 1, "foot": 0, "tail": 0, "wing": 1},
    {"beak": 2, "eye": 2, "foot": 2, "tail": 0, "wing": 3},
]
THINGS = [(2, 2, 6, 6), (26, 28, 6, 6), (34, 30, 3, 5)]  # of the ground: top, left, height, width


def colour_of(part: str, form: int) -> tuple[int, int, int]:
    """The colour of a part of this form in the picture."""
    shade = 60 * PARTS.index(part)
    return ((shade + 90 * form) % 256, (250 - shade + 40 * form) % 256, (130 * form + 3 * shade) % 256)


def drawn(label: int, kept: tuple[str, ...], things: list[int], grain: Any) -> Any:
    """The picture of a bird of this class with these parts and things of the ground alone, uint8 (height, width, 3)."""
    picture = np.full((SIDE, SIDE, 3), 110.0) + grain
    for thing in things:
        top, left, height, width = THINGS[thing]
        picture[top : top + height, left : left + width] = (200, 30 + 70 * thing, 90)
    picture[12:30, 10:30] = (150, 140, 120)  # the body
    for part in kept:
        for _, top, left, height, width in PIECES[part]:
            picture[top : top + height, left : left + width] = colour_of(part, CLASSES[label][part])
    return np.clip(picture, 0, 255).astype(np.uint8)


def map_of_parts(things: list[int]) -> Any:
    colours = np.zeros((SIDE, SIDE, 3), np.uint8)
    for thing in things:
        top, left, height, width = THINGS[thing]
        colours[top : top + height, left : left + width] = (204, 204, 204 + thing)
    colours[12:30, 10:30] = 170
    for pieces in PIECES.values():
        for colour, top, left, height, width in pieces:
            colours[top : top + height, left : left + width] = colour
    return colours


def save(path: Path, colours: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    alpha = np.full((*colours.shape[:2], 1), 255, np.uint8)
    Image.fromarray(np.concatenate([colours, alpha], -1)).save(path)


def made_up_birds(folder: Path, labels: tuple[int, ...]) -> None:
    """Write a bird of each of these classes to ``folder``: the first has no things around it, the others two or three."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, label in enumerate(labels):
        things = list(range(min(number + 1, len(THINGS)))) if number else []
        grain = np.random.default_rng(number).normal(0, 12, (SIDE, SIDE, 1))
        rows.append({"class_idx": label, "bg_objects": "".join(f"{thing}," for thing in things), "bg_scale_x": "5,6"})
        save(folder / f"test/{label}/{number:06d}.png", drawn(label, PARTS, things, grain))
        save(folder / f"test_part_map/{label}/{number:06d}.png", map_of_parts(things))
        without = folder / f"test_interventions/{label}/{number:06d}"
        for size in range(len(PARTS) + 1):
            for kept in combinations(PARTS, size):
                save(without / f"body_{'_'.join(kept)}.png", drawn(label, kept, things, grain))
        for thing in things:
            rest = [other for other in things if other != thing]
            save(without / f"background_interventions/{thing}.png", drawn(label, PARTS, rest, grain))
    forms = {part: [{"model": f"{part}{form}.glb"} for form in range(4)] for part in PARTS}
    (folder / "dataset_test.json").write_text(json.dumps(rows), "utf-8")
    (folder / "parts.json").write_text(json.dumps(forms), "utf-8")
    classes = [{"class_idx": number, "parts": parts} for number, parts in enumerate(CLASSES)]
    (folder / "classes.json").write_text(json.dumps(classes), "utf-8")
