"""The text side of ``clip``: a pretrained sentence encoder, pruned, that prompts are embedded with.

First the encoder learns the words that stand for one class or for a group of classes: "tomcat" may lie near "cat" and yet nearer to another
of 1,000 names. Each is drawn to its class, or towards the classes of its group; names, words of other things and prompts about scenes are
held where they were. Then the image side learns to lie near its embeddings, and the words for what photos show learn with it
(``train_clip``).
"""

from __future__ import annotations

import explainers.embedded.architectures  # noqa: F401  (before transformers and timm)

# isort: split
import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertModel, PreTrainedTokenizerFast, VisionTextDualEncoderModel

from explainers.embedded.synthetic.scenes import KINDS
from recipes.data.held_out import HELD_OUT
from recipes.data.prompts import classes, scene_groups, words, write_prompt
from recipes.data.unseen_photos import known_classes
from recipes.networks.text_tower import centre_, directions, new_tower, read
from recipes.networks.trunk import autocast
from recipes.training import fit

SHARED = 320  # dimensions of the space in which pictures and prompts are compared
WORDINGS, KIND_WORDINGS = 4, 8  # of each word for what photos show, and of each kind of the scenes
SYNONYMS, GROUPS = 72, 28  # prompts of a step that the tower learns
LABELS, OTHERS, SCENES = 24, 56, 28  # prompts of a step whose embeddings must stay: names of classes, words of the tokenizer, scenes
MIN_LETTERS = 3  # least letters of such a word of the tokenizer
SCALE = 30.0  # factor of the cosines where names compete for a word
SYNONYM_WEIGHT, GROUP_WEIGHT, HELD_WEIGHT = (
    15.0,
    0.5,
    40.0,
)  # weights: a synonym's cosine with its class, the loss of groups, the cosine of what is held
RATE = 3e-4
LEARNED_PARAMETERS = (
    "embeddings.word_embeddings.",
    "encoder.layer.",
)  # the parameters that learn, except those of the last layer, which averages


class Texts(NamedTuple):
    """The text side of ``clip``: tower, tokenizer, projection (SHARED, width), and the embeddings of all training prompts (prompts,
    wordings, SHARED), length 1.
    """

    tower: BertModel
    tokenizer: PreTrainedTokenizerFast
    projection: Tensor
    photos: Tensor  # of `prompts.words`
    kinds: Tensor  # of the scenes

    def names(self) -> Tensor:
        """Return the mean embedding of each name's wordings, (classes + kinds, SHARED), length 1."""
        return F.normalize(torch.cat([self.photos[: len(classes())].mean(1), self.kinds.mean(1)]), dim=-1)


class Lesson(NamedTuple):
    """The prompts of one training step of the text side, in three parts, and the target of each. The first S prompts are synonyms of the
    classes with the indices ``synonyms`` (S,). The next G name groups of classes: ``groups`` (G, classes) holds the share of each class,
    each row summing to 1. The last H keep the embeddings ``held`` (H, SHARED) of length 1.
    """

    prompts: list[str]
    synonyms: Tensor
    groups: Tensor
    held: Tensor


def new_texts(encoder: Path, vocabulary: int) -> Texts:
    """Build the text side before it learns, from a pretrained sentence encoder that is pruned to ``vocabulary`` word pieces.

    It is always the same but for rounding, which may flip the sign of a direction of its ``projection``.
    """
    tower, tokenizer = new_tower(encoder, sorted({*KINDS, *words().names}), vocabulary)
    banks = _read_banks(tower, tokenizer)
    names = banks[0][: len(classes())].mean(1)
    centre_(tower, names)
    return _texts(tower, tokenizer, directions(names, SHARED), banks)


def load_texts(folder: Path) -> Texts:
    """Load the text side of the finished clip in ``folder``, as transformers saved it, in float32 and eval mode on the CPU. Return it as
    :class:`Texts`: its tower, tokenizer and projection, and the embeddings of all training prompts, which are computed here.
    """
    clip = VisionTextDualEncoderModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    tower, projection = clip.text_model.eval(), clip.text_projection.weight.detach()
    return _texts(tower, tokenizer, projection, _read_banks(tower, tokenizer))


def _read_banks(tower: BertModel, tokenizer: PreTrainedTokenizerFast) -> list[Tensor]:
    """Return the outputs of ``tower`` for several prompts with each word for photos, and for several with each kind of object in scenes:
    two tensors (words, wordings, width). ``tokenizer`` is the tower's.
    """
    rng = np.random.default_rng([0, 5])
    banks = []
    for names, count in ((words().names, WORDINGS), (KINDS, KIND_WORDINGS)):
        texts = read(tower, tokenizer, [write_prompt(rng, (name,)) for name in names for _ in range(count)])
        banks.append(texts.view(len(names), count, -1))
    return banks


@torch.no_grad()
def _texts(tower: BertModel, tokenizer: PreTrainedTokenizerFast, projection: Tensor, banks: Sequence[Tensor]) -> Texts:
    photos, kinds = (F.normalize(tower.pooler(bank.flatten(0, 1)[:, None]) @ projection.T, dim=-1) for bank in banks)
    return Texts(
        tower,
        tokenizer,
        projection,
        photos.view(*banks[0].shape[:2], SHARED),
        kinds.view(*banks[1].shape[:2], SHARED),
    )


def free_learned_parameters_(tower: BertModel) -> None:
    """Set which parameters of the text ``tower`` training may change, in place: `LEARNED_PARAMETERS`, without the last layer, which
    averages.
    """
    last = f"encoder.layer.{len(tower.encoder.layer) - 1}."
    for name, value in tower.named_parameters():
        value.requires_grad_(name.startswith(LEARNED_PARAMETERS) and not name.startswith(last))


class HeldPrompts:
    """A source of prompts whose embeddings must stay while the text side ``texts`` learns: ``others`` about words of its tokenizer, and
    ``scenes`` about rendered scenes.
    """

    def __init__(self, texts: Texts, others: int, scenes: int) -> None:
        vocabulary = sorted(texts.tokenizer.get_vocab())
        self.words = [word for word in vocabulary if word.isalpha() and len(word) >= MIN_LETTERS and word not in HELD_OUT]
        self.nouns = [noun for group in scene_groups() for noun in group]
        self.others, self.scenes = others, scenes

    def __call__(self, rng: np.random.Generator) -> list[str]:
        """Return new prompts, drawn by ``rng``."""
        nouns = [(rng.choice(self.words),) for _ in range(self.others)]
        nouns += [self.nouns[i] for i in rng.choice(len(self.nouns), self.scenes, replace=False)]
        return [write_prompt(rng, noun) for noun in nouns]


def embed_prompts(texts: Texts, prompts: Sequence[str]) -> Tensor:
    """Return the embeddings (prompts, SHARED) of ``prompts``, of length 1 and with gradients, computed by ``texts``, the text side of a
    CLIP model.
    """
    inputs = texts.tokenizer(list(prompts), padding=True, truncation=True, return_tensors="pt")
    return F.normalize((texts.tower(**inputs).pooler_output @ texts.projection.T).float(), dim=-1)


def synonyms() -> list[tuple[str, int]]:
    """Return pairs of a word and a class index, for all words that stand for exactly one class and are not its name."""
    names, stands_for = words().names, known_classes()
    pairs = [(names[place], index) for index, places in enumerate(words().synonyms) for place in places]
    return [(word, index) for word, index in pairs if stands_for[word] == [index]]


def lessons(texts: Texts, seed: int, first: int) -> Iterator[Lesson]:
    """Yield training steps of the text side without end, from number ``first`` on; the embeddings that held prompts must keep are computed
    by ``texts``.
    """
    taught, labels = synonyms(), [row["label"] for row in classes()]
    others = HeldPrompts(texts, OTHERS, SCENES)
    for number in range(first, 10**9):
        rng = np.random.default_rng([seed, 8, number])
        chosen = [taught[i] for i in rng.choice(len(taught), SYNONYMS, replace=False)]
        groups = [words().groups[i] for i in rng.choice(len(words().groups), GROUPS, replace=False)]
        learned = [word for word, _ in chosen] + [words().names[place] for place, _ in groups]
        learned += rng.choice(labels, LABELS).tolist()
        prompts = [write_prompt(rng, (word,)) for word in learned] + others(rng)
        with torch.no_grad():
            places = embed_prompts(texts, prompts[len(learned) - LABELS :])
        rows = torch.zeros(len(groups), len(classes()))
        for row, (_, members) in zip(rows, groups, strict=True):
            row[torch.from_numpy(members)] = 1 / len(members)
        yield Lesson(prompts, torch.tensor([index for _, index in chosen]), rows, places)


def teach_words(texts: Texts, steps: int, seed: int, checkpoint: Path, resume: bool = False) -> Texts:
    """Train a copy of the text side ``texts`` for ``steps`` steps to tell which classes words stand for, and return it; ``texts`` is not
    changed. ``seed`` draws the lessons; ``checkpoint`` is the file of an unfinished training, which ``resume`` continues.
    """
    pupil = texts._replace(tower=copy.deepcopy(texts.tower))
    names = texts.names()[: len(classes())]
    free_learned_parameters_(pupil.tower)

    def loss(lesson: Lesson, progress: float, step: int) -> tuple[Tensor, float]:
        with autocast():
            embedded = embed_prompts(pupil, lesson.prompts)
        own, group, held = embedded.split([len(lesson.synonyms), len(lesson.groups), len(lesson.held)])
        cosines = own @ names.T
        value = F.cross_entropy(SCALE * cosines, lesson.synonyms)
        value = value + SYNONYM_WEIGHT * (1 - cosines.gather(1, lesson.synonyms[:, None]).mean())
        value = value + GROUP_WEIGHT * F.cross_entropy(SCALE * group @ names.T, lesson.groups)
        value = value + HELD_WEIGHT * (1 - (held * lesson.held).sum(1).mean())
        return value, float((cosines.argmax(1) == lesson.synonyms).float().mean())

    fit(
        pupil.tower,
        lambda first: lessons(texts, seed, first),
        loss,
        checkpoint=checkpoint,
        steps=steps,
        resume=resume,
        rate=RATE,
        weight_decay=0.0,
        warm_up=20,
        decay=0.98,
    )
    return _texts(pupil.tower, pupil.tokenizer, pupil.projection, _read_banks(pupil.tower, pupil.tokenizer))
