"""The photos that ``photos-vit`` learns from and is measured on: categories, reading, drawing, varying, mixing.

The data folder holds ``tiny_imagenet/``: Parquet files with the columns ``image`` (an encoded picture), ``wnid`` and ``box``, and
``classes.tsv``, which names the classes by their WordNet ids. It is not part of the project.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

SIDE = 64  # pixels
FOLDER = "tiny_imagenet"
SPLITS = {"train": "train-*.parquet", "val": "val.parquet"}
# What a person would call them -> the classes of the data. A class that is only nearly one (a cougar is no lion, a guinea pig no
# pig, a teddy no bear) is in no category; neither are things that the data lacks: horse, tiger, aeroplane, bicycle, flower, people.
CATEGORIES = {
    "dog": ("n02085620", "n02094433", "n02099601", "n02099712", "n02106662", "n02113799"),
    "cat": ("n02123045", "n02123394", "n02124075"),
    "lion": ("n02129165",),
    "bear": ("n02132136",),
    "elephant": ("n02504458",),
    "monkey": ("n02480495", "n02481823", "n02486410"),  # orangutan, chimpanzee, baboon
    "cow": ("n02403003", "n02410509"),  # ox, bison
    "camel": ("n02437312",),
    "bird": ("n01855672", "n02002724", "n02058221"),  # goose, stork, albatross
    "penguin": ("n02056570",),
    "fish": ("n01443537",),  # goldfish only
    "snake": ("n01742172",),
    "frog": ("n01641577", "n01644900"),
    "spider": ("n01774384", "n01774750"),
    "butterfly": ("n02279972", "n02281406"),
    "jellyfish": ("n01910747",),
    "car": ("n02814533", "n03100240", "n03670208", "n04285008"),  # station wagon, convertible, limousine, sports car
    "bus": ("n04146614", "n04487081"),
    "train": ("n02917067", "n03393912"),
    "boat": ("n03447447", "n03662601"),  # gondola, lifeboat
    "tractor": ("n04465501",),
    "bridge": ("n04311004", "n04366367", "n04532670"),
    "teapot": ("n04398044",),
    "bottle": ("n02823428", "n03937543", "n03983396"),
    "umbrella": ("n04507155",),
    "ball": ("n02802426", "n04118538", "n04540053"),  # basketball, rugby ball, volleyball
    "banana": ("n07753592",),
    "orange": ("n07747607",),
    "pizza": ("n07873807",),
    "mushroom": ("n07734744",),
    "seashore": ("n09428293",),
    "mountain": ("n09193705",),
}
NAMES = tuple(CATEGORIES)
BALANCE = 0.5  # 0: every photo is drawn as often, 1: every category


class Photos(NamedTuple):
    """Pictures and what they show."""

    images: NDArray[np.uint8]  # (N, SIDE, SIDE, 3)
    classes: NDArray[np.int64]  # (N,), places in `class_ids`
    boxes: NDArray[np.int64]  # (N, 4): x0, y0, x1, y1 of the object, in pixels, both ends inside

    def where(self, chosen: NDArray[np.bool_]) -> Photos:
        """Some of them."""
        return Photos(*(column[chosen] for column in self))


def class_ids(data: Path) -> list[str]:
    """The WordNet ids of all classes. Raises FileNotFoundError that says what to give instead."""
    path = data / FOLDER / "classes.tsv"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; --data must name a folder that holds {FOLDER}/")
    with path.open(encoding="utf8") as lines:
        return [row["wnid"] for row in csv.DictReader(lines, delimiter="\t")]


def categories(classes: Sequence[str]) -> NDArray[np.int64]:
    """For each class its category's place in ``NAMES``, -1 for none. Raises ValueError for a category without photos."""
    places = {wnid: place for place, wnids in enumerate(CATEGORIES.values()) for wnid in wnids}
    found = np.array([places.get(wnid, -1) for wnid in classes], np.int64)
    if missing := [name for place, name in enumerate(NAMES) if place not in found]:
        raise ValueError(f"the data has no class of {', '.join(missing)}")
    return found


def read(data: Path, split: str) -> Photos:
    """All photos of ``train`` or ``val``, decoded. Raises FileNotFoundError; ImportError that names the extra to install."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError("reading Parquet files needs pyarrow: pip install 'vitrine[train]'") from error
    place = {wnid: index for index, wnid in enumerate(class_ids(data))}
    paths = sorted((data / FOLDER).glob(SPLITS[split]))
    if not paths:
        raise FileNotFoundError(f"{data / FOLDER} holds no {SPLITS[split]}")
    files = [parquet.ParquetFile(path) for path in paths]
    number = sum(file.metadata.num_rows for file in files)
    photos = Photos(np.empty((number, SIDE, SIDE, 3), np.uint8), np.empty(number, np.int64), np.empty((number, 4), np.int64))
    rows = (row for file in files for batch in file.iter_batches(2500) for row in batch.to_pylist())
    for index, row in enumerate(rows):
        photos.images[index] = Image.open(io.BytesIO(row["image"])).convert("RGB")
        photos.classes[index], photos.boxes[index] = place[row["wnid"]], row["box"]
    return photos


def training_photos(data: Path) -> Photos:
    """The training photos without those whose very pixels are also among the validation photos."""
    held_out = set(map(_digest, read(data, "val").images))
    photos = read(data, "train")
    return photos.where(np.array([_digest(image) not in held_out for image in photos.images]))


def held_out_photos(data: Path) -> tuple[Photos, NDArray[np.int64]]:
    """The validation photos that show one of the categories, and which."""
    photos, known = read(data, "val"), categories(class_ids(data))
    chosen = known[photos.classes] >= 0
    return photos.where(chosen), known[photos.classes[chosen]]


def _digest(image: NDArray[np.uint8]) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16).digest()


class Draw:
    """Which photos a batch holds: ``others`` of them show none of the categories, the rest are balanced (``BALANCE``)."""

    def __init__(self, labels: NDArray[np.int64]) -> None:
        self.known, self.others = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
        counts = np.bincount(labels[self.known])
        self.until = np.cumsum(counts[labels[self.known]] ** -BALANCE)

    def rows(self, rng: np.random.Generator, size: int, others: float) -> NDArray[np.int64]:
        """(size,) rows; ``others`` is the chance that a photo is of no category."""
        rows = self.known[np.searchsorted(self.until, rng.random(size) * self.until[-1], side="right")]
        if len(self.others):
            rows = np.where(rng.random(size) < others, rng.choice(self.others, size), rows)
        return rows


def vary(pixels: Tensor, rng: np.random.Generator) -> Tensor:
    """(B, 3, H, W) from -1 to 1, each cropped, flipped, turned and tinted in its own way."""
    number = len(pixels)

    def between(low: float, high: float, *more: int) -> NDArray[np.float32]:
        return rng.uniform(low, high, (number, *more)).astype(np.float32)

    zoom, stretch, turn = between(0.6, 1.05), np.exp(between(-0.15, 0.15)), between(-0.15, 0.15)
    theta = np.zeros((number, 2, 3), np.float32)
    theta[:, 0, 0] = zoom * stretch * rng.choice([-1, 1], number)
    theta[:, 1, 1] = zoom / stretch
    theta[:, 0, 1], theta[:, 1, 0] = turn, -turn
    theta[:, :, 2] = between(-1, 1, 2) * np.maximum(1.05 - zoom, 0)[:, None]
    grid = F.affine_grid(torch.from_numpy(theta).to(pixels.device), list(pixels.shape), align_corners=False)
    pixels = F.grid_sample(pixels, grid, padding_mode="reflection", align_corners=False)
    grey = pixels.mean(1, keepdim=True)
    factors = (between(0.6, 1.4, 1, 1, 1), between(0.7, 1.3, 1, 1, 1), between(-0.2, 0.2, 3, 1, 1))
    saturation, contrast, light = (torch.from_numpy(factor).to(pixels.device) for factor in factors)
    return ((grey + (pixels - grey) * saturation) * contrast + light).clamp(-1, 1)


def mosaic(pixels: Tensor, targets: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Four photos of half the size in each picture; its targets (B, K) are the means of theirs."""
    small = F.avg_pool2d(pixels, 2)
    orders = [torch.from_numpy(rng.permutation(len(pixels))).to(pixels.device) for _ in range(4)]
    tiles = [small[order] for order in orders]
    rows = [torch.cat(tiles[:2], 3), torch.cat(tiles[2:], 3)]
    return torch.cat(rows, 2), torch.stack([targets[order] for order in orders]).mean(0)


def cut_mix(pixels: Tensor, targets: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """A rectangle from another photo, and as large a part of its targets (Yun et al., "CutMix", ICCV 2019)."""
    height, width = pixels.shape[-2:]
    share = math.sqrt(1 - rng.random())
    tall, wide = round(height * share), round(width * share)
    top, left = rng.integers(height - tall + 1), rng.integers(width - wide + 1)
    order = torch.from_numpy(rng.permutation(len(pixels))).to(pixels.device)
    mixed = pixels.clone()
    mixed[:, :, top : top + tall, left : left + wide] = pixels[order, :, top : top + tall, left : left + wide]
    part = tall * wide / (height * width)
    return mixed, targets * (1 - part) + targets[order] * part


def transplant(pixels: Tensor, targets: Tensor, boxes: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """What the box (B, 4) of each photo holds, in the same place of another photo: what stands around an object then tells nothing of it.

    Targets (B, K) are those of the object's photo, and of the other as far as its own box is still seen, in proportion of their areas.
    """
    height, width = pixels.shape[-2:]
    rows, columns = torch.arange(height).view(-1, 1), torch.arange(width)
    x0, y0, x1, y1 = boxes.T[:, :, None, None]
    inside = ((columns >= x0) & (columns <= x1) & (rows >= y0) & (rows <= y1)).to(pixels.device)
    order = torch.from_numpy(rng.permutation(len(pixels))).to(pixels.device)
    own, other = inside.sum((1, 2)), (inside[order] & ~inside).sum((1, 2))
    share = (own / (own + other).clamp(min=1))[:, None]
    return torch.where(inside[:, None], pixels, pixels[order]), targets * share + targets[order] * (1 - share)
