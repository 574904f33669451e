"""Calibrate ``clip``: its list of known words, and the abstention thresholds for each kind of prompt.

The words are ImageNet's names and groups and everyday ones (``explainers/embedded/common_words.toml``); the lines are drawn on COCO's
photos with several things. No weight is fitted.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score
from torch import Tensor

from explainers.methods.prompt_cosines import nearest_patch_cosines
from explainers.models.companion_files.calibration import PATCH_SCORE
from explainers.models.companion_files.prompt_words import ASIDE, PROMPT_KINDS, PROMPT_WORDS_FILE, TEMPLATE, PromptWords, read_prompt_words
from explainers.models.model import Model
from explainers.records.session import Session
from recipes.calibration import random_words, write
from recipes.data.prompt_questions import PromptQuestion, photos_and_questions
from recipes.data.prompts import classes
from recipes.networks.clip_features import text_features

ASIDE_FIELDS = ("little", "pictures", "qualities", "doing")  # fields of the everyday words that name nothing to look for
FOUND_SHARE = 0.8  # share of the prompts for what is plainly there that must not be answered "not found"
NOT_FOUND_SHARE = 0.95  # share of the prompts for what is not there that must not be answered "found"
MIN_AUROC = 0.7  # least area under the ROC curve; a kind of prompt below it counts as not taught
READABLE_SHARE = 0.97  # share of the everyday words that must count as readable, each compared with the others alone
RANDOM_WORDS = 300  # words of random syllables


def everyday_words() -> dict[str, str]:
    """Return the everyday words of ``common_words.toml``, each with the field that it belongs to."""
    fields = tomllib.loads(resources.files("explainers.embedded").joinpath("common_words.toml").read_text("utf-8"))
    return {word.replace("-", " "): name for name, row in fields.items() for word in row.split()}


def words_and_kinds() -> tuple[list[str], dict[str, str]]:
    """Return the words that the model knows (everyday words, ImageNet's groups, its class names), and the kind of those that are scenes,
    colours or asides.
    """
    kinds = {"scenes": "scene", "colours": "colour", **dict.fromkeys(ASIDE_FIELDS, ASIDE)}
    everyday = everyday_words()
    names = [row["label"] for row in classes()]
    return list(dict.fromkeys([*everyday, *_groups(), *names])), {word: kinds[field] for word, field in everyday.items() if field in kinds}


def _groups() -> list[str]:
    return [group for row in classes() for group in row["groups"]]


def write_prompt_words(model: Model, folder: Path) -> PromptWords:
    """Write the words that ``model`` knows into ``folder``, the everyday words and the groups with their embeddings in int8, and return
    them as read back.
    """
    words, kinds = words_and_kinds()
    embedded = words[: len({*everyday_words(), *_groups()})]
    embeddings = text_features(model, [TEMPLATE.format(word) for word in embedded])
    metadata = {"words": json.dumps(words), "kinds": json.dumps(kinds)}
    save_file({"embeddings": quantise(embeddings)}, folder / PROMPT_WORDS_FILE, metadata)
    return read_prompt_words(folder / PROMPT_WORDS_FILE)


def quantise(embeddings: Tensor) -> Tensor:
    """Return ``embeddings`` (N, D) as int8. Each row is scaled so that its largest magnitude is 127; this keeps its direction, and only the
    direction is used.
    """
    return (embeddings / embeddings.abs().amax(1, keepdim=True) * 127).round().to(torch.int8).contiguous()


def calibrate_clip(model: Model, folder: Path, data: Path) -> None:
    """Write ``prompt_words.safetensors`` and ``calibration.json`` of a finished ``model`` into its ``folder``; thresholds are measured on
    photos in the folder ``data``.
    """
    words = write_prompt_words(model, folder)
    made_up = text_features(model, [TEMPLATE.format(word) for word in random_words(RANDOM_WORDS)])
    photos, asked = photos_and_questions(data)
    write(
        folder,
        {
            "temperature": 1.0,
            "lines": {"unreadable_words": word_threshold(words, made_up), **prompt_thresholds(patch_cosines(model, photos, asked), asked)},
        },
    )


def patch_cosines(model: Model, photos: Tensor, asked: Sequence[PromptQuestion]) -> NDArray[np.float64]:
    """Return for each of ``photos`` and each prompt ``asked`` of ``model`` the mean cosine of the prompt with the patches that are most
    like it, (photos, prompts); see ``patch_cosine`` of ``companion_files/calibration``.
    """
    rows = []
    for photo in photos.numpy():
        session = Session(model, Image.fromarray(photo), [question.prompt for question in asked])
        rows.append(nearest_patch_cosines(session.trace(session.chosen[0], None))[0])
    return torch.stack(rows).double().numpy()


def word_threshold(words: PromptWords, made_up: Tensor) -> dict[str, Any]:
    """Return the threshold of word familiarity above which the share `READABLE_SHARE` of the everyday words lies, each compared with all
    other words.

    ``made_up`` (N, D) are embeddings of words that do not exist.
    """
    known = words.embeddings
    likeness = known @ known.T
    likeness.fill_diagonal_(-1)
    nearest, strange = likeness[: len(everyday_words())].amax(1), (made_up @ known.T).amax(1)
    line = round(float(nearest.quantile(1 - READABLE_SHARE)), 3)
    measured = (
        f"{float((nearest >= line).float().mean()):.0%} of {len(nearest):,} everyday words, each held against all other words, stay above "
        f"the line; {float((strange < line).float().mean()):.0%} of {len(strange)} words of random syllables fall below it. "
        "Words that were given are always read."
    )
    return {"score": "word_familiarity", "line": line, "below": True, "measured": measured}


def prompt_thresholds(answers: NDArray[np.float64], asked: Sequence[PromptQuestion]) -> dict[str, list[dict[str, Any]]]:
    """Return the abstention thresholds for prompts as lists by kind of abstention, each for one kind of prompt. They are fitted to
    ``answers``, the cosines of patches (photos, prompts), and the truth of the prompts ``asked``.
    """
    lines: dict[str, list[dict[str, Any]]] = {"untaught": [], "not_in_picture": [], "perhaps_in_picture": []}
    for kind in PROMPT_KINDS:
        there, absent = split_by_truth(answers, asked, kind)
        if not len(there) or not len(absent):
            continue

        def line(value: float, measured: str, kind: str = kind) -> dict[str, Any]:
            return {"score": PATCH_SCORE, "line": value, "below": True, "measured": measured, "prompts": kind}

        area = roc_auc_score(np.r_[np.ones(len(there)), np.zeros(len(absent))], np.r_[there, absent])
        of = f"{len(there)} prompts for a {kind} that is plainly in one of COCO's photos"
        if area < MIN_AUROC:
            lines["untaught"].append(
                line(1.01, f"Of {of} and {len(absent):,} for one that is not, the cosines are alike (AUROC {area:.2f}).")
            )
            continue
        least, most = round(float(np.quantile(there, 1 - FOUND_SHARE)), 3), round(float(np.quantile(absent, NOT_FOUND_SHARE)), 3)
        for name, value in (("not_in_picture", least), ("perhaps_in_picture", most)):
            stay, below = float((there >= value).mean()), float((absent < value).mean())
            lines[name].append(
                line(value, f"{stay:.0%} of {of} stay above the line; {below:.0%} of {len(absent):,} for one that is not fall below it.")
            )
        if misses := _describe_misses(answers, asked, kind, most):
            lines["not_in_picture"][-1]["misses"] = misses
    return {kind: rows for kind, rows in lines.items() if rows}


def _describe_misses(answers: NDArray[np.float64], asked: Sequence[PromptQuestion], kind: str, line: float) -> str:
    """Return a sentence, from ``answers`` (photos, prompts), the cosines of the prompts ``asked``, on which shares of the prompts of this
    ``kind`` that are true of a photo have a cosine above the threshold ``line``: for large things, for small ones and for things without a
    class of ImageNet. Empty if no such prompt was asked.
    """

    def found(has_class: bool, which: Callable[[PromptQuestion], NDArray[np.bool_] | None]) -> NDArray[np.bool_]:
        parts = [
            answers[where, place] >= line
            for place, question in enumerate(asked)
            if question.kind == kind and question.has_class == has_class and (where := which(question)) is not None
        ]
        return np.concatenate(parts) if parts else np.empty(0, bool)

    plain = found(True, lambda question: question.plain)
    small = found(True, lambda question: question.small)
    unclassed = found(False, lambda question: question.plain)
    if not len(small) or not len(unclassed):
        return ""
    return (
        f"On COCO's photos it finds {plain.mean():.0%} of {len(plain)} things in plain sight for which ImageNet has a class, "
        f"{small.mean():.0%} of {len(small)} that cover less than a twentieth of the photo, and {unclassed.mean():.0%} of {len(unclassed)} "
        "for which ImageNet has none, such as a person, however large."
    )


def split_by_truth(
    answers: NDArray[np.float64], asked: Sequence[PromptQuestion], kind: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two arrays of cosines from ``answers`` (photos, prompts), for the prompts ``asked`` that are of this ``kind``: first the
    cosines with photos that plainly show what the prompt names, then the cosines with photos that do not show it.
    """

    def of(where: Callable[[PromptQuestion], NDArray[np.bool_]]) -> NDArray[np.float64]:
        parts = [answers[where(question), place] for place, question in enumerate(asked) if question.kind == kind]
        return np.concatenate(parts) if parts else np.empty(0)

    return of(lambda question: question.plain), of(lambda question: question.absent)
