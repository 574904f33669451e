"""Data sets that need no download, the entry point ``vitrine.datasets`` of this package: scenes rendered on the spot with exact masks, and
the samples of the pages.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from embedded.recipes.data.scenes import KINDS, Scene, render
from explainers.datasets import AnnotatedObject, Dataset, Folder, Sample, dataset

SEED = 20_250_101  # of scenes that no training has seen
SIDE = 112  # pixels, as scenes-vit reads them
MANY = 100_000


@dataset("scenes", title="Scenes", kind="image", gives=("class", "mask", "others"))
def scenes(data: Folder) -> Dataset:
    """Pictures of one to four things out of 48 kinds on a plain ground, rendered from a seed of their own, with the exact pixels of each
    thing. Any of its kinds is a right class of a scene; the largest is explained.
    """

    def read(number: int) -> Sample:
        return _sample(number, render(np.random.default_rng([SEED, number]), SIDE))

    return Dataset(name="scenes", kind="image", length=MANY, classes=KINDS, read=read)


@dataset("scenes-pairs", title="Scenes of two things", kind="image", gives=("class", "mask", "others"))
def pairs(data: Folder) -> Dataset:
    """Scenes of exactly two things of different kinds, with the exact pixels of each: does a map of one leave out the other? With the
    target ``each`` both are explained in turn.
    """

    def read(number: int) -> Sample:
        return _sample(number, render(np.random.default_rng([SEED, MANY + 1, number]), SIDE, count=2))

    return Dataset(name="scenes-pairs", kind="image", length=MANY, classes=KINDS, read=read)


def _sample(number: int, scene: Scene) -> Sample:
    """A scene with its things, the largest first."""
    objects = [AnnotatedObject(label=item.kind, mask=item.mask) for item in scene.objects]
    objects.sort(key=lambda obj: -int(obj.mask.sum()))
    labels = tuple(str(obj.label) for obj in objects)
    return Sample(name=f"{number:05d}", image=scene.image, labels=labels, objects=tuple(objects))


@dataset("scenes-mosaic", title="Mosaics of scenes", kind="image", gives=("class", "cell", "mask", "others"))
def mosaic(data: Folder) -> Dataset:
    """Four scenes of one thing each, all of different kinds, side by side in two rows: the grid pointing game. Any of the four kinds is
    a right class; the one at the top left is explained.
    """

    def read(number: int) -> Sample:
        rng = np.random.default_rng([SEED, MANY, number])
        half = SIDE // 2
        picture, objects = Image.new("RGB", (SIDE, SIDE)), []
        for place_of, kind in enumerate(rng.choice(len(KINDS), 4, replace=False)):
            row, column = divmod(place_of, 2)
            scene = render(rng, half, [KINDS[kind]])
            picture.paste(scene.image, (column * half, row * half))
            mask = np.zeros((SIDE, SIDE), bool)
            mask[row * half : (row + 1) * half, column * half : (column + 1) * half] = scene.objects[0].mask
            objects.append(AnnotatedObject(label=KINDS[kind], mask=mask, cell=(row, column)))
        return Sample(name=f"{number:05d}", image=picture, labels=tuple(str(obj.label) for obj in objects), objects=tuple(objects))

    return Dataset(name="scenes-mosaic", kind="image", length=MANY, classes=KINDS, read=read)


def _samples(folder: str) -> tuple[Path, list[dict[str, Any]]]:
    """The folder of samples of this name, and what its index lists."""
    path = Path(str(files("embedded"))) / "samples" / folder
    return path, json.loads((path / "index.json").read_text("utf-8"))["samples"]


@dataset("sample-photos", title="Sample photos", kind="image", gives=())
def sample_photos(data: Folder) -> Dataset:
    """The photos that the pages offer, each once. They are few: intervals are wide."""
    path, listed = _samples("photos")
    names = list(dict.fromkeys(sample["image"] for sample in listed))

    def read(number: int) -> Sample:
        with Image.open(path / names[number]) as photo:
            return Sample(name=Path(names[number]).stem, image=photo.convert("RGB"))

    return Dataset(name="sample-photos", kind="image", length=len(names), read=read)


@dataset("sample-reviews", title="Sample reviews", kind="text", gives=("class", "rationale"))
def sample_reviews(data: Folder) -> Dataset:
    """The film reviews that the pages offer, with what they are meant to be, and the passages that their writers marked as the reasons.
    They are few: intervals are wide.
    """
    _, listed = _samples("reviews")

    def read(number: int) -> Sample:
        review = listed[number]
        starts = [(review["text"].index(reason), len(reason)) for reason in review["reasons"]]
        passages = tuple((start, start + length) for start, length in starts)
        return Sample(name=review["id"], text=review["text"], labels=(review["expected"],), rationale=passages)

    return Dataset(name="sample-reviews", kind="text", length=len(listed), classes=("negative", "positive"), read=read)
