"""``reviews-bert`` on reviews it was never trained on: is it right, and do its maps name the words that people marked?

Of texts longer than the model takes it reads the beginning and the end; only the words that it reads count in the comparison
with human rationales.
"""

from __future__ import annotations

import explainers  # before transformers

# isort: split
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer

from explainers.datasets import Dataset, Sample
from explainers.models.model import Model
from recipes.evaluation import CONTROL, Figure, Report, Setting, Table, best_method, reviews_probes
from recipes.evaluation.maps import map_rows, table_of
from recipes.reviews.data import FILES, HELD_OUT, read, rows
from recipes.reviews.text_predictions import MAX_REVIEWS, accuracy, predictions, sample

BARS = {"ERASER movies, test": 0.92, "IMDB, test": 0.93, "SST-2, validation (GLUE)": 0.9}
COUNTS = range(10, 90, 10)
METRICS = {f"k={k}": f"token_f1_{k}" for k in COUNTS}  # names of the runner's metrics
MIN_RATIO = 2.0
ANNOTATIONS = {"first": "rationales", "second": "rationales_alt"}  # the keys of the two annotations in the file


def accuracies(name: str, setting: Setting, data: Path) -> Report:
    """Return figures of the accuracy of the model ``name`` on each held-out set in ``data``, with the texts unchanged and with half of
    their words masked. ``setting`` names the model's folder and limits the number of reviews.

    A table gives the accuracy for negative and for positive reviews separately.
    """
    model = explainers.load(setting.folder).module
    tokenizer = AutoTokenizer.from_pretrained(setting.folder, local_files_only=True)
    figures, by_class = [], {}
    for title, (source, split) in HELD_OUT.items():
        every = read(data, source, [split])
        reviews = sample(every, setting.limit_to(MAX_REVIEWS))
        note = f"{len(reviews):,} reviews" + (", random sample" if len(reviews) < len(every) else "")
        for masked, about, bar in ((0.0, "", BARS.get(title)), (0.5, ", half the words masked", None)):
            answers = predictions(model, tokenizer, reviews, masked)
            figures.append(Figure(name, f"accuracy on {title}{about}", accuracy(reviews, answers), bar, note=note))
            if not masked:
                by_class[title] = {label: accuracy(reviews, answers, index) for index, label in model.config.id2label.items()}
    return Report(figures, {f"What {name} gets right of negative and of positive reviews": by_class})


def read_annotated(data: Path) -> dict[str, list[Sample]]:
    """Return ERASER's test reviews in the folder ``data``, tokens joined by single spaces, by annotation: each of their two annotations as
    the rationale.
    """
    samples: dict[str, list[Sample]] = {name: [] for name in ANNOTATIONS}
    for number, row in enumerate(row for row in rows(data, "eraser") if row["split"] == "test"):
        tokens = row["text"].split()
        starts = list(accumulate((len(token) + 1 for token in tokens), initial=0))
        for name, key in ANNOTATIONS.items():
            spans = tuple((starts[start], starts[end] - 1) for start, end in row[key])
            samples[name].append(Sample(name=str(number), text=" ".join(tokens), rationale=spans))
    return samples


def agreement(model: Model, texts: Mapping[str, Sequence[Sample]], methods: Sequence[str]) -> tuple[dict[str, Table], dict[str, int]]:
    """Return two dicts by annotation: a table of the mean token-F1 of each method at each k of `COUNTS`, and the number of texts that
    counted.

    The predicted class is explained. All marked words count, also those that the model does not read; a text without a mark is left out for
    that annotation.
    """
    tables, counts = {}, {}
    for name, samples in texts.items():
        data = Dataset(name=name, kind="text", length=len(samples), read=samples.__getitem__, gives=("rationale",))
        tables[name], of_metrics = table_of(map_rows(model, data, methods, list(METRICS.values())), methods, METRICS)
        counts[name] = min(of_metrics.values())
    return tables, counts


def compare_with_people(name: str, setting: Setting, data: Path) -> Report:
    """Return, for the model ``name`` and ERASER's reviews in ``data``, as a figure the token-F1 of the method that agrees best with
    people's marks (by its mean over k and both annotations), divided by that of random scores. ``setting`` names the model's folder and
    limits the number of reviews.
    """
    texts = {annotation: samples[: setting.limit_to(MAX_REVIEWS)] for annotation, samples in read_annotated(data).items()}
    model = explainers.load(setting.folder)
    tables, counts = agreement(model, texts, setting.specs(explainers.default_methods(model)))
    first = best_method({method: float(np.mean([list(table[method].values()) for table in tables.values()])) for method in tables["first"]})
    figures = []
    for annotation, table in tables.items():
        what = f"token-F1 over that of {CONTROL}, {annotation} annotation, least of k = {COUNTS[0]}..{COUNTS[-1]}"
        note = f"{first}; best of {len(table) - 1} methods, {counts[annotation]} reviews, words that are read"
        if not all(table[CONTROL].values()):
            figures.append(Figure(name, what, None, MIN_RATIO, "times", note=f"{CONTROL} scores name no marked word: too few reviews"))
            continue
        ratios = {k: value / table[CONTROL][k] for k, value in table[first].items()}
        least = min(ratios, key=ratios.__getitem__)
        figures.append(Figure(name, what, ratios[least], MIN_RATIO, "times", note=f"at {least}, {note}"))
    return Report(figures, {f"Token-F1 of {name}, {annotation} annotation": table for annotation, table in tables.items()})


def measure(name: str, setting: Setting) -> Report:
    """Measure the review classifier ``name`` and return a :class:`Report` with the results of its probes, its accuracies and its agreement
    with people. ``setting`` names the folders of the model and of the data, and the limits. If data is missing, the entries that need it
    say so.
    """
    missing = [file for file in FILES.values() if setting.data is None or not (setting.data / file).is_file()]
    probes = reviews_probes.measure(name, setting if not missing else replace(setting, data=None))
    if setting.data is not None and not missing:
        right, people = accuracies(name, setting, setting.data), compare_with_people(name, setting, setting.data)
        return Report([*right.figures, *probes.figures, *people.figures], right.tables | probes.tables | people.tables)
    why = "needs --data DIR, the folder of the review data sets" if setting.data is None else f"{setting.data} lacks {', '.join(missing)}"
    skipped = [Figure(name, f"accuracy on {title}", None, BARS.get(title), note=why) for title in HELD_OUT]
    people_too = Figure(name, f"token-F1 over that of {CONTROL}", None, MIN_RATIO, "times", note=why)
    return Report([*skipped, *probes.figures, people_too], probes.tables)
