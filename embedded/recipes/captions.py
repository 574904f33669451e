"""Captions for scenes, what they claim, and the tokenizer that reads them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from embedded.recipes.scenes import KINDS, Scene
from embedded.recipes.sprites import file_names, kinds

LENGTH = 24  # tokens, with the two that mark beginning and end
TEMPLATES = (
    *["a photo of {}"] * 4, "{}", "{}", "a picture of {}", "an image of {}", "a drawing of {}", "a scene with {}",
    "there is {}", "i see {}", "this is {}", "it shows {}", "{} in the picture", "{} in front of a background",
    "a photo with {} .",
)  # fmt: skip
JOINTS = (" and ", " and ", " and ", " next to ", " beside ", " with ", " , ")
UNKNOWN = "\N{CURRENCY SIGN}"  # stands for every word that is not in the vocabulary
FILLERS = ("small", "big", "little", "nice", "cute", "old", "new", "beautiful", UNKNOWN)
PAD, UNK, BOS, EOS = (
    "<pad>",
    "<unk>",
    "<bos>",
    "<eos>",
)  # in this order: CLIP reads eos_token_id 2 in an old, different way


@dataclass(frozen=True)
class Caption:
    """A text, and for each thing it names the sprites that would make it true."""

    text: str
    needs: tuple[frozenset[str], ...]

    def fits(self, sprites: Collection[str]) -> bool:
        """Whether a scene of these sprites has everything that the text names."""
        return all(not need.isdisjoint(sprites) for need in self.needs)


def sprites_of(scene: Scene) -> list[str]:
    """The sprite files that a scene is made of."""
    return [item.sprite for item in scene.composition.placements]


def _phrase(rng: np.random.Generator, noun: str) -> str:
    if rng.random() < 0.15:
        noun = f"{FILLERS[rng.integers(len(FILLERS))]} {noun}"
    article = rng.choice(("a", "the", ""), p=(0.75, 0.1, 0.15))
    if article == "a" and noun[0] in "aeiou":
        article = "an"
    return f"{article} {noun}".strip()


def _named(rng: np.random.Generator, kind: str, sprite: str | None) -> tuple[str, frozenset[str]]:
    """One way to name an object, and the sprites it is true of; with ``sprite`` it may be a colour or a wider word."""
    row, files = kinds()[kind], file_names(kind)
    noun, means = kind, frozenset(files)
    if row["also"] and rng.random() < 0.35:
        noun = row["also"][rng.integers(len(row["also"]))]
    if sprite is None:
        return noun, means
    how = rng.random()
    colour = row["colour"][files.index(sprite)]
    if colour and how < 0.3:
        noun = f"{colour} {noun}"
        means = frozenset(file for file, other in zip(files, row["colour"], strict=True) if other == colour)
    elif row["is"] and how > 0.92:
        noun = row["is"][rng.integers(len(row["is"]))]
        means = frozenset(file for other in KINDS if noun in kinds()[other]["is"] for file in file_names(other))
    return noun, means


def kind_captions(rng: np.random.Generator) -> list[Caption]:
    """One caption for each kind, in the order of ``KINDS``, that names it alone."""
    captions = []
    for kind in KINDS:
        noun, means = _named(rng, kind, None)
        captions.append(Caption(TEMPLATES[rng.integers(len(TEMPLATES))].format(_phrase(rng, noun)), (means,)))
    return captions


def scene_caption(rng: np.random.Generator, scene: Scene) -> Caption:
    """A caption that names one to three of a scene's objects."""
    items = scene.composition.placements
    chosen = rng.permutation(len(items))[: rng.integers(1, min(3, len(items)) + 1)]
    named = [_named(rng, items[i].kind, items[i].sprite) for i in chosen]
    phrases = [_phrase(rng, noun) for noun, _ in named]
    text = (
        phrases[0] if len(phrases) == 1 else " , ".join(phrases[:-1]) + JOINTS[rng.integers(len(JOINTS))] + phrases[-1]
    )
    return Caption(TEMPLATES[rng.integers(len(TEMPLATES))].format(text), tuple(means for _, means in named))


def matches(scenes: Sequence[Scene], captions: Sequence[Caption]) -> NDArray[np.bool_]:
    """(scenes, captions): which caption is true of which scene."""
    return np.array([[caption.fits(sprites_of(scene)) for caption in captions] for scene in scenes])


def tokenizer() -> PreTrainedTokenizerFast:
    """Words to numbers, in lower case; a word that no caption uses becomes ``<unk>``."""
    texts = [*TEMPLATES, *JOINTS, *FILLERS[:-1], *KINDS, "a an the"]
    for row in kinds().values():
        texts += [*row["colour"], *row["also"], *row["is"]]
    words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s{}]", text)})
    vocabulary = {word: index for index, word in enumerate([PAD, UNK, BOS, EOS, *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, UNK))
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [(BOS, vocabulary[BOS]), (EOS, vocabulary[EOS])]
    inner.post_processor = processors.TemplateProcessing(single=f"{BOS} $A {EOS}", special_tokens=marks)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=PAD, unk_token=UNK, bos_token=BOS, eos_token=EOS, model_max_length=LENGTH
    )
