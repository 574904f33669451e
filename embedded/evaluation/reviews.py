"""``reviews-bert`` on reviews it was never trained on: is it right, and do its maps name the words that people marked?

Of texts longer than the model takes it reads the beginning and the end; only the words that it reads count in the comparison
with human rationales.
"""

from __future__ import annotations

import explainers  # before transformers

# isort: split
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import AutoTokenizer

from embedded.evaluation import CONTROL, Figure, Report, Setting, Table, best, reviews_probes
from embedded.recipes.reviews.data import FILES, HELD_OUT, read, rows
from embedded.recipes.reviews.reading import MOST, accuracy, predictions, sample
from explainers.metrics.rationales import token_f1
from explainers.models.base import Model
from explainers.result import WordScore

BARS = {"ERASER movies, test": 0.92, "IMDB, test": 0.93, "SST-2, validation (GLUE)": 0.9}
COUNTS = range(10, 90, 10)
TWICE = 2.0
ANNOTATIONS = {"first": "rationales", "second": "rationales_alt"}  # how the file names them


def accuracies(name: str, setting: Setting, data: Path) -> Report:
    """For each held-out set the accuracy on the texts as they are and with half the words masked; and by what the texts really are."""
    model = explainers.load(setting.folder).module
    tokenizer = AutoTokenizer.from_pretrained(setting.folder, local_files_only=True)
    figures, by_class = [], {}
    for title, (source, split) in HELD_OUT.items():
        every = read(data, source, [split])
        reviews = sample(every, setting.limited(MOST))
        note = f"{len(reviews):,} reviews" + (", random sample" if len(reviews) < len(every) else "")
        for masked, about, bar in ((0.0, "", BARS.get(title)), (0.5, ", half the words masked", None)):
            answers = predictions(model, tokenizer, reviews, masked)
            figures.append(Figure(name, f"accuracy on {title}{about}", accuracy(reviews, answers), bar, note=note))
            if not masked:
                by_class[title] = {label: accuracy(reviews, answers, index) for index, label in model.config.id2label.items()}
    return Report(figures, {f"What {name} gets right of negative and of positive reviews": by_class})


@dataclass(frozen=True)
class Annotated:
    """A text of tokens parted by single spaces, and of each annotation which tokens were marked, bool (tokens,)."""

    text: str
    marked: dict[str, Tensor]

    def of_words(self, words: Sequence[WordScore]) -> dict[str, Tensor]:
        """Of each annotation which of the engine's words lie in a marked token, bool (words,)."""
        starts = list(accumulate((len(token) + 1 for token in self.text.split()[:-1]), initial=0))
        token = torch.tensor([bisect_right(starts, word.start) - 1 for word in words])
        return {name: marked[token] for name, marked in self.marked.items()}


def annotated(data: Path) -> list[Annotated]:
    """ERASER's test reviews with both annotations."""
    found = []
    for row in rows(data, "eraser"):
        if row["split"] != "test":
            continue
        tokens = row["text"].split()
        marked = {}
        for name, key in ANNOTATIONS.items():
            marked[name] = torch.zeros(len(tokens), dtype=torch.bool)
            for start, end in row[key]:
                marked[name][start:end] = True
        found.append(Annotated(" ".join(tokens), marked))
    return found


def agreement(model: Model, texts: Sequence[Annotated], methods: Sequence[str]) -> tuple[dict[str, Table], dict[str, int]]:
    """Of each annotation and method the mean token-F1 at each k of `COUNTS`, the predicted class explained; and how many texts counted.

    A text none of whose marked words is read says nothing about methods and is left out for that annotation.
    """
    found: dict[str, dict[str, list[list[float]]]] = {name: {method: [] for method in methods} for name in ANNOTATIONS}
    for index, one in enumerate(tqdm(texts, desc="explaining", unit="review", leave=False, disable=None)):
        result = explainers.explain(
            model, one.text, None, methods, seed=index, long_texts="cut"
        )  # a seed each, or all would share random scores
        for method in methods:
            words = result[method].words()
            scores = torch.tensor([word.score for word in words])
            for name, marked in one.of_words(words).items():
                if marked.any():
                    found[name][method].append(token_f1(scores, marked, COUNTS))
    tables = {
        name: {
            method: dict(zip((f"k={k}" for k in COUNTS), np.mean(f1, 0).tolist(), strict=True)) for method, f1 in by_method.items() if f1
        }
        for name, by_method in found.items()
    }
    return tables, {name: len(by_method[CONTROL]) for name, by_method in found.items()}


def against_people(name: str, setting: Setting, data: Path) -> Report:
    """Token-F1 of the best method, by its mean over k and both annotations, over random scores."""
    texts = annotated(data)[: setting.limited(MOST)]
    model = explainers.load(setting.folder)
    tables, counts = agreement(model, texts, setting.specs(explainers.default_methods(model)))
    first = best({method: float(np.mean([list(table[method].values()) for table in tables.values()])) for method in tables["first"]})
    figures = []
    for annotation, table in tables.items():
        what = f"token-F1 over that of {CONTROL}, {annotation} annotation, least of k = {COUNTS[0]}..{COUNTS[-1]}"
        note = f"{first}; best of {len(table) - 1} methods, {counts[annotation]} reviews, words that are read"
        if not all(table[CONTROL].values()):
            figures.append(Figure(name, what, None, TWICE, "times", note=f"{CONTROL} scores name no marked word: too few reviews"))
            continue
        ratios = {k: value / table[CONTROL][k] for k, value in table[first].items()}
        least = min(ratios, key=ratios.__getitem__)
        figures.append(Figure(name, what, ratios[least], TWICE, "times", note=f"at {least}, {note}"))
    return Report(figures, {f"Token-F1 of {name}, {annotation} annotation": table for annotation, table in tables.items()})


def measure(name: str, setting: Setting) -> Report:
    """The probes, then accuracies and the comparison with people; where the data is missing, rows that say so."""
    missing = [file for file in FILES.values() if setting.data is None or not (setting.data / file).is_file()]
    probes = reviews_probes.measure(name, setting if not missing else replace(setting, data=None))
    if setting.data is not None and not missing:
        right, people = accuracies(name, setting, setting.data), against_people(name, setting, setting.data)
        return Report([*right.figures, *probes.figures, *people.figures], right.tables | probes.tables | people.tables)
    why = "needs --data DIR, the folder of the review data sets" if setting.data is None else f"{setting.data} lacks {', '.join(missing)}"
    skipped = [Figure(name, f"accuracy on {title}", None, BARS.get(title), note=why) for title in HELD_OUT]
    people_too = Figure(name, f"token-F1 over that of {CONTROL}", None, TWICE, "times", note=why)
    return Report([*skipped, *probes.figures, people_too], probes.tables)
