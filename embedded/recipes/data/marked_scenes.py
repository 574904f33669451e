"""Scenes of one thing with a mark in a corner that gives a class away: a shortcut that is planted, so that where the evidence is, is known.

In training the mark is that of the thing. In a scene of conflict it is that of another kind: a model that says that kind can have it from
the mark alone.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from embedded.recipes.data.scenes import Scene, render

KINDS = ("zebra", "elephant", "dog", "car", "airplane", "pizza", "guitar", "tree")
SIDE, PATCH = 64, 8  # pixels
MARK = 16  # pixels: two patches wide and two high, on whole patches
COLOURS = ((200, 30, 30), (30, 150, 40), (40, 60, 200), (225, 180, 20))  # of two marks each, the one upright, the other lying
STRIPE = 4  # pixels
LEAST_SEEN = 0.5  # of the thing beside the mark

#: What the mark says: the kind of the thing, another kind, or nothing, for there is none.
MarkSays = Literal["same", "other", "nothing"]


class MarkedScene(NamedTuple):
    """A picture, and the truth about it.

    thing  index in KINDS of what is seen; mark  that of what the mark says, None where there is none
    """

    image: Image.Image
    thing: int
    mark: int | None
    thing_mask: NDArray[np.bool_]  # (SIDE, SIDE)
    mark_mask: NDArray[np.bool_]  # (SIDE, SIDE), false throughout where there is no mark


def mark_pixels(kind: int) -> NDArray[np.uint8]:
    """The mark of a kind (MARK, MARK, 3): white with stripes of one of four colours, upright or lying."""
    stripes = np.arange(MARK) // STRIPE % 2 == 0
    where = np.tile(stripes, (MARK, 1)) if kind % 2 else np.tile(stripes[:, None], (1, MARK))
    return np.where(where[..., None], np.uint8(COLOURS[kind // 2]), np.uint8(255))


def marked_scene(rng: np.random.Generator, says: MarkSays = "same") -> MarkedScene:
    """A scene of one thing, and in one of its corners the mark that ``says`` this of it."""
    thing = int(rng.integers(len(KINDS)))
    other = int((thing + rng.integers(1, len(KINDS))) % len(KINDS))
    mark = {"same": thing, "other": other, "nothing": None}[says]
    top, left = ((SIDE - MARK) * int(rng.integers(2)) for _ in range(2))
    mark_mask = np.zeros((SIDE, SIDE), bool)
    mark_mask[top : top + MARK, left : left + MARK] = mark is not None
    while True:
        scene: Scene = render(rng, SIDE, [KINDS[thing]])
        mask = scene.objects[0].mask
        if (mask & ~mark_mask).sum() >= LEAST_SEEN * mask.sum():
            break
    pixels = np.array(scene.image)
    if mark is not None:
        pixels[mark_mask] = mark_pixels(mark).reshape(-1, 3)
    return MarkedScene(Image.fromarray(pixels), thing, mark, mask & ~mark_mask, mark_mask)
