"""Pictures as two teachers see them, kept on disk so that a training can return to each several times.

A view is one augmented picture (``data.pictures``). Stored of it are the features after stage 5 of EfficientNet-Lite0's trunk, from
which any later cut is computed, what that network finds at each place, and the logits of EfficientNet-Lite0 and -Lite2. A view of 224
pixels takes 111 kB, one of 128 pixels 39 kB.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from explainers.embedded.architectures import fold_batch_norms
from recipes.data.pictures import PATCH, SIDE, SMALL_SIDE
from recipes.networks.trunk import EARLY_STAGE, FAST_DTYPE, Teacher, efficientnet, normalise

LOCAL_DIRECTIONS = 160  # of the teacher's 320, the largest first: half the disk for the part that the classifier reads most
CHANNELS, CLASSES = 112, 1000
SMALL_LOGIT_SCALE = 0.62  # the teachers' logits spread 1.12 on photos of 224 pixels and 1.80 on the same photos of 128


class Views(NamedTuple):
    """The teachers' outputs for a batch of pictures of one size, in float16: the trunk's features, the last features at each place, and the
    logits.
    """

    features: Tensor  # (B, places, CHANNELS), after stage 5
    local: Tensor  # (B, places, LOCAL_DIRECTIONS): what Lite0's last layer finds at each place
    logits: Tensor  # (B, CLASSES), the mean of both teachers' logits, each minus its own mean, spread alike for both sizes of picture


class Teachers:
    """EfficientNet-Lite0, whose trunk the student keeps, and the larger Lite2; both answer pictures of any size."""

    def __init__(self) -> None:
        self.lite0 = Teacher(EARLY_STAGE)
        self.lite2 = fold_batch_norms(efficientnet(2)).to(FAST_DTYPE, memory_format=torch.channels_last)

    @torch.inference_mode()
    def answer(self, images: Tensor) -> Tensor:
        """Return the logits of Lite2, (B, CLASSES), for pictures, the ``images``, uint8 (B, H, W, 3)."""
        pixels = normalise(images).to(FAST_DTYPE).contiguous(memory_format=torch.channels_last)
        answers: Tensor = self.lite2(pixels).float()
        return answers

    def see(self, images: Tensor) -> Views:
        """Return the teachers' views of pictures, the ``images``, uint8 (B, H, W, 3) with sides in multiples of 32."""
        seen = self.lite0.see(images)
        both = torch.stack([seen.logits.float(), self.answer(images)])
        logits = (both - both.mean(-1, keepdim=True)).mean(0)
        scale = SMALL_LOGIT_SCALE if images.shape[1] == SMALL_SIDE else 1.0
        return Views(seen.tokens, (scale * seen.local[..., :LOCAL_DIRECTIONS]).half(), (scale * logits).half())

    @property
    def readout(self) -> Tensor:
        """The matrix (CLASSES, LOCAL_DIRECTIONS) that turns the mean of ``Views.local`` over places into logits, nearly."""
        return self.lite0.readout[:, :LOCAL_DIRECTIONS]

    def later_stage(self, stages: int) -> nn.Sequential:
        """Return the layers of the trunk from stage 5 to the cut after stage ``stages``, in `FAST_DTYPE`."""
        return self.lite0.late[: stages - EARLY_STAGE]


class ViewStore:
    """A store of views in files of a folder, one set of files for each size of picture; it grows until ``capacity`` views of each are
    kept.
    """

    def __init__(self, folder: Path, capacity: int) -> None:
        self.folder, self.capacity = folder, capacity
        folder.mkdir(parents=True, exist_ok=True)
        self.counts: dict[int, int] = dict.fromkeys((SIDE, SMALL_SIDE), 0)
        if (folder / "counts.json").exists():
            self.counts = {int(side): count for side, count in json.loads((folder / "counts.json").read_text("utf-8")).items()}
        self.files: dict[int, list[NDArray[np.float16]]] = {side: self._open(side) for side in self.counts}

    def _open(self, side: int) -> list[NDArray[np.float16]]:
        places = (side // PATCH) ** 2
        shapes = {"features": (places, CHANNELS), "local": (places, LOCAL_DIRECTIONS), "logits": (CLASSES,)}
        files: list[NDArray[np.float16]] = []
        for name, shape in shapes.items():
            path = self.folder / f"{name}-{side}.f16"
            mode = "r+" if path.exists() else "w+"
            files.append(np.memmap(path, np.float16, mode, shape=(self.capacity, *shape)))  # sparse: takes room as it is written
        return files

    def add(self, views: Views) -> None:
        """Store ``views``, as far as there is room for them."""
        side = round(views.features.shape[1] ** 0.5) * PATCH
        start = self.counts[side]
        end = min(self.capacity, start + len(views.features))
        for file, values in zip(self.files[side], views, strict=True):
            file[start:end] = values[: end - start].numpy()
        self.counts[side] = end
        (self.folder / "counts.partial").write_text(json.dumps(self.counts), "utf-8")
        (self.folder / "counts.partial").replace(self.folder / "counts.json")

    def draw(self, rng: np.random.Generator, side: int, number: int) -> Views:
        """Return ``number`` random stored views, drawn by ``rng``, of pictures ``side`` pixels wide."""
        rows = np.sort(rng.integers(self.counts[side], size=number))
        features, local, logits = (torch.from_numpy(np.ascontiguousarray(file[rows])) for file in self.files[side])
        return Views(features, local, logits)


class Batches:
    """A source of training batches of ``size`` views. Every ``fresh_every``-th batch is made by ``make`` and added to ``store``, the others
    are drawn from the store.
    """

    def __init__(self, store: ViewStore, make: Callable[[np.random.Generator], Views], seed: int, size: int, fresh_every: int) -> None:
        self.store, self.make, self.seed, self.size, self.fresh_every = store, make, seed, size, fresh_every

    def __call__(self, step: int) -> Views:
        """Return the batch of training step ``step``."""
        rng = np.random.default_rng([self.seed, 2, step])
        counts = self.store.counts
        if step % self.fresh_every == 0 or min(counts.values()) < self.size:
            views = self.make(rng)
            self.store.add(views)
            return views
        share = counts[SMALL_SIDE] / sum(counts.values())
        return self.store.draw(rng, SMALL_SIDE if rng.random() < share else SIDE, self.size)
