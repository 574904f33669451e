"""The pictures that ``clip`` learns from, photos and rendered scenes, as the teacher sees them, and what is true of the scenes.

Making them takes longer than learning from them, so they are made once, in parts, which may be kept in a folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from explainers.embedded.synthetic.scenes import KINDS, Scene, patch_labels, render
from recipes.data.pictures import PATCH, SIDE, Pictures, recolour
from recipes.data.prompts import scene_truth
from recipes.networks.trunk import Seen, Teacher

PHOTOS, PHOTO_BATCHES = 64, 8  # photos of a batch, and batches of a part
SCENES, SCENE_BATCHES = 48, 10
SMALL_SHARE = 0.75  # share of the scenes drawn at half the size and enlarged, as small pictures of a user are
SEED = 77  # of the scenes


class Drawn(NamedTuple):
    """A batch of rendered scenes: the teacher's features of them, the share of each kind in each scene, and the kind
    that each patch shows.
    """

    seen: Seen
    kinds: Tensor  # (B, kinds): share of each kind in a scene, each row summing to 1
    patches: Tensor  # int64 (B, rows * columns): the kind, len(KINDS) for background


class Part(NamedTuple):
    """A part of the training data, stored in one file: some batches of photos and some of scenes."""

    photos: list[Seen]
    scenes: list[Drawn]


def photos(pictures: Pictures, rng: np.random.Generator) -> Tensor:
    """Return a batch of augmented photos, all of full size, uint8 (PHOTOS, SIDE, SIDE, 3), drawn from ``pictures`` with ``rng``."""
    return recolour(torch.from_numpy(np.stack([pictures.picture(rng, SIDE) for _ in range(PHOTOS)])), rng)


def scene(rng: np.random.Generator) -> tuple[Image.Image, Scene, int]:
    """Render a random scene, drawn from ``rng``, and return its picture, ``SIDE`` pixels wide, the scene, and how many pixels of the scene
    one patch is wide.
    """
    if rng.random() >= SMALL_SHARE:
        whole = render(rng, SIDE)
        return whole.image, whole, PATCH
    small = render(rng, SIDE // 2)
    return small.image.resize((SIDE, SIDE), Image.Resampling.BICUBIC), small, PATCH // 2


def draw_scenes(teacher: Teacher, seed: list[int]) -> Drawn:
    """Render a batch of random scenes drawn from ``seed``, and return what ``teacher`` sees in them, their kinds and the kind that each
    patch shows.
    """
    scenes = [scene(np.random.default_rng([*seed, number])) for number in range(SCENES)]
    return Drawn(
        teacher.see(torch.from_numpy(np.stack([np.asarray(image) for image, _, _ in scenes]))),
        torch.stack([scene_truth(whole)[: len(KINDS)] for _, whole, _ in scenes]),
        torch.from_numpy(np.stack([patch_labels(whole, patch).ravel() for _, whole, patch in scenes])),
    )


def parts(pictures: Pictures, teacher: Teacher, number: int, seed: int, folder: Path | None = None) -> Iterator[Part]:
    """Yield the first ``number`` parts of the training data, ``pictures`` and scenes as ``teacher`` sees them; with ``folder`` parts stored
    there are read, and new ones are stored.
    """
    for place in range(number):
        path = None if folder is None else folder / f"part-{seed}-{place}.pt"
        if path is not None and path.is_file():
            with torch.serialization.safe_globals([Part, Seen, Drawn]):
                yield torch.load(path, weights_only=True)
            continue
        rngs = [np.random.default_rng([seed, 2, place, batch]) for batch in range(PHOTO_BATCHES)]
        scenes = [draw_scenes(teacher, [SEED + seed, 10 + place, batch]) for batch in range(SCENE_BATCHES)]
        part = Part([teacher.see(photos(pictures, rng)) for rng in rngs], scenes)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(part, path)
        yield part
