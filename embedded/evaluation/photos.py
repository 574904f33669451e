"""``photos-vit`` on photos from outside: is the class right, does the model know what it can't know, do maps point at the object?"""

from __future__ import annotations

import explainers  # before timm

# isort: split
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from tqdm import tqdm

from embedded.evaluation import CONTROL, JUDGED_METHOD, Figure, Report, Setting, Table, best
from embedded.evaluation.loading import loaded
from embedded.evaluation.maps import map_rows, table_of
from embedded.recipes.calibration import (
    SOMETHING_ELSE,
    calibrate,
    calibration_error,
    largest_probability,
    scores,
    shipped_calibration,
    stays_known,
    unknowable,
)
from embedded.recipes.data.unseen_photos import COCO, GRID, Labelled, coco, coverage, known_classes, missing, single, unclassed
from embedded.recipes.networks.vits import encode, pixels
from explainers.datasets import AnnotatedObject, Dataset, Sample
from explainers.evaluation.measuring import EvaluationRow
from explainers.metrics.rank_correlation import rank_correlations
from explainers.models.companion_files.calibration import Calibration, parse_calibration

SEED = 20_250_102
EXPLAINED, WORST, MADE_UP = 60, 5, 200
UNKNOWABLE = 60  # pictures of each kind that shows nothing known
BATCH = 8  # pictures in one pass: with 50 a CPU spends as long on getting memory for activations as on computing them
LARGEST = 0.6  # of the picture that a box may cover to tell anything
TOP, TOP_5, HALF, ROBUST = "top-1", "top-5", "top-1, half the patches removed", "accuracy, half the patches removed, over the clean one"
WITHOUT = "top-1 without the Transformer's blocks"
AGREEMENT = "same class as EfficientNet-Lite{}"
ERROR, KEPT, REFUSED = "expected calibration error", "photos named right that are not doubted", "unknowable pictures that are doubted"
ENERGY, POINTING, CLOSE = "energy in the box over its share of the picture", "pointing", "energy over that of the best method"
METRICS = {ENERGY: "energy_ratio", POINTING: "pointing"}  # names of the runner's metrics
BARS = {TOP: 0.62, TOP_5: 0.86, ROBUST: 0.95, ENERGY: 2.5, POINTING: 0.8, CLOSE: 0.9, ERROR: 0.05, WITHOUT: 0.02}
AT_MOST = {ERROR, WITHOUT}

Score = Callable[[Tensor, Tensor | None], Tensor]  # pictures uint8 (B, H, W, 3), kept patches (B, n) or None -> (B, names)


@torch.inference_mode()
def answers(score: Score, images: Tensor, kept: Tensor | None = None, batch: int = BATCH) -> Tensor:
    """What a model answers to pictures, uint8 (N, H, W, 3), (N, names); of the patches ``kept`` (N, n) alone."""
    parts = images.split(batch)
    read = [None] * len(parts) if kept is None else kept.split(batch)
    bar = tqdm(zip(parts, read, strict=True), desc="naming", total=len(parts), unit="batch", leave=False, disable=None)
    return torch.cat([score(batch_images, part) for batch_images, part in bar])


def half(number: int, patches: int, seed: int) -> Tensor:
    """(number, patches // 2): a random half of the patches for each picture."""
    return torch.from_numpy(np.random.default_rng(seed).random((number, patches))).argsort(1)[:, : patches // 2]


def vit_scores(folder: Path) -> Score:
    """The logits of one of our classifiers of pictures."""
    vit: Any = loaded(folder, "cpu").module
    return lambda images, kept: vit.head(encode(vit, pixels(vit, images), kept)[:, 0])


def without_blocks(folder: Path) -> Score:
    """The same with the blocks of the Transformer taken out."""
    vit: Any = explainers.load(folder, device="cpu").module
    vit.blocks = torch.nn.Identity()
    return lambda images, kept: vit.head(encode(vit, pixels(vit, images), kept)[:, 0])


@dataclass(frozen=True)
class PhotoAnswers:
    """What a model answered, (N, classes), and bool (N, classes) which answers are right."""

    logits: Tensor
    truth: Tensor

    def right(self, among: int = 1) -> Tensor:
        """bool (N,): whether the right class is among the first few."""
        return self.truth.gather(1, self.logits.topk(among).indices).any(1)

    def share(self, among: int = 1) -> float:
        """How often it is."""
        return float(self.right(among).float().mean())


def worst(named: PhotoAnswers, photos: Labelled, labels: Sequence[str], number: int) -> Table:
    """The synsets most often missed, and what each is most often taken for."""
    rows: list[tuple[str, dict[str, float]]] = []
    first, right = named.logits.argmax(1), named.right()
    for word in sorted(set(photos.words)):
        is_word = torch.tensor([other == word for other in photos.words])
        wrong = [labels[i] for i in first[is_word & ~right].tolist()]
        common = max(sorted(set(wrong)), key=wrong.count, default="")
        taken = f", most often taken for {common}" if common else ""
        rows.append(
            (f"{word}{taken}", {"right": float(right[is_word].float().mean()), "taken for it": wrong.count(common) / int(is_word.sum())})
        )
    return dict(sorted(rows, key=lambda row: row[1]["right"])[:number])


def likeness(rows: Sequence[EvaluationRow]) -> float | None:
    """Spearman's correlation of the maps of two methods of the same input, the mean over all pairs and inputs, ``CONTROL`` left out; None
    where there are no two.
    """
    scores: dict[int, list[list[float]]] = {}
    for row in rows:
        if row["method"] != CONTROL:
            scores.setdefault(row["index"], []).append(row["scores"])
    pairs = [rank_correlations(np.array(maps))[np.triu_indices(len(maps), 1)] for maps in scores.values()]
    every = np.concatenate(pairs) if pairs else np.empty(0)
    every = every[~np.isnan(every)]  # a map that is the same everywhere correlates with none
    return float(every.mean()) if len(every) else None


def right_photos(folder: Path, data: Path, number: int) -> Dataset:
    """The first ``number`` of COCO's photos whose likeliest class goes by the category of a thing in it, with the boxes of these things."""
    classes_of, score = known_classes(), vit_scores(folder)
    samples: list[Sample] = []
    for place, (image, objects) in enumerate(coco(data)):
        if len(samples) == number:
            break
        first = int(answers(score, torch.from_numpy(np.array(image))[None]).argmax())
        boxes = [thing.boxed for thing in objects if first in classes_of.get(thing.word, []) and coverage(thing.boxed).mean() <= LARGEST]
        if boxes:
            samples.append(Sample(name=str(place), image=image, objects=tuple(AnnotatedObject(label=None, mask=box) for box in boxes)))
    return Dataset(name="photos", kind="image", length=len(samples), read=samples.__getitem__, gives=("mask",))


def named_figures(name: str, folder: Path, photos: Labelled) -> tuple[list[Figure], PhotoAnswers]:
    """How often the class is right: whole photos, half of the patches, without blocks, and against the networks it learned from."""
    truth = photos.truth()
    whole = PhotoAnswers(answers(vit_scores(folder), photos.images), truth)
    halved = PhotoAnswers(answers(vit_scores(folder), photos.images, half(len(truth), GRID**2, SEED)), truth)
    empty = PhotoAnswers(answers(without_blocks(folder), photos.images), truth)
    values = {TOP: whole.share(), TOP_5: whole.share(5), HALF: halved.share()}
    values |= {ROBUST: values[HALF] / values[TOP] if values[TOP] else 0.0, WITHOUT: empty.share()}
    note = f"{len(truth):,} photos"
    figures = [Figure(name, what, value, BARS.get(what), at_most=what in AT_MOST, note=note) for what, value in values.items()]
    return figures + [compared(name, whole, photos.images, size, note) for size in (0, 2)], whole


def compared(name: str, whole: PhotoAnswers, images: Tensor, size: int, note: str) -> Figure:
    """How often one of the pretrained networks says the same; says so where its weights are not installed."""
    from embedded.recipes.networks.trunk import efficientnet, normalised

    what = AGREEMENT.format(size)
    try:
        network = efficientnet(size)
    except ImportError as error:
        return Figure(name, what, None, note=str(error))
    network_logits = answers(lambda batch, _: network(normalised(batch)), images)
    return Figure(name, what, float((network_logits.argmax(1) == whole.logits.argmax(1)).float().mean()), note=note)


def calibrated_by_halves(whole: PhotoAnswers, strange: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Every second photo and made-up picture under the calibration of the others; None where too few photos are named right for one.

    strange   answers to made-up pictures, (M, classes)
    Returns the largest probability of each photo (N,), bool (N,) which photos stay known, and bool (M,) which made-up pictures do.
    """
    shares, stay = torch.zeros(len(whole.logits)), torch.zeros(len(whole.logits), dtype=torch.bool)
    strange_stay = torch.zeros(len(strange), dtype=torch.bool)
    for first in (0, 1):
        own, others = slice(first, None, 2), slice(1 - first, None, 2)
        calibration = parse_calibration(calibrate(whole.logits[others], whole.truth[others], strange[others]), "of one half")
        if not calibration.thresholds:
            return None
        shares[own], stay[own] = largest_probability(whole.logits[own], calibration), stays_known(whole.logits[own], calibration)
        strange_stay[own] = stays_known(strange[own], calibration)
    return shares, stay, strange_stay


def abstention_figures(name: str, folder: Path, whole: PhotoAnswers) -> list[Figure]:
    """Are probabilities what they say, and are known and unknown things told apart?"""
    calibration = shipped_calibration(folder)
    strange = {kind: answers(vit_scores(folder), pictures) for kind, pictures in unknowable(UNKNOWABLE).items()}
    halves = None if calibration is None else calibrated_by_halves(whole, torch.cat(list(strange.values())))
    if calibration is None or halves is None:
        why = "the model has no calibration.json" if calibration is None else "too few photos are named right"
        return [Figure(name, what, None, BARS.get(what), note=why) for what in (ERROR, KEPT, REFUSED)]
    right, (shares, stay, strange_stay) = whole.right(), halves
    note = f"{len(right):,} photos, each half calibrated with the other"
    return [
        Figure(name, ERROR, calibration_error(shares, right), BARS[ERROR], at_most=True, note=note),
        Figure(
            name,
            f"{ERROR}, as shipped",
            calibration_error(largest_probability(whole.logits, calibration), right),
            note="the photos it was fitted to",
        ),
        Figure(name, KEPT, float(stay[right].float().mean()), note=f"{int(right.sum()):,} photos that are named right, half by half"),
        Figure(name, "photos of anything that are not doubted", float(stay.float().mean()), note=note),
        Figure(name, REFUSED, float((~strange_stay).float().mean()), note=f"{len(strange_stay)} of {len(strange)} kinds, half by half"),
        *(one for kind, logits in strange.items() for one in told_apart(name, kind, calibration, whole.logits[right], logits)),
    ]


def told_apart(name: str, kind: str, calibration: Calibration, known: Tensor, strange: Tensor) -> list[Figure]:
    """How well the score of the shipped line tells a ``kind`` of strange pictures from photos that are named right, and how many of the
    pictures are doubted; both are answers (N, classes).
    """
    score = next(line.score for line in calibration.thresholds if line.kind == SOMETHING_ELSE)
    values = [scores(logits, calibration)[score].numpy() for logits in (known, strange)]
    area = roc_auc_score(np.repeat([1, 0], [len(known), len(strange)]), np.concatenate(values))
    doubted = float((~stays_known(strange, calibration)).float().mean())
    note = f"{len(strange)} pictures, as shipped"
    return [
        Figure(name, f"{kind}: area under the ROC curve against photos named right", float(area), None, "score", note=note),
        Figure(name, f"{kind}: doubted", doubted, note=note),
    ]


def unclassed_figures(name: str, folder: Path, whole: PhotoAnswers, data: Path) -> list[Figure]:
    """The same of COCO's photos of things that have no class; nothing where there are none, or no line."""
    calibration, pictures = shipped_calibration(folder), unclassed(data)
    if calibration is None or not len(pictures) or not whole.right().any():
        return []
    strange = answers(vit_scores(folder), pictures)
    return told_apart(name, "COCO's photos of things without a class", calibration, whole.logits[whole.right()], strange)


def measure(name: str, setting: Setting) -> Report:
    """Classes, abstention and maps; rows that say so where the photos are missing."""
    why = missing(setting.data)
    if why is not None:
        return Report([Figure(name, what, None, bar, at_most=what in AT_MOST, note=why) for what, bar in BARS.items()])
    assert setting.data is not None
    photos = single(setting.data, setting.limit)
    figures, whole = named_figures(name, setting.folder, photos)
    figures += abstention_figures(name, setting.folder, whole)
    model = loaded(setting.folder)
    tables = {f"Photos that {name} takes for others": worst(whole, photos, model.labels, WORST)}
    why = missing(setting.data, COCO)
    if why is not None:
        return Report([*figures, *(Figure(name, what, None, BARS[what], note=why) for what in (ENERGY, POINTING, CLOSE))], tables)
    methods = setting.specs(explainers.default_methods(model))
    shown = right_photos(setting.folder, setting.data, setting.limited(EXPLAINED))
    if not len(shown):
        why = "no thing in the photos is named right"
        return Report([*figures, *(Figure(name, what, None, BARS[what], note=why) for what in (ENERGY, POINTING, CLOSE))], tables)
    figures += unclassed_figures(name, setting.folder, whole, setting.data)
    rows = map_rows(model, shown, methods, list(METRICS.values()))
    table, counts = table_of(rows, methods, METRICS)
    count = counts[ENERGY]
    values = {what: {method: row[what] for method, row in table.items() if what in row} for what in (ENERGY, POINTING)}
    first, points = best(values[ENERGY]), best(values[POINTING])
    figures += [
        Figure(name, ENERGY, values[ENERGY][first], BARS[ENERGY], "times", note=f"{first}, {count} things in COCO's photos"),
        Figure(name, CLOSE, values[ENERGY][JUDGED_METHOD] / values[ENERGY][first], BARS[CLOSE], note=JUDGED_METHOD),
        Figure(name, POINTING, values[POINTING][points], BARS[POINTING], note=points),
        Figure(name, "rank correlation of two methods' maps", likeness(rows), None, "score", note="mean over pairs of methods"),
    ]
    return Report(figures, {f"Maps of {name}, {count} things in COCO's photos": table, **tables})
