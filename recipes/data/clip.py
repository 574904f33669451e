"""The rendered scenes that ``clip`` learns from, as the teacher sees them, and what is true of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from explainers.embedded.synthetic.scenes import KINDS, Scene, patch_labels, render
from recipes.data.pictures import PATCH, SIDE
from recipes.data.prompts import scene_truth
from recipes.networks.trunk import Seen, Teacher

SCENES = 48  # scenes of a batch
SMALL_SHARE = 0.75  # share of the scenes drawn at half the size and enlarged, as small pictures of a user are


class Drawn(NamedTuple):
    """A batch of rendered scenes: the teacher's features of them, the share of each kind in each scene, and the kind
    that each patch shows.
    """

    seen: Seen
    kinds: Tensor  # (B, kinds): share of each kind in a scene, each row summing to 1
    patches: Tensor  # int64 (B, rows * columns): the kind, len(KINDS) for background


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
