"""The pictures that ``clip`` learns from, rendered scenes and photos, and which prompts are true of each."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from embedded.recipes.photos_data import SIDE, Draw, categories, class_ids, training_photos, vary
from embedded.recipes.prompts import of_photos, of_scene
from embedded.recipes.scenes import patch_labels, render
from embedded.recipes.train_photos_vit import PATCH
from embedded.recipes.training import endless
from embedded.recipes.vits import tensors

OTHERS = 0.3  # of the photos show none of the categories


class Scenes(NamedTuple):
    """Rendered scenes, which prompts are true of them, and what their patches show."""

    images: Tensor  # uint8 (B, SIDE, SIDE, 3)
    targets: Tensor  # (B, prompts), see `prompts.of_scene`
    patches: Tensor  # int64 (B, rows, columns): the kind, len(KINDS) for background


def rendered(rng: np.random.Generator, size: int, classes: int) -> Scenes:
    """``size`` fresh scenes; ``classes`` as `prompts.of_scene` takes them."""
    scenes = [render(rng, SIDE) for _ in range(size)]
    return Scenes(
        torch.from_numpy(np.stack([np.asarray(scene.image) for scene in scenes])),
        torch.stack([of_scene(scene, classes) for scene in scenes]),
        torch.from_numpy(np.stack([patch_labels(scene, PATCH) for scene in scenes])),
    )


class Mixture:
    """Batches of scenes and photos, always the same for one ``seed``.

    ``data`` holds ``tiny_imagenet/`` with ``classes`` classes; ``size`` pictures make a batch, the share ``scenes`` of them scenes.
    """

    def __init__(self, data: Path, classes: int, size: int, scenes: float, seed: int, device: str) -> None:
        photos, self.category = training_photos(data), torch.from_numpy(categories(class_ids(data)))
        self.images, self.labels = torch.from_numpy(photos.images), torch.from_numpy(photos.classes)
        self.draw = Draw(self.category[self.labels].numpy())
        self.classes, self.size, self.scenes, self.seed, self.device = classes, size, scenes, seed, device

    def batches(self, first: int, workers: int = 1) -> Iterator[Scenes]:
        """The scenes of batches ``first``, ``first + 1``, ..., rendered in a process beside the training; in this one with 0 workers."""
        make = functools.partial(rendered, size=round(self.scenes * self.size), classes=self.classes)
        return endless(make, [self.seed, 4], first, workers)

    def complete(self, scenes: Scenes, rng: np.random.Generator, varied: bool) -> tuple[Tensor, Tensor]:
        """Pixels of the scenes and of as many photos as complete a batch, and which prompts are true of them, (B, prompts)."""
        rows = torch.from_numpy(self.draw.rows(rng, self.size - len(scenes.images), OTHERS))
        photos, labels = tensors(self.images[rows], self.device), self.labels[rows]
        pixels = torch.cat([tensors(scenes.images, self.device), vary(photos, rng) if varied else photos])
        return pixels, torch.cat([scenes.targets, of_photos(self.category[labels], labels, self.classes)]).to(self.device)

    def plain(self, number: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The same ``number`` batches at every call, their pictures as they are."""
        rng = np.random.default_rng([self.seed, 7])
        return (self.complete(scenes, rng, varied=False) for scenes in itertools.islice(self.batches(0), number))


def at_grid(patches: Tensor, grid: int) -> Tensor:
    """What the patches of a scene show, int64 (B, rows, columns), at the places of a coarser grid, (B, grid * grid)."""
    places = ((torch.arange(grid) + 0.5) * patches.shape[1] / grid).long()
    return patches[:, places][:, :, places].flatten(1)
