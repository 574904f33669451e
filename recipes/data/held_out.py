"""Words that ``clip`` was never trained on, and what they are true of; none is in a prompt of its training."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

#: For each held-out word the kinds of scenes that it is true of.
OF_SCENES: dict[str, tuple[str, ...]] = {
    "puppy": ("dog",),
    "kitten": ("cat",),
    "pony": ("horse",),
    "stallion": ("horse",),
    "mallard": ("duck",),
    "serpent": ("snake",),
    "tortoise": ("turtle",),
    "toad": ("frog",),
    "moth": ("butterfly",),
    "automobile": ("car",),
    "sailboat": ("boat",),
    "bike": ("bicycle",),
    "spaceship": ("rocket",),
    "cutlery": ("spoon", "fork"),
    "silverware": ("spoon", "fork"),
    "mug": ("cup",),
    "parasol": ("umbrella",),
    "football": ("soccer ball",),
    "toadstool": ("mushroom",),
    "novel": ("book",),
    "timepiece": ("clock",),
    "stool": ("chair",),
    "cap": ("hat",),
    "shears": ("scissors",),
}
#: For each held-out word the WordNet synsets of the photos that it is true of.
OF_PHOTOS: dict[str, tuple[str, ...]] = {
    "puppy": ("n02084071",),
    "kitten": ("n02121808",),
    "grizzly": ("n02131653",),
    "pony": ("n02374451",),
    "stallion": ("n02374451",),
    "serpent": ("n01726692",),
    "tortoise": ("n01662784",),
    "toad": ("n01639765",),
    "moth": ("n02274259",),
    "bunny": ("n02324045",),
    "piglet": ("n02395003",),
    "lamb": ("n02411705",),
    "calf": ("n02402425",),
    "tomcat": ("n02121808",),
    "automobile": ("n02958343",),
    "bike": ("n02834778",),
    "jet": ("n02691156",),
    "coach": ("n02924116",),
    "mug": ("n03797390",),
    "couch": ("n04256520",),
    "fridge": ("n04070727",),
    "fiddle": ("n04536866",),
    "rucksack": ("n02769748",),
    "handbag": ("n04026417",),
    "necktie": ("n04591157",),
    "burger": ("n07697100",),
    "frankfurter": ("n07697537",),
    "toadstool": ("n07734744",),
    "railway": ("n04468005",),
    "keypad": ("n03085013",),
    "shades": ("n04356056",),
    "cooker": ("n04330267",),
    "football": ("n04254680",),
    "skillet": ("n03400231",),
    "desk lamp": ("n03636649",),
}
#: Words that no prompt of the training may use.
HELD_OUT = frozenset((*OF_SCENES, *OF_PHOTOS))
AMONG = 10  # pictures, one of which is right
TRIALS = 40  # for each word
SEED = 0


def applicable(truth: Mapping[str, Sequence[str]], names: Collection[str]) -> list[str]:
    """Return the words in ``truth`` that hold for at least one of ``names``."""
    return [word for word, true in truth.items() if any(name in names for name in true)]


def first_of_ten(images: Tensor, shown: Sequence[str], words: Mapping[str, Tensor], truth: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return for each word how often a picture that it is true of is ranked first among ten with different names, from 0 to 1.

    images  (N, width), length 1; ``shown`` names what each shows
    words   embeddings (width,), length 1, of the words, or of prompts with them; ``truth`` says what they are true of
    """
    rng = np.random.default_rng(SEED)
    names = np.array(shown)
    shares = {}
    for word, embedding in words.items():
        scores = images @ embedding
        right = [name for name in sorted(set(shown)) if name in truth[word]]
        wrong = [name for name in sorted(set(shown)) if name not in truth[word]]
        first = 0
        for _ in range(TRIALS):
            chosen = [rng.choice(right), *rng.choice(wrong, AMONG - 1, replace=False)]
            rows = torch.tensor([rng.choice(np.flatnonzero(names == name)) for name in chosen])
            first += int(scores[rows].argmax() == 0)
        shares[word] = first / TRIALS
    return shares
