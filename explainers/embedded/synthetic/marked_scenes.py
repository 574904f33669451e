"""Scenes of one thing with a mark in a corner that gives a class away: a shortcut that is planted, so that where the evidence is, is known.

In training the mark is that of the thing. In a scene of conflict it is that of another kind: a model that says that kind can have it from
the mark alone.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from explainers.embedded.synthetic.scenes import Scene, render

KINDS = ("zebra", "elephant", "dog", "car", "airplane", "pizza", "guitar", "tree")
SIDE, PATCH = 64, 8  # pixels
MARK_SIDE = 16  # pixels: two patches wide and two high, on whole patches
COLOURS = ((200, 30, 30), (30, 150, 40), (40, 60, 200), (225, 180, 20))  # each of two marks, one with upright and one with lying stripes
STRIPE_WIDTH = 4  # pixels
MIN_SEEN_SHARE = 0.5  # least share of the thing that the mark leaves visible

#: The meaning of the mark: the kind of the thing, another kind, or nothing, where there is no mark.
MarkSays = Literal["same", "other", "nothing"]


class MarkedScene(NamedTuple):
    """A picture (``image``) of one thing and a mark, the truth about both, and their masks.

    thing  index in KINDS of the thing in the picture
    mark   index in KINDS of the kind that the mark stands for; None if there is no mark
    """

    image: Image.Image
    thing: int
    mark: int | None
    thing_mask: NDArray[np.bool_]  # (SIDE, SIDE)
    mark_mask: NDArray[np.bool_]  # (SIDE, SIDE), false throughout where there is no mark


def mark_pixels(kind: int) -> NDArray[np.uint8]:
    """Return the mark of a kind as pixels (MARK, MARK, 3): white with upright or lying stripes of one of four colours."""
    stripes = np.arange(MARK_SIDE) // STRIPE_WIDTH % 2 == 0
    where = np.tile(stripes, (MARK_SIDE, 1)) if kind % 2 else np.tile(stripes[:, None], (1, MARK_SIDE))
    return np.where(where[..., None], np.array(COLOURS[kind // 2], np.uint8), np.uint8(255))


def marked_scene(rng: np.random.Generator, says: MarkSays = "same") -> MarkedScene:
    """Draw a random scene of one thing by ``rng``, with a mark in one corner, and return it; ``says`` chooses the kind that the mark stands
    for.
    """
    thing = int(rng.integers(len(KINDS)))
    other = int((thing + rng.integers(1, len(KINDS))) % len(KINDS))
    mark = {"same": thing, "other": other, "nothing": None}[says]
    top, left = ((SIDE - MARK_SIDE) * int(rng.integers(2)) for _ in range(2))
    mark_mask = np.zeros((SIDE, SIDE), bool)
    mark_mask[top : top + MARK_SIDE, left : left + MARK_SIDE] = mark is not None
    while True:
        scene: Scene = render(rng, SIDE, [KINDS[thing]])
        mask = scene.objects[0].mask
        if (mask & ~mark_mask).sum() >= MIN_SEEN_SHARE * mask.sum():
            break
    pixels = np.array(scene.image)
    if mark is not None:
        pixels[mark_mask] = mark_pixels(mark).reshape(-1, 3)
    return MarkedScene(Image.fromarray(pixels), thing, mark, mask & ~mark_mask, mark_mask)
