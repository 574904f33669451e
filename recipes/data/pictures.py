"""The pictures that ``photos-vit`` and ``clip`` learn from: parts of photos, several photos in one, other colours, patches painted grey.

Photos come from the folders ``sharp`` (any JPEG files below it) and ``tiny_imagenet``; no labels are read. Every ``HELD_BACK``-th file of
``sharp`` stays out, to choose and calibrate with.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from explainers.models.removal.patches import paint_patches

SHARP, TINY = "sharp", "tiny_imagenet"
HELD_BACK = 20
PATCH = 16  # pixels that one token stands for
SIDE, SMALL_SIDE = 224, 128  # pixels
SMALL_SHARE = 0.3  # share of the batches whose pictures are SMALL_SIDE wide
TINY_SHARE = {SIDE: 0.12, SMALL_SIDE: 0.5}  # share of tiny photos: enlarged they are blurred, so fewer where they fill the picture
MOSAIC_SHARE, PAIR_SHARE, GREY_SHARE = 0.2, 0.1, 0.1
GREY = 127  # the middle of what the trunk reads


def sharp_files(data: Path, held_back: bool) -> list[Path]:
    """Return the paths of the photos in the folder ``data`` to train on, or (``held_back``) of every ``HELD_BACK``-th, which are not
    trained on. Raises FileNotFoundError that says what to give instead.
    """
    paths = sorted((data / SHARP).rglob("*.jpg"))
    if not paths:
        raise FileNotFoundError(f"{data / SHARP} holds no .jpg files; --data must name a folder that holds {SHARP}/ and {TINY}/")
    return [path for number, path in enumerate(paths) if (number % HELD_BACK == 0) == held_back]


def tiny_photos(data: Path, split: str = "train") -> list[bytes]:
    """Return the encoded pictures in Tiny ImageNet's Parquet files of the ``split`` in the folder ``data``, in order. Raises
    FileNotFoundError if there are none.
    """
    from pyarrow import parquet

    paths = sorted((data / TINY).glob(f"{split}*.parquet"))
    if not paths:
        raise FileNotFoundError(f"{data / TINY} holds no {split}*.parquet; --data must name a folder that holds {SHARP}/ and {TINY}/")
    return [row for path in paths for row in parquet.read_table(path, columns=["image"])["image"].to_pylist()]


def crop_centre(image: Image.Image, side: int = SIDE) -> NDArray[np.uint8]:
    """Scale the shorter side of ``image`` to ``side`` pixels, cut out the middle and return it, uint8 (side, side, 3); as the models' own
    preprocessing does.
    """
    image = image.convert("RGB")
    factor = side / min(image.size)
    image = image.resize((round(image.width * factor), round(image.height * factor)), Image.Resampling.BICUBIC)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return np.asarray(image.crop((left, top, left + side, top + side)))


class Pictures:
    """A source of training batches of ``size`` pictures from two sets of photos in the folder ``data``; calling it with a random generator
    gives one batch.
    """

    def __init__(self, data: Path, size: int) -> None:
        self.sharp, self.tiny, self.size = sharp_files(data, held_back=False), tiny_photos(data), size

    def part(self, rng: np.random.Generator, width: int, height: int, tiny: float, least: float) -> NDArray[np.uint8]:
        """Cut a random part, drawn by ``rng``, at least the share ``least`` of its area, out of a random photo, which is with probability
        ``tiny`` one of Tiny ImageNet; return it scaled to (height, width, 3), at random mirrored.
        """
        if rng.random() < tiny:
            image = Image.open(io.BytesIO(self.tiny[rng.integers(len(self.tiny))])).convert("RGB")
            least = max(least, 0.5)
        else:
            image = Image.open(self.sharp[rng.integers(len(self.sharp))]).convert("RGB")
        area, shape = rng.uniform(least, 1), width / height * np.exp(rng.uniform(-0.25, 0.25))
        tall = min(np.sqrt(area * image.width * image.height / shape), image.height, image.width / shape)
        wide = tall * shape
        left, top = rng.random() * max(0, image.width - wide), rng.random() * max(0, image.height - tall)
        box = (left, top, min(left + wide, image.width), min(top + tall, image.height))
        part = image.resize((width, height), Image.Resampling.BICUBIC, box, reducing_gap=2.0)
        return np.asarray(part)[:, :: rng.choice((-1, 1))]

    def picture(self, rng: np.random.Generator, side: int) -> NDArray[np.uint8]:
        """Compose a training picture of ``side`` pixels, uint8 (side, side, 3), as drawn from ``rng``: a part of one photo, or, at the full
        side, of two side by side or one above the other, or of four.
        """
        tiny, kind, half = TINY_SHARE[side], rng.random(), side // 2
        if side == SIDE and kind < MOSAIC_SHARE:
            cells = [self.part(rng, half, half, 2 * tiny, 0.4) for _ in range(4)]
            return np.concatenate([np.concatenate(cells[:2], 1), np.concatenate(cells[2:], 1)])
        if side == SIDE and kind < MOSAIC_SHARE + PAIR_SHARE:
            sides = [self.part(rng, half, side, tiny, 0.3) for _ in range(2)]
            return np.concatenate(sides, 1) if rng.random() < 0.8 else np.concatenate([cell.swapaxes(0, 1) for cell in sides])
        return self.part(rng, side, side, tiny, 0.2 if side == SIDE else 0.08)

    def __call__(self, rng: np.random.Generator) -> Tensor:
        """Return a batch of augmented pictures, uint8 (size, side, side, 3), all drawn from ``rng``."""
        side = SMALL_SIDE if rng.random() < SMALL_SHARE else SIDE
        return recolour(torch.from_numpy(np.stack([self.picture(rng, side) for _ in range(self.size)])), rng)


def recolour(images: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a changed copy of a batch of pictures, the ``images``, uint8 (B, H, W, 3): each is recoloured with probability 1/2 and,
    apart from that, has random patches painted grey with probability ``GREY_SHARE``. ``rng`` draws all of it.
    """
    number, grid = len(images), (images.shape[1] // PATCH, images.shape[2] // PATCH)

    def between(low: float, high: float, *more: int) -> Tensor:
        return torch.from_numpy(rng.uniform(low, high, (number, 1, 1, *(more or (1,)))).astype(np.float32))

    is_varied = torch.from_numpy(rng.random(number) < 0.5)
    pixels = images.float()
    grey = pixels.mean(3, keepdim=True)
    varied = GREY + ((grey + (pixels - grey) * between(0.5, 1.5)) - GREY) * between(0.6, 1.4) + between(-25, 25, 3)
    pixels = torch.where(is_varied[:, None, None, None], varied, pixels).permute(0, 3, 1, 2)
    keep = torch.from_numpy((rng.random((number, *grid)) > rng.uniform(0.1, 0.7)) | (rng.random((number, 1, 1)) > GREY_SHARE))
    pixels = paint_patches(pixels - GREY, keep.flatten(1).float(), grid) + GREY
    return pixels.clamp(0, 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
