"""Words that ``clip`` was never trained on, synonyms and wider words, and what they are true of; none is in a prompt of its training."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

#: A word -> the kinds of scenes and the categories of photos that it is true of.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "puppy": ("dog",),
    "hound": ("dog",),
    "canine": ("dog",),
    "feline": ("cat", "lion", "tiger"),
    "kitten": ("cat",),
    "grizzly": ("bear",),
    "ape": ("monkey",),
    "primate": ("monkey",),
    "cattle": ("cow",),
    "pony": ("horse",),
    "stallion": ("horse",),
    "mallard": ("duck",),
    "serpent": ("snake",),
    "viper": ("snake",),
    "reptile": ("snake", "turtle"),
    "tortoise": ("turtle",),
    "amphibian": ("frog",),
    "toad": ("frog",),
    "arachnid": ("spider",),
    "insect": ("butterfly",),
    "moth": ("butterfly",),
    "automobile": ("car",),
    "locomotive": ("train",),
    "ship": ("boat",),
    "sailboat": ("boat",),
    "aircraft": ("airplane",),
    "bike": ("bicycle",),
    "spaceship": ("rocket",),
    "vehicle": ("car", "bus", "train", "boat", "tractor", "bicycle", "airplane", "rocket"),
    "cutlery": ("spoon", "fork"),
    "silverware": ("spoon", "fork"),
    "mug": ("cup",),
    "kettle": ("teapot",),
    "parasol": ("umbrella",),
    "flask": ("bottle",),
    "football": ("soccer ball", "ball"),
    "fruit": ("banana", "orange", "apple", "strawberry"),
    "citrus": ("orange",),
    "fungus": ("mushroom",),
    "toadstool": ("mushroom",),
    "beach": ("seashore",),
    "coast": ("seashore",),
    "peak": ("mountain",),
    "summit": ("mountain",),
    "novel": ("book",),
    "timepiece": ("clock",),
    "stool": ("chair",),
    "flower": ("sunflower",),
    "cap": ("hat",),
    "shears": ("scissors",),
    "musical instrument": ("guitar",),
}
AMONG = 10  # pictures, one of which is right
TRIALS = 40  # for each word
SEED = 0


def applicable(names: Collection[str]) -> list[str]:
    """The words that are true of some of ``names``."""
    return [word for word, true in SYNONYMS.items() if any(name in names for name in true)]


def first_of_ten(images: Tensor, shown: Sequence[str], words: Mapping[str, Tensor]) -> dict[str, float]:
    """Of each word, how often the picture that it is true of comes first among ten whose names all differ.

    images  (N, width), length 1; ``shown`` names what each shows
    words   embeddings (width,), length 1, of the words, or of prompts with them
    """
    rng = np.random.default_rng(SEED)
    names = np.array(shown)
    found = {}
    for word, embedding in words.items():
        scores = images @ embedding
        right = [name for name in sorted(set(shown)) if name in SYNONYMS[word]]
        wrong = [name for name in sorted(set(shown)) if name not in SYNONYMS[word]]
        first = 0
        for _ in range(TRIALS):
            chosen = [rng.choice(right), *rng.choice(wrong, AMONG - 1, replace=False)]
            rows = torch.tensor([rng.choice(np.flatnonzero(names == name)) for name in chosen])
            first += int(scores[rows].argmax() == 0)
        found[word] = first / TRIALS
    return found
