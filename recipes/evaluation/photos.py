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

from explainers.datasets import AnnotatedObject, Dataset, Sample
from explainers.evaluation.measuring import EvaluationRow
from explainers.metrics.rank_correlation import rank_correlations
from explainers.models.companion_files.calibration import Calibration, parse_calibration
from recipes.calibration import (
    SOMETHING_ELSE,
    calibrate,
    calibration_error,
    draw_unknowable,
    is_known,
    largest_probability,
    read_shipped_calibration,
    scores,
)
from recipes.data.unseen_photos import (
    COCO,
    GRID,
    LabelledPhotos,
    coverage,
    known_classes,
    missing_reason,
    read_coco,
    read_photos,
    read_unclassed,
)
from recipes.evaluation import CONTROL, JUDGED_METHOD, Figure, Report, Setting, Table, best_method
from recipes.evaluation.loading import load_cached
from recipes.evaluation.maps import map_rows, table_of
from recipes.networks.vits import encode, pixels

SEED = 20_250_102
EXPLAINED_PHOTOS, WORST_SYNSETS, MADE_UP_PICTURES = 60, 5, 200
PICTURES_PER_KIND = 60  # pictures of each kind that shows nothing known
BATCH = 8  # pictures in one pass: with 50 a CPU spends as long on getting memory for activations as on computing them
MAX_BOX_SHARE = 0.6  # largest share of the picture that a box may cover: a larger one would tell nothing
TOP, TOP_5, HALF, ROBUST = "top-1", "top-5", "top-1, half the patches removed", "accuracy, half the patches removed, over the clean one"
WITHOUT_BLOCKS = "top-1 without the Transformer's blocks"
AGREEMENT = "same class as EfficientNet-Lite{}"
ERROR, KEPT, REFUSED = "expected calibration error", "photos named right that are not doubted", "unknowable pictures that are doubted"
ENERGY, POINTING, ENERGY_TO_BEST = "energy in the box over its share of the picture", "pointing", "energy over that of the best method"
METRICS = {ENERGY: "energy_ratio", POINTING: "pointing"}  # names of the runner's metrics
BARS = {TOP: 0.6, TOP_5: 0.83, ROBUST: 0.95, ENERGY: 2.5, POINTING: 0.8, ENERGY_TO_BEST: 0.9, ERROR: 0.05, WITHOUT_BLOCKS: 0.02}
AT_MOST = {ERROR, WITHOUT_BLOCKS}

Score = Callable[[Tensor, Tensor | None], Tensor]  # pictures uint8 (B, H, W, 3), kept patches (B, n) or None -> (B, names)


@torch.inference_mode()
def answers(score: Score, images: Tensor, kept: Tensor | None = None, batch: int = BATCH) -> Tensor:
    """Return a model's answers (N, names) to pictures, the ``images``, uint8 (N, H, W, 3); ``score`` is the function that runs the model,
    ``batch`` pictures at a time. If ``kept`` (N, n) is given, only those patches of each picture are read.
    """
    parts = images.split(batch)
    read = [None] * len(parts) if kept is None else kept.split(batch)
    bar = tqdm(zip(parts, read, strict=True), desc="naming", total=len(parts), unit="batch", leave=False, disable=None)
    return torch.cat([score(batch_images, part) for batch_images, part in bar])


def random_half(number: int, patches: int, seed: int) -> Tensor:
    """Return the indices of a random half of the ``patches`` of each of ``number`` pictures, (number, patches // 2)."""
    return torch.from_numpy(np.random.default_rng(seed).random((number, patches))).argsort(1)[:, : patches // 2]


def vit_scores(folder: Path) -> Score:
    """Return a function from pictures to the logits of the classifier in ``folder``."""
    vit: Any = load_cached(folder, "cpu").module
    return lambda images, kept: vit.head(encode(vit, pixels(vit, images), kept)[:, 0])


def without_blocks(folder: Path) -> Score:
    """Return a function from pictures to the logits of the classifier in ``folder`` without its Transformer blocks."""
    vit: Any = explainers.load(folder, device="cpu").module
    vit.blocks = torch.nn.Identity()
    return lambda images, kept: vit.head(encode(vit, pixels(vit, images), kept)[:, 0])


@dataclass(frozen=True)
class PhotoAnswers:
    """The answers of a model to photos, ``logits`` (N, classes), and ``truth``, bool (N, classes): which classes are right."""

    logits: Tensor
    truth: Tensor

    def right(self, among: int = 1) -> Tensor:
        """Return for each photo whether a right class is among the ``among`` likeliest classes, bool (N,)."""
        return self.truth.gather(1, self.logits.topk(among).indices).any(1)

    def share(self, among: int = 1) -> float:
        """Return the share of photos with a right class among the likeliest ``among``."""
        return float(self.right(among).float().mean())


def worst(named: PhotoAnswers, photos: LabelledPhotos, labels: Sequence[str], number: int) -> Table:
    """Return the ``number`` synsets of ``photos`` that the answers ``named`` most often miss, and the class, of ``labels``, that each is
    most often mistaken for.
    """
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
    """Return how alike the maps of different methods are, from ``rows`` of an evaluation: Spearman's correlation of two methods' maps of
    the same input, averaged over all pairs and inputs, without ``CONTROL``. None if there are no two methods.
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
    """Return a data set of the first ``number`` of COCO's photos in ``data`` whose likeliest class by the model in ``folder`` fits a thing
    in them, with the boxes of these things.
    """
    classes_of, score = known_classes(), vit_scores(folder)
    samples: list[Sample] = []
    for place, (image, objects) in enumerate(read_coco(data)):
        if len(samples) == number:
            break
        first = int(answers(score, torch.from_numpy(np.array(image))[None]).argmax())
        boxes = [
            thing.boxed for thing in objects if first in classes_of.get(thing.word, []) and coverage(thing.boxed).mean() <= MAX_BOX_SHARE
        ]
        if boxes:
            samples.append(Sample(name=str(place), image=image, objects=tuple(AnnotatedObject(label=None, mask=box) for box in boxes)))
    return Dataset(name="photos", kind="image", length=len(samples), read=samples.__getitem__, gives=("mask",))


def named_figures(name: str, folder: Path, photos: LabelledPhotos) -> tuple[list[Figure], PhotoAnswers]:
    """Return figures on how often the model ``name`` in ``folder`` gets the class of ``photos`` right (from the whole photo, from half of
    its patches, without the Transformer blocks, and compared with the networks that the model learned from), and the model's answers to the
    whole photos.
    """
    truth = photos.truth()
    whole = PhotoAnswers(answers(vit_scores(folder), photos.images), truth)
    halved = PhotoAnswers(answers(vit_scores(folder), photos.images, random_half(len(truth), GRID**2, SEED)), truth)
    empty = PhotoAnswers(answers(without_blocks(folder), photos.images), truth)
    values = {TOP: whole.share(), TOP_5: whole.share(5), HALF: halved.share()}
    values |= {ROBUST: values[HALF] / values[TOP] if values[TOP] else 0.0, WITHOUT_BLOCKS: empty.share()}
    note = f"{len(truth):,} photos"
    figures = [Figure(name, what, value, BARS.get(what), at_most=what in AT_MOST, note=note) for what, value in values.items()]
    return figures + [compare_with(name, whole, photos.images, size, note) for size in (0, 2)], whole


def compare_with(name: str, whole: PhotoAnswers, images: Tensor, size: int, note: str) -> Figure:
    """Return a figure of the model ``name`` on how often a pretrained EfficientNet-Lite of this ``size`` gives ``images`` the same class as
    the model's answers, ``whole``; if its weights are not installed, the figure says so. ``note`` says what pictures they are.
    """
    from recipes.networks.trunk import efficientnet, normalise

    what = AGREEMENT.format(size)
    try:
        network = efficientnet(size)
    except ImportError as error:
        return Figure(name, what, None, note=str(error))
    network_logits = answers(lambda batch, _: network(normalise(batch)), images)
    return Figure(name, what, float((network_logits.argmax(1) == whole.logits.argmax(1)).float().mean()), note=note)


def calibrate_by_halves(whole: PhotoAnswers, strange: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Calibrate a model on each half of its answers to photos, ``whole``, and made-up pictures, and apply that calibration to the other
    half; None if a half has too few photos whose class is right.

    strange answers to made-up pictures, (M, classes)

    Returns the largest probability of each photo (N,), bool (N,) which photos stay known, and bool (M,) which made-up pictures do.
    """
    shares, stay = torch.zeros(len(whole.logits)), torch.zeros(len(whole.logits), dtype=torch.bool)
    strange_stay = torch.zeros(len(strange), dtype=torch.bool)
    for first in (0, 1):
        own, others = slice(first, None, 2), slice(1 - first, None, 2)
        calibration = parse_calibration(calibrate(whole.logits[others], whole.truth[others], strange[others]), "of one half")
        if not calibration.thresholds:
            return None
        shares[own], stay[own] = largest_probability(whole.logits[own], calibration), is_known(whole.logits[own], calibration)
        strange_stay[own] = is_known(strange[own], calibration)
    return shares, stay, strange_stay


def abstention_figures(name: str, folder: Path, whole: PhotoAnswers) -> list[Figure]:
    """Return figures on how well the probabilities of the model ``name`` in ``folder`` are calibrated, from ``whole``, its answers to
    photos, and on how many photos of known classes and how many pictures of nothing known it doubts.
    """
    calibration = read_shipped_calibration(folder)
    strange = {kind: answers(vit_scores(folder), pictures) for kind, pictures in draw_unknowable(PICTURES_PER_KIND).items()}
    halves = None if calibration is None else calibrate_by_halves(whole, torch.cat(list(strange.values())))
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
        *(one for kind, logits in strange.items() for one in separation_figures(name, kind, calibration, whole.logits[right], logits)),
    ]


def separation_figures(name: str, kind: str, calibration: Calibration, known: Tensor, strange: Tensor) -> list[Figure]:
    """Return figures on how well the shipped abstention score separates a ``kind`` of strange pictures from photos whose class is right,
    and on how many of each are doubted.

    ``known`` are the answers (N, classes) of the model ``name`` to those photos, ``strange`` those to the strange pictures; ``calibration``
    has the score and its threshold.
    """
    score = next(line.score for line in calibration.thresholds if line.kind == SOMETHING_ELSE)
    values = [scores(logits, calibration)[score].numpy() for logits in (known, strange)]
    area = roc_auc_score(np.repeat([1, 0], [len(known), len(strange)]), np.concatenate(values))
    doubted = float((~is_known(strange, calibration)).float().mean())
    note = f"{len(strange)} pictures, as shipped"
    return [
        Figure(name, f"{kind}: area under the ROC curve against photos named right", float(area), None, "score", note=note),
        Figure(name, f"{kind}: doubted", doubted, note=note),
    ]


def unclassed_figures(name: str, folder: Path, whole: PhotoAnswers, data: Path) -> list[Figure]:
    """Return figures on how well the shipped abstention score of the model ``name`` in ``folder`` separates COCO's photos in ``data`` of
    things that ImageNet has no class for from photos whose class it gets right by its answers ``whole``, and on how many of them it doubts.
    Empty if there are no such photos, or no threshold.
    """
    calibration, pictures = read_shipped_calibration(folder), read_unclassed(data)
    if calibration is None or not len(pictures) or not whole.right().any():
        return []
    strange = answers(vit_scores(folder), pictures)
    return separation_figures(name, "COCO's photos of things without a class", calibration, whole.logits[whole.right()], strange)


def measure(name: str, setting: Setting) -> Report:
    """Measure the photo classifier ``name`` and return a :class:`Report` on its classes, its abstention and its maps. ``setting`` names the
    folders of the model and of the data, and the limits. If the photos are missing, the entries that need them say so.
    """
    why = missing_reason(setting.data)
    if why is not None:
        return Report([Figure(name, what, None, bar, at_most=what in AT_MOST, note=why) for what, bar in BARS.items()])
    assert setting.data is not None
    photos = read_photos(setting.data, setting.limit)
    figures, whole = named_figures(name, setting.folder, photos)
    figures += abstention_figures(name, setting.folder, whole)
    model = load_cached(setting.folder)
    tables = {f"Photos that {name} takes for others": worst(whole, photos, model.labels, WORST_SYNSETS)}
    why = missing_reason(setting.data, COCO)
    if why is not None:
        return Report([*figures, *(Figure(name, what, None, BARS[what], note=why) for what in (ENERGY, POINTING, ENERGY_TO_BEST))], tables)
    methods = setting.specs(explainers.default_methods(model))
    shown = right_photos(setting.folder, setting.data, setting.limit_to(EXPLAINED_PHOTOS))
    if not len(shown):
        why = "no thing in the photos is named right"
        return Report([*figures, *(Figure(name, what, None, BARS[what], note=why) for what in (ENERGY, POINTING, ENERGY_TO_BEST))], tables)
    figures += unclassed_figures(name, setting.folder, whole, setting.data)
    rows = map_rows(model, shown, methods, list(METRICS.values()))
    table, counts = table_of(rows, methods, METRICS)
    count = counts[ENERGY]
    values = {what: {method: row[what] for method, row in table.items() if what in row} for what in (ENERGY, POINTING)}
    first, points = best_method(values[ENERGY]), best_method(values[POINTING])
    figures += [
        Figure(name, ENERGY, values[ENERGY][first], BARS[ENERGY], "times", note=f"{first}, {count} things in COCO's photos"),
        Figure(name, ENERGY_TO_BEST, values[ENERGY][JUDGED_METHOD] / values[ENERGY][first], BARS[ENERGY_TO_BEST], note=JUDGED_METHOD),
        Figure(name, POINTING, values[POINTING][points], BARS[POINTING], note=points),
        Figure(name, "rank correlation of two methods' maps", likeness(rows), None, "score", note="mean over pairs of methods"),
    ]
    return Report(figures, {f"Maps of {name}, {count} things in COCO's photos": table, **tables})
