"""The pictures that ``clip`` learns from, photos and rendered scenes, as the teacher sees them, and what is true of the scenes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from embedded.recipes.data.pictures import PATCH, SIDE, Pictures
from embedded.recipes.data.prompts import of_scene
from embedded.recipes.data.scenes import patch_labels, render
from embedded.recipes.networks.trunk import Seen, Teacher


class Mixed(NamedTuple):
    """A batch: first photos, then ``len(targets)`` scenes."""

    seen: Seen
    targets: Tensor  # (scenes, prompts), see `prompts.of_scene`
    patches: Tensor  # int64 (scenes, rows, columns): the kind, len(KINDS) for background


def mixed(pictures: Pictures, scenes: int, teacher: Teacher, rng: np.random.Generator) -> Mixed:
    """A batch of photos; where they are ``SIDE`` wide the last ``scenes`` of them are fresh scenes instead."""
    images = pictures(rng)
    number = scenes if images.shape[1] == SIDE else 0
    made = [render(rng, SIDE) for _ in range(number)]
    if not made:
        return Mixed(teacher.see(images), torch.zeros(0), torch.zeros(0, dtype=torch.long))
    rendered = torch.from_numpy(np.stack([np.asarray(scene.image) for scene in made]))
    return Mixed(
        teacher.see(torch.cat([images[:-number], rendered])),
        torch.stack([of_scene(scene) for scene in made]),
        torch.from_numpy(np.stack([patch_labels(scene, PATCH) for scene in made])),
    )
