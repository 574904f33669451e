"""Photos from outside that no training saw: single ones with their synset (``imagen_test``), and COCO's with outlines (``coco128``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from recipes.data.pictures import PATCH, SIDE, crop_centre
from recipes.data.prompts import classes

SINGLE_FOLDER, COCO = "imagen_test", "coco128"
GRID = SIDE // PATCH
SEED = 20_250_103
MIN_COVERED_SHARE = 0.02  # least share of the picture that a thing must cover to be asked for
#: Categories of COCO, each with the word that ImageNet's names and groups use for it.
OTHER_WORDS = {"airplane": "airliner", "tv": "television", "bench": "park bench", "oven": "stove"}
#: Categories of COCO for which ImageNet has no class.
UNCLASSED = frozenset({
    "apple", "cake", "carrot", "donut", "fork", "frisbee", "giraffe", "kite", "knife", "person", "sandwich", "skateboard", "snowboard",
    "surfboard", "toothbrush",
})  # fmt: skip


@dataclass(frozen=True)
class LabelledPhotos:
    """Labelled photos, uint8 (N, SIDE, SIDE, 3): their WordNet synsets, and a word for each."""

    images: Tensor
    synsets: list[str]
    words: list[str]

    def truth(self) -> Tensor:
        """Return which classes are right for each photo, bool (N, 1000): those that are its synset or below it in WordNet."""
        file = resources.files("explainers.embedded").joinpath("labels", "detection.json")
        table: dict[str, list[int]] = json.loads(file.read_text("utf-8"))
        rows = torch.zeros(len(self.synsets), len(classes()), dtype=torch.bool)
        for row, synset in zip(rows, self.synsets, strict=True):
            row[table[synset]] = True
        return rows


def missing_reason(data: Path | None, folder: str = SINGLE_FOLDER) -> str | None:
    """Return why there are no photos to measure on, in ``folder`` of the folder ``data`` (None if not given); None if there are."""
    if data is None:
        return f"needs --data DIR, the folder that holds {SINGLE_FOLDER}/ and {COCO}/"
    return None if (data / folder).is_dir() else f"{data} lacks {folder}/"


def read_photos(data: Path, most: int | None = None) -> LabelledPhotos:
    """Return the photos of ``imagen_test`` in the folder ``data``, with their labels, or a random ``most`` of them, always the same."""
    paths = sorted((data / SINGLE_FOLDER).glob("*.jpg"))
    if most is not None and most < len(paths):
        paths = [paths[i] for i in sorted(np.random.default_rng(SEED).choice(len(paths), most, replace=False))]
    names = [path.stem.split("_", 2) for path in paths]
    images = torch.from_numpy(np.stack([crop_centre(Image.open(path)) for path in paths]))
    return LabelledPhotos(images, [name[0] for name in names], [name[2].replace("_", " ") for name in names])


@dataclass(frozen=True)
class CategoryMask:
    """All things of one category in a photo, named by ``word``: one mask of their outlines, and one of their boxes."""

    word: str
    mask: NDArray[np.bool_]  # (SIDE, SIDE), of the outlines
    boxed: NDArray[np.bool_]  # (SIDE, SIDE), of the boxes


def coverage(mask: NDArray[np.bool_], grid: int = GRID) -> Tensor:
    """Return the share of each patch where ``mask`` (SIDE, SIDE) is true, (grid, grid)."""
    return F.adaptive_avg_pool2d(torch.from_numpy(mask)[None].double(), grid)[0]


@cache
def known_classes() -> dict[str, list[int]]:
    """Return a dict from every label, synonym and group of ImageNet's classes to the indices of the classes that have it."""
    classes_of_word: dict[str, list[int]] = {}
    for index, row in enumerate(classes()):
        for word in {row["label"], *row["synonyms"], *row["groups"]}:
            classes_of_word.setdefault(word, []).append(index)
    return classes_of_word


def read_coco(data: Path) -> Iterator[tuple[Image.Image, list[CategoryMask]]]:
    """Yield COCO's photos in the folder ``data``, SIDE by SIDE, each with masks of the categories that cover enough of it and have an
    outline.
    """
    whole = json.loads((data / COCO / "annotations" / "instances_train2017.json").read_text("utf-8"))
    names = {row["id"]: OTHER_WORDS.get(row["name"], row["name"]) for row in whole["categories"]}
    for row in whole["images"]:
        image = Image.open(data / COCO / "train2017" / row["file_name"])
        objects = []
        notes_of_photo = [note for note in whole["annotations"] if note["image_id"] == row["id"]]
        for category in dict.fromkeys(note["category_id"] for note in notes_of_photo):
            notes = [note for note in notes_of_photo if note["category_id"] == category]
            if any(note["iscrowd"] for note in notes):
                continue
            mask = fill_outlines(image.size, [shape for note in notes for shape in note["segmentation"]])
            boxed = fill_outlines(image.size, [corners(note["bbox"]) for note in notes])
            if mask.mean() >= MIN_COVERED_SHARE:
                objects.append(CategoryMask(names[category], mask, boxed))
        if objects:
            yield Image.fromarray(crop_centre(image)), objects


def read_unclassed(data: Path) -> Tensor:
    """Return COCO's photos in the folder ``data`` on which people marked only things that ImageNet has no class for: uint8 (N, SIDE, SIDE,
    3).
    """
    whole = json.loads((data / COCO / "annotations" / "instances_train2017.json").read_text("utf-8"))
    names = {row["id"]: row["name"] for row in whole["categories"]}
    shown: dict[int, set[str]] = {}
    for note in whole["annotations"]:
        shown.setdefault(note["image_id"], set()).add(names[note["category_id"]])
    rows = [row for row in whole["images"] if row["id"] in shown and shown[row["id"]] <= UNCLASSED]
    pictures = [crop_centre(Image.open(data / COCO / "train2017" / row["file_name"])) for row in rows]
    return torch.from_numpy(np.stack(pictures)) if pictures else torch.empty(0, SIDE, SIDE, 3, dtype=torch.uint8)


def corners(box: Sequence[float]) -> list[float]:
    """Convert ``box`` (x, y, width, height) to an outline: the coordinates of its four corners, [x, y, x, y, ...]."""
    x, y, width, height = box
    return [x, y, x + width, y, x + width, y + height, x, y + height]


def fill_outlines(size: tuple[int, int], shapes: Sequence[Sequence[float]]) -> NDArray[np.bool_]:
    """Return which pixels the outlines ``shapes`` (x, y, x, y, ...) enclose in a photo of ``size`` (width, height), scaled and cut as
    `crop_centre` does it: bool (SIDE, SIDE).
    """
    canvas = Image.new("L", size)
    for shape in shapes:
        ImageDraw.Draw(canvas).polygon(list(shape), fill=255)
    return crop_centre(canvas)[..., 0] > 127


def side_by_side(photos: LabelledPhotos, number: int) -> Iterator[tuple[Image.Image, list[CategoryMask]]]:
    """Yield ``number`` pictures, each with a list of two masks: the middles of two random photos next to each other, which show things with
    different words. The first photo is on the left.
    """
    rng = np.random.default_rng(SEED + 1)
    half = SIDE // 2
    left = np.zeros((SIDE, SIDE), bool)
    left[:, :half] = True
    count = 0
    for first, second in _pairs(rng, len(photos.words)):
        if count == number:
            return
        if photos.words[first] == photos.words[second]:
            continue
        cells = [photos.images[row, :, half // 2 : half // 2 + half].numpy() for row in (first, second)]
        masks = (left, ~left)
        objects = [CategoryMask(photos.words[row], mask, mask) for row, mask in zip((first, second), masks, strict=True)]
        count += 1
        yield Image.fromarray(np.concatenate(cells, 1)), objects


def _pairs(rng: np.random.Generator, number: int) -> Iterator[tuple[int, int]]:
    while True:
        first, second = rng.choice(number, 2, replace=False)
        yield int(first), int(second)
