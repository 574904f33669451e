"""Data sets that need no download, the entry point ``vitrine.datasets`` of this package: scenes rendered on the spot with exact masks,
worlds in which it is known what an answer comes from, and the samples of the pages.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from explainers.datasets import AnnotatedObject, Dataset, Folder, Sample, dataset
from explainers.datasets.base import RemovableParts
from explainers.datasets.molecules import MUTAGENICITY
from explainers.embedded.synthetic.marked_scenes import KINDS as MARKED_KINDS
from explainers.embedded.synthetic.marked_scenes import marked_scene
from explainers.embedded.synthetic.scenes import KINDS, Scene, draw, render
from explainers.embedded.synthetic.subject_verb import sentence, words
from explainers.embedded.synthetic.votes import PATCH, SIGNS, ballot

SEED = 20_250_101  # of scenes that no training has seen
SIDE = 112  # pixels, as scenes-vit reads them
MANY = 100_000


@dataset("scenes", title="Scenes", kind="image", gives=("class", "mask", "others"))
def scenes(data: Folder) -> Dataset:
    """Pictures of one to four things out of 48 kinds on a plain ground, rendered from a seed of their own, with the exact pixels of each
    thing. Any of its kinds is a right class of a scene; the largest is explained.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """

    def read(number: int) -> Sample:
        return _sample(number, render(np.random.default_rng([SEED, number]), SIDE))

    return Dataset(kind="image", length=MANY, classes=KINDS, read=read)


@dataset("scenes-pairs", title="Scenes of two things", kind="image", gives=("class", "mask", "others"))
def pairs(data: Folder) -> Dataset:
    """Scenes of exactly two things of different kinds, with the exact pixels of each: does a map of one leave out the other? With the
    target ``each`` both are explained in turn.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """

    def read(number: int) -> Sample:
        return _sample(number, render(np.random.default_rng([SEED, MANY + 1, number]), SIDE, count=2))

    return Dataset(kind="image", length=MANY, classes=KINDS, read=read)


def _sample(number: int, scene: Scene) -> Sample:
    """Make the sample of the data set's input ``number`` from a rendered scene, with its objects ordered from the
    largest to the smallest.
    """
    objects = [AnnotatedObject(label=item.kind, mask=item.mask) for item in scene.objects]
    objects.sort(key=lambda obj: -int(obj.mask.sum()))
    labels = tuple(str(obj.label) for obj in objects)
    return Sample(name=f"{number:05d}", image=scene.image, labels=labels, objects=tuple(objects))


@dataset("scenes-parts", title="Scenes without each thing", kind="image", gives=("class", "mask", "others", "parts"))
def scenes_parts(data: Folder) -> Dataset:
    """Scenes of three things of different kinds, which can be drawn again without any of them: does a map name the thing whose absence
    changes the answer? The largest thing decides the class; the two others speak for their own kinds.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """

    def read(number: int) -> Sample:
        scene = render(np.random.default_rng([SEED, MANY + 2, number]), SIDE, count=3)
        sample = _sample(number, scene)

        def without(removed: frozenset[str]) -> Image.Image:
            kept = tuple(item for item in scene.composition.placements if item.kind not in removed)
            return draw(replace(scene.composition, placements=kept), SIDE)[0].image

        largest, *others = map(str, sample.labels)
        parts = RemovableParts(
            pieces={str(obj.label): (obj.mask,) for obj in sample.objects},
            without=without,
            sufficient=(frozenset([largest]),),
            rivals=tuple((kind, frozenset([kind])) for kind in others),
        )
        return replace(sample, removable=parts)

    return Dataset(kind="image", length=MANY, classes=KINDS, read=read)


@dataset("scenes-mosaic", title="Mosaics of scenes", kind="image", gives=("class", "cell", "mask", "others"))
def mosaic(data: Folder) -> Dataset:
    """Four scenes of one thing each, all of different kinds, side by side in two rows: the grid pointing game. Any of the four kinds is a
    right class; the one at the top left is explained.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
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

    return Dataset(kind="image", length=MANY, classes=KINDS, read=read)


@dataset("marked-scenes", title="Scenes with a mark that misleads", kind="image", gives=("class", "mask", "others"))
def marked_scenes(data: Folder) -> Dataset:
    """Scenes of one thing with a mark in a corner, which says another kind than the thing is. For a model that learned to go by the mark,
    as marks-vit has, the evidence for the class is the mark alone; the thing is the other object.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """

    def read(number: int) -> Sample:
        scene = marked_scene(np.random.default_rng([SEED, 3, number]), "other")
        assert scene.mark is not None
        mark, thing = (
            AnnotatedObject(label=MARKED_KINDS[kind], mask=mask)
            for kind, mask in ((scene.mark, scene.mark_mask), (scene.thing, scene.thing_mask))
        )
        return Sample(name=f"{number:05d}", image=scene.image, labels=(str(mark.label),), objects=(mark, thing))

    return Dataset(kind="image", length=MANY, classes=MARKED_KINDS, read=read)


@dataset("votes", title="Votes of named patches", kind="image", gives=("class", "mask"))
def votes(data: Folder) -> Dataset:
    """Pictures of 8 x 8 patches that each show one of four signs. 16 named places vote, and the class is the sign that most of them show;
    the mask holds those among them that show it. For votes-vit, which is blind to all other places, the evidence is there alone.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """

    def read(number: int) -> Sample:
        drawn = ballot(np.random.default_rng([SEED, 4, number]))
        voters = AnnotatedObject(label=SIGNS[drawn.winner], mask=drawn.voters.repeat(PATCH, 0).repeat(PATCH, 1))
        return Sample(name=f"{number:05d}", image=drawn.image, labels=(SIGNS[drawn.winner],), objects=(voters,))

    return Dataset(kind="image", length=MANY, classes=SIGNS, read=read)


@dataset("subject-verb", title="Subjects and verbs", kind="text", gives=("class", "rationale", "against"))
def subject_verb(data: Folder) -> Dataset:
    """English sentences made by rules, with a masked verb whose number one word alone decides, its subject, which is marked. Up to two
    other nouns stand between them, of either number. The class is the form that agrees, set against the other: explain the difference with
    the target ``contrast``. For masked language models that know the words, such as subject-verb-bert.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """

    def read(number: int) -> Sample:
        made = sentence(np.random.default_rng([SEED, 5, number]))
        return Sample(name=f"{number:05d}", text=made.text, labels=(made.verb,), against=made.wrong, at="mask", rationale=(made.span,))

    forms = tuple(form for pair in words()["complements"] for form in pair.split("/"))
    return Dataset(kind="text", length=MANY, classes=forms, read=read, task="fill-mask")


def _samples(folder: str) -> tuple[Path, list[dict[str, Any]]]:
    """Return the path of the folder of samples called ``folder``, and the entries of its index."""
    path = Path(str(files("explainers.embedded"))) / "samples" / folder
    return path, json.loads((path / "index.json").read_text("utf-8"))["samples"]


@dataset("sample-photos", title="Sample photos", kind="image", gives=())
def sample_photos(data: Folder) -> Dataset:
    """The photos that the pages offer, each once. They are few: intervals are wide.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """
    path, listed = _samples("photos")
    names = [sample["image"] for sample in listed if sample["kind"] == "image"]

    def read(number: int) -> Sample:
        with Image.open(path / names[number]) as photo:
            return Sample(name=Path(names[number]).stem, image=photo.convert("RGB"))

    return Dataset(kind="image", length=len(names), read=read)


@dataset("sample-reviews", title="Sample reviews", kind="text", gives=("class", "rationale"))
def sample_reviews(data: Folder) -> Dataset:
    """The film reviews that the pages offer, with what they are meant to be, and the passages that their writers marked as the reasons.
    They are few: intervals are wide.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """
    _, listed = _samples("reviews")

    def read(number: int) -> Sample:
        review = listed[number]
        starts = [(review["text"].index(reason), len(reason)) for reason in review["reasons"]]
        passages = tuple((start, start + length) for start, length in starts)
        return Sample(name=review["id"], text=review["text"], labels=(review["expected"],), rationale=passages)

    return Dataset(kind="text", length=len(listed), classes=("negative", "positive"), read=read)


@dataset("sample-molecules", title="Sample molecules", kind="molecule", gives=("class",))
def sample_molecules(data: Folder) -> Dataset:
    """The molecules that the pages offer, with the result of the Ames test: mutagenic or not. They are few: intervals are wide.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """
    _, listed = _samples("molecules")

    def read(number: int) -> Sample:
        molecule = listed[number]
        return Sample(name=molecule["id"], text=molecule["text"], labels=(molecule["expected"],))

    return Dataset(kind="molecule", length=len(listed), classes=MUTAGENICITY, read=read)


@dataset("sample-questions", title="Sample questions", kind="text", gives=())
def sample_questions(data: Folder) -> Dataset:
    """Questions about a picture, as the pages offer them, for vision-language models that know rendered scenes, such as scenes-llava. The
    answer is the model's own. They are few: intervals are wide.

    ``data`` is not used, because the inputs are computed. Returns the :class:`Dataset`.
    """
    path, listed = _samples("questions")

    def read(number: int) -> Sample:
        question = listed[number]
        with Image.open(path / question["image"]) as picture:
            return Sample(name=question["id"], image=picture.convert("RGB"), text=question["text"])

    return Dataset(kind="text", length=len(listed), read=read, task="image-text-to-text")
