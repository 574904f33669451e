"""Prompts that ``clip`` is trained with: the names of what scenes and photos show, in many wordings.

The words of ``HELD_OUT`` are in no prompt: with those the evaluation asks whether the model understands words that it was not trained on.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from explainers.embedded.synthetic.scenes import KINDS, Scene
from explainers.embedded.synthetic.sprites import file_names, kinds
from recipes.data.held_out import HELD_OUT

TEMPLATES = (
    *["a photo of {}"] * 4, "{}", "{}", "a picture of {}", "an image of {}", "a drawing of {}", "a scene with {}",
    "there is {}", "this is {}", "{} in the picture", "a close-up photo of {}", "a blurry photo of {}",
)  # fmt: skip
JOINTS = (" and ", " next to ", " beside ", " with ")
SYNONYM_SHARE = 0.3  # share of the classes with synonyms that go by one of them in a step
GROUP_CHANCE = 0.25  # chance, over the root of its size, that the classes of a group go by the group's name in a step
#: Pairs of a colour and a kind of object that has sprites of that colour.
COLOURED_KINDS: tuple[tuple[str, str], ...] = tuple(
    dict.fromkeys((colour, kind) for kind, row in kinds().items() for colour in row["colour"] if colour)
)
#: All pairs of kinds that may be in one scene together.
PAIRS: tuple[tuple[str, str], ...] = tuple(itertools.combinations(KINDS, 2))


@cache
def classes() -> list[dict[str, Any]]:
    """Return ImageNet's classes in the order of the teacher's logits: ``label``, ``synonyms``, ``groups``, ``wnid`` of each."""
    rows: list[dict[str, Any]] = json.loads(resources.files("explainers.embedded").joinpath("labels", "imagenet.json").read_text("utf-8"))
    return rows


class Words(NamedTuple):
    """All words for what photos show: the labels, synonyms and groups of ImageNet's classes, and the classes that each is true of."""

    names: list[str]  # the labels of the classes come first, in their order
    synonyms: list[list[int]]  # of each class, places in ``names``
    groups: list[tuple[int, NDArray[np.int64]]]  # a place in ``names`` and its classes


@cache
def words() -> Words:
    """Return the labels, synonyms and groups of ``classes``, without the words of ``HELD_OUT``."""
    names, synonyms, groups = [row["label"] for row in classes()], [], {}
    for index, row in enumerate(classes()):
        further = [word for word in row["synonyms"] if word.casefold() not in HELD_OUT]
        synonyms.append(list(range(len(names), len(names) + len(further))))
        names += further
        for group in row["groups"]:
            groups.setdefault(group, []).append(index)
    kept = {group: members for group, members in groups.items() if group.casefold() not in HELD_OUT}
    places = range(len(names), len(names) + len(kept))
    return Words([*names, *kept], synonyms, [(place, np.array(members)) for place, members in zip(places, kept.values(), strict=True)])


def choose_names(rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a name for each class at random, with ``rng``: return an index into ``words().names`` for each, (classes,). It is the class's
    label, a synonym, or the name of a group, which then all classes of that group get.
    """
    chosen = np.arange(len(classes()))
    for index, places in enumerate(words().synonyms):
        if places and rng.random() < SYNONYM_SHARE:
            chosen[index] = rng.choice(places)
    every = words().groups
    for number in rng.permutation(len(every)):
        place, members = every[number]
        if rng.random() < GROUP_CHANCE / np.sqrt(len(members)):
            chosen[members] = place
    return chosen


def phrase(rng: np.random.Generator, noun: str) -> str:
    """Return ``noun`` with a random article or none, drawn by ``rng``."""
    article = rng.choice(("a", "the", ""), p=(0.75, 0.1, 0.15))
    if article == "a" and noun[0] in "aeiouAEIOU":
        article = "an"
    return f"{article} {noun}".strip()


def write_prompt(rng: np.random.Generator, nouns: Sequence[str]) -> str:
    """Return a random prompt, drawn by ``rng``, that names all the ``nouns``, in any order."""
    phrases = [phrase(rng, nouns[i]) for i in rng.permutation(len(nouns))]
    return str(rng.choice(TEMPLATES)).format(str(rng.choice(JOINTS)).join(phrases))


def scene_groups() -> list[list[tuple[str, ...]]]:
    """Return the nouns of every prompt about scenes, in groups in which they compete: kinds, coloured kinds, pairs of kinds."""
    return [[(kind,) for kind in KINDS], [(f"{colour} {kind}",) for colour, kind in COLOURED_KINDS], list(PAIRS)]


def scene_truth(scene: Scene) -> Tensor:
    """Return the truth of every prompt of ``scene_groups`` about a scene, (prompts,); each group with any true prompt sums to 1."""
    shown = {item.kind: item.sprite for item in scene.composition.placements}
    colours = {kind: kinds()[kind]["colour"][file_names(kind).index(sprite)] for kind, sprite in shown.items()}
    true = (
        [kind in shown for kind in KINDS],
        [colours.get(kind) == colour for colour, kind in COLOURED_KINDS],
        [first in shown and second in shown for first, second in PAIRS],
    )
    return torch.cat([split_evenly(torch.tensor(group)) for group in true])


def split_evenly(true: Tensor) -> Tensor:
    """Return ``true``, a row of truths (1 or 0), divided by their number, so that it sums to 1; all 0 where nothing is true."""
    return true / true.sum().clamp(min=1)
