"""What ``clip`` is told about pictures: names of what scenes and photos show, worded in many ways.

Only plain names are used, never the synonyms and wider words of ``embedded/evaluation/synonyms.py``: with those the evaluation
asks whether the model understands words that it was not trained on.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from embedded.recipes.photos_data import FOLDER, NAMES
from embedded.recipes.scenes import KINDS, Scene
from embedded.recipes.sprites import file_names, kinds

TEMPLATES = (
    *["a photo of {}"] * 4, "{}", "{}", "a picture of {}", "an image of {}", "a drawing of {}", "a scene with {}",
    "there is {}", "this is {}", "{} in the picture", "a close-up photo of {}", "a blurry photo of {}",
)  # fmt: skip
JOINTS = (" and ", " next to ", " beside ", " with ")
#: What either kind of picture shows: one prompt each.
KNOWN: tuple[str, ...] = tuple(dict.fromkeys((*KINDS, *NAMES)))
#: Kinds with the colour of some of their sprites.
COLOURED: tuple[tuple[str, str], ...] = tuple(
    dict.fromkeys((colour, kind) for kind, row in kinds().items() for colour in row["colour"] if colour)
)
#: Two kinds in one scene.
PAIRS: tuple[tuple[str, str], ...] = tuple(itertools.combinations(KINDS, 2))


def class_names(data: Path) -> list[str]:
    """The first of each class's words, in the order of ``classes.tsv``."""
    with (data / FOLDER / "classes.tsv").open(encoding="utf8") as lines:
        return [row["words"].split(",")[0] for row in csv.DictReader(lines, delimiter="\t")]


def phrase(rng: np.random.Generator, noun: str) -> str:
    """A noun with or without an article."""
    article = rng.choice(("a", "the", ""), p=(0.75, 0.1, 0.15))
    if article == "a" and noun[0] in "aeiouAEIOU":
        article = "an"
    return f"{article} {noun}".strip()


def worded(rng: np.random.Generator, nouns: Sequence[str]) -> str:
    """A prompt that names the nouns, in any order."""
    phrases = [phrase(rng, nouns[i]) for i in rng.permutation(len(nouns))]
    return str(rng.choice(TEMPLATES)).format(str(rng.choice(JOINTS)).join(phrases))


def groups(classes: Sequence[str]) -> list[list[tuple[str, ...]]]:
    """The nouns of every prompt, in groups in which they compete: names, coloured kinds, pairs of kinds, classes of photos."""
    coloured = [(f"{colour} {kind}",) for colour, kind in COLOURED]
    return [[(name,) for name in KNOWN], coloured, list(PAIRS), [(name,) for name in classes]]


def of_scene(scene: Scene, classes: int) -> Tensor:
    """(prompts,): of the prompts of ``groups`` those true of a scene, each group that has any summing to 1."""
    shown = {item.kind: item.sprite for item in scene.composition.placements}
    colours = {kind: kinds()[kind]["colour"][file_names(kind).index(sprite)] for kind, sprite in shown.items()}
    true = (
        [name in shown for name in KNOWN],
        [colours.get(kind) == colour for colour, kind in COLOURED],
        [first in shown and second in shown for first, second in PAIRS],
        [False] * classes,
    )
    return torch.cat([shared_out(torch.tensor(group)) for group in true])


def of_photos(category: Tensor, chosen: Tensor, classes: int) -> Tensor:
    """(B, prompts): the same for photos, of which ``category`` (B,) is a place in ``NAMES``, -1 for none, and ``chosen`` (B,) the class."""
    targets = torch.zeros(len(category), len(KNOWN) + len(COLOURED) + len(PAIRS) + classes)
    places = torch.tensor([KNOWN.index(name) for name in NAMES])
    rows = torch.nonzero(category >= 0).flatten()
    targets[rows, places[category[rows]]] = 1
    targets[torch.arange(len(chosen)), targets.shape[1] - classes + chosen] = 1
    return targets


def shared_out(true: Tensor) -> Tensor:
    """A row of truths as shares of 1; all 0 where nothing is true."""
    return true / true.sum().clamp(min=1)
