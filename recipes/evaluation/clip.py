"""``clip`` on scenes, on photos from outside by name, synonym and group, on words that it was never trained on, and on two objects."""

from __future__ import annotations

import explainers  # before timm and transformers

# isort: split
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from explainers import datasets
from explainers.embedded.synthetic.scenes import KINDS, render
from explainers.evaluation.explained_classes import PROMPT
from explainers.metrics.localisation import grid_pointing
from explainers.models.companion_files.prompt_words import PROMPT_KINDS
from explainers.models.model import Model
from recipes.clip_calibration import patch_cosines, prompt_thresholds, split_by_truth
from recipes.data.held_out import AMONG, OF_PHOTOS, OF_SCENES, applicable, first_of_ten
from recipes.data.prompt_questions import photos_and_questions
from recipes.data.prompts import classes
from recipes.data.unseen_photos import (
    COCO,
    CategoryMask,
    LabelledPhotos,
    known_classes,
    missing_reason,
    read_coco,
    read_photos,
    side_by_side,
)
from recipes.evaluation import CONTROL, JUDGED_METHOD, Figure, Report, Setting, Table, best_method
from recipes.evaluation import scenes as on_scenes
from recipes.evaluation.depth import draw_unlike, paste_photos
from recipes.evaluation.loading import load_cached
from recipes.evaluation.maps import map_rows, table_of
from recipes.evaluation.photos import HALF, ROBUST, SEED, TOP_5, PhotoAnswers, answers, random_half
from recipes.networks.clip_features import image_features, text_features

SCENES_PER_KIND = 4  # scenes of each kind that the words are tested on
PAIRS, COCO_PHOTOS = 40, 60  # number of pairs of photos, and of COCO's photos
ZERO_SHOT, SYNONYMS, PARENTS = "photos, right name of 1,000", "photos, right synonym of 1,000", "photos, right group among the other names"
WORDS = f"words never trained on, right picture first of {AMONG}"
OWN_OBJECT, PRECISION = "photos of two objects, own one lit more than the other", "photos, segmentation average precision"
# further methods than those of the pages: made for CLIP, or good on it
MORE_METHODS = ("token_tm:libra", "legrad", "grad_eclip", "gradcam_plus:libra", "xgradcam_plus:libra")
VERDICTS = ("found", "not found")
HALVES = (slice(0, None, 2), slice(1, None, 2))  # every second photo, and the others
METRICS = {OWN_OBJECT: "own_object", PRECISION: "ap"}  # names of the runner's metrics
MOSAICS = 500  # mosaics of four photos, of each of which one is asked for
MOSAIC_METHODS = ("generic_attention", "transformer_attribution", "grad_eclip", "gradcam_plus:libra", JUDGED_METHOD, CONTROL)
POINTING = "share of a single prompt's map in its quarter of a mosaic"
BARS = {ZERO_SHOT: 0.45, SYNONYMS: 0.3, PARENTS: 0.3, WORDS: 0.7, OWN_OBJECT: 0.75, PRECISION: 0.45, POINTING: 0.6}


def draw_scenes() -> tuple[Tensor, list[str]]:
    """Render scenes of one object each, uint8 (N, H, W, 3), and return them with the kind that each shows."""
    shown = [kind for kind in KINDS for _ in range(SCENES_PER_KIND)]
    scenes = [render(np.random.default_rng([on_scenes.SEED, 1, i]), on_scenes.SIZE, kinds=[kind]) for i, kind in enumerate(shown)]
    return torch.from_numpy(np.stack([np.asarray(scene.image) for scene in scenes])), shown


def prompts(words: Sequence[str]) -> list[str]:
    """Return one prompt for each of ``words``, such as "a photo of a mug"."""
    return [PROMPT.format(word) for word in words]


def renamed_accuracy(first: Tensor, truth: Tensor, others: Sequence[tuple[list[int], Tensor]]) -> float:
    """Return how often the right word wins where classes go by another word, a synonym or a group, from 0 to 1.

    first   (N, classes): answers to the classes' own names; ``truth`` bool (N, classes)
    others  words with the classes that each stands for, and the answers to it (N,). A photo is asked for every word that stands for all
            classes that it may be of, against the names of all classes that the word does not stand for.
    """
    right = total = 0
    for members, answer in others:
        outside = torch.ones(truth.shape[1], dtype=torch.bool)
        outside[members] = False
        asked_photos = ~(truth & outside).any(1)
        right += int((answer[asked_photos] > first[asked_photos][:, outside].amax(1)).sum())
        total += int(asked_photos.sum())
    return right / total if total else 0.0


def named_figures(name: str, model: Model, photos: LabelledPhotos) -> list[Figure]:
    """Return figures on how often ``model``, called ``name``, finds the right one of ImageNet's names, synonyms and groups for labelled
    photos.
    """
    truth, note = photos.truth(), f"{len(photos.words):,} photos, '{PROMPT}'"
    words = list(known_classes().items())
    labels = [row["label"] for row in classes()]
    texts = text_features(model, prompts([*labels, *(word for word, _ in words)]))
    features = answers(lambda images, kept_patches: image_features(model, images, kept_patches), photos.images)
    kept_patches = random_half(len(truth), math.prod(model.details["grid"]), SEED)
    halved = answers(lambda images, kept_patches: image_features(model, images, kept_patches), photos.images, kept_patches)
    logits = features @ texts.T
    whole, partly = PhotoAnswers(logits[:, : len(labels)], truth), PhotoAnswers(halved @ texts[: len(labels)].T, truth)
    synonyms = [(members, logits[:, len(labels) + i]) for i, (word, members) in enumerate(words) if is_synonym(word, members)]
    groups = [(members, logits[:, len(labels) + i]) for i, (word, members) in enumerate(words) if len(members) > 1]
    top = whole.share()
    values = {ZERO_SHOT: top, f"photos, {TOP_5} of 1,000": whole.share(5), f"photos, {HALF}": partly.share()}
    values |= {f"photos, {ROBUST}": partly.share() / top if top else 0.0}
    values |= {SYNONYMS: renamed_accuracy(whole.logits, truth, synonyms), PARENTS: renamed_accuracy(whole.logits, truth, groups)}
    return [Figure(name, what, value, BARS.get(what), note=note) for what, value in values.items()]


def is_synonym(word: str, members: Sequence[int]) -> bool:
    """Return whether ``word`` is a synonym: there is exactly one class that it stands for (``members`` are the indices of all such
    classes), and the label of that class is another word.
    """
    return len(members) == 1 and classes()[members[0]]["label"] != word


def words_on(model: Model, images: Tensor, shown: list[str], truth: dict[str, tuple[str, ...]]) -> dict[str, float]:
    """Measure for each word how often ``model``, a CLIP model, ranks a picture that the word is true of first among ten pictures, the other
    nine of which show something else. Return these shares, from 0 to 1, by word.

    images  the pictures, uint8 (N, H, W, 3)
    shown   the name of what each picture shows: a kind of scene, or a synset
    truth   for each word, the names of what it is true of; words that are true of no picture are left out
    """
    words = applicable(truth, set(shown))
    texts = text_features(model, prompts(words))
    features = answers(lambda batch, kept: image_features(model, batch, kept), images)
    return first_of_ten(features, shown, dict(zip(words, texts, strict=True)), truth)


def localise(model: Model, pictures: Sequence[tuple[Image.Image, list[CategoryMask]]], methods: Sequence[str]) -> tuple[Table, int, int]:
    """Measure how well maps of ``model``, by each of ``methods`` (specs), find the thing that a prompt names. ``pictures`` are pairs of a
    picture and the masks of the things in it; each thing is asked for with a prompt.

    Returns the table, by method (how often a prompt's own thing gets more of the map than the others, and the average precision on its
    outline, both from 0 to 1), how many prompts were asked of pictures of several things, and how many in all.
    """
    words = list(dict.fromkeys(thing.word for _, objects in pictures for thing in objects))
    samples = [
        datasets.Sample(
            name=str(number),
            image=image,
            labels=tuple(thing.word for thing in objects),
            objects=tuple(datasets.AnnotatedObject(label=thing.word, mask=thing.mask) for thing in objects),
        )
        for number, (image, objects) in enumerate(pictures)
    ]
    data = datasets.Dataset(
        name="photos", kind="image", length=len(samples), read=samples.__getitem__, classes=words, gives=("class", "mask", "others")
    )
    rows = map_rows(model, data, methods, list(METRICS.values()), target="each")
    table, counts = table_of(rows, methods, METRICS)
    return table, counts[OWN_OBJECT], counts[PRECISION]


def verdict_figures(name: str, model: Model, data: Path) -> list[Figure]:
    """Return figures on how often ``model`` (in the table: ``name``) answers a prompt with "found" and "not found", for things that are
    plainly in COCO's photos in ``data`` and for things that are not.
    """
    photos, asked = photos_and_questions(data)
    answered = patch_cosines(model, photos, asked)
    drawn = [prompt_thresholds(answered[part], [question.of(part) for question in asked]) for part in HALVES]
    figures = []
    for kind in PROMPT_KINDS:
        verdicts: dict[str, list[bool]] = {f"{where}, {verdict}": [] for where in ("plain to see", "not there") for verdict in VERDICTS}
        for part, lines in zip(HALVES, reversed(drawn), strict=True):
            line = {of: row["line"] for of, rows in lines.items() for row in rows if row["prompts"] == kind}
            least, most = line.get("not_in_picture"), line.get("perhaps_in_picture")
            if least is None or most is None:
                continue
            sides = split_by_truth(answered[part], [question.of(part) for question in asked], kind)
            for where, values in zip(("plain to see", "not there"), sides, strict=True):
                verdicts[f"{where}, found"] += (values >= max(least, most)).tolist()
                verdicts[f"{where}, not found"] += (values < least).tolist()
        for what, said in verdicts.items():
            note = f"{len(said):,} prompts on COCO's photos, half by half" if said else "no lines: the model was not taught this kind"
            figures.append(Figure(name, f"a {kind}, {what}", float(np.mean(said)) if said else None, note=note))
    return figures


def known_things(data: Path, number: int) -> list[tuple[Image.Image, list[CategoryMask]]]:
    """Return at most ``number`` of COCO's photos in the folder ``data``, each with its things that ImageNet has a name or a group for;
    photos of two and more such things come first.
    """
    known = known_classes()
    pictures = [(image, [thing for thing in objects if thing.word in known]) for image, objects in read_coco(data)]
    return sorted((pair for pair in pictures if pair[1]), key=lambda pair: len(pair[1]) < 2)[:number]


def map_figures(name: str, setting: Setting, photos: LabelledPhotos, methods: Sequence[str], tables: dict[str, Table]) -> list[Figure]:
    """Return figures on how often the map of a prompt to the model ``name``, by each of ``methods``, finds the thing that the prompt names,
    on COCO's photos and on pairs of photos; for ``setting.data`` and ``photos``; a table of each by method is added to ``tables``.
    """
    assert setting.data is not None
    why = missing_reason(setting.data, COCO)
    if why is not None:
        return [Figure(name, what, None, BARS[what], note=why) for what in (OWN_OBJECT, PRECISION)]
    model = load_cached(setting.folder)
    outlined, two, every = localise(model, known_things(setting.data, setting.limit_to(COCO_PHOTOS)), methods)
    paired, pairs, _ = localise(model, list(side_by_side(photos, setting.limit_to(PAIRS))), methods)
    tables[f"Maps of {name}, {every} things in COCO's photos, {two} of them next to others"] = outlined
    tables[f"Maps of {name}, {pairs} photos next to another"] = {
        method: {OWN_OBJECT: row[OWN_OBJECT]} for method, row in paired.items() if OWN_OBJECT in row
    }
    both = {}
    for method in methods:
        parts = [(table[method][OWN_OBJECT], count) for table, count in ((outlined, two), (paired, pairs)) if OWN_OBJECT in table[method]]
        if parts:  # else none of its maps has a positive score
            both[method] = sum(value * count for value, count in parts) / sum(count for _, count in parts)
    precise = {method: row[PRECISION] for method, row in outlined.items()}
    first, exact = best_method(both), best_method(precise)
    return [
        Figure(
            name, OWN_OBJECT, both[first], BARS[OWN_OBJECT], note=f"{first}, {two} prompts on COCO's photos, {pairs} on photos side by side"
        ),
        Figure(name, f"{OWN_OBJECT}, {JUDGED_METHOD}", both[JUDGED_METHOD], note="the same"),
        Figure(name, f"{OWN_OBJECT}, COCO's", outlined[first].get(OWN_OBJECT, 0.0), note=f"{first}, {two} prompts"),
        Figure(name, PRECISION, precise[exact], BARS[PRECISION], "score", note=f"{exact}, {every} things in COCO's photos"),
        Figure(name, f"{PRECISION} of {CONTROL}", precise[CONTROL], None, "score", note="the same"),
    ]


def mosaic_figures(name: str, model: Model, photos: LabelledPhotos, number: int) -> list[Figure]:
    """Return by method how much of the positive scores of a map lies in the right quarter of ``number`` mosaics of four of ``photos``, each
    asked for one of its photos by a single prompt to the model ``name``; chance is 0.25.
    """
    rng = np.random.default_rng(SEED)
    first_class = photos.truth().int().argmax(1).tolist()
    shares: dict[str, list[float]] = {method: [] for method in MOSAIC_METHODS}
    for mosaic in tqdm(range(number), desc="mosaics", leave=False, disable=None):
        rows, cell = draw_unlike(rng, photos.synsets, 4), divmod(mosaic % 4, 2)
        word = classes()[first_class[rows[mosaic % 4]]]["label"]
        found = explainers.explain(model, paste_photos(photos.images[rows], (2, 2)), PROMPT.format(word), list(MOSAIC_METHODS))
        for method, one in zip(MOSAIC_METHODS, found.maps, strict=True):
            share = grid_pointing(one.scores[one.content].double().unflatten(0, model.details["grid"]), cell)
            if math.isfinite(share):  # a map without a positive score has none
                shares[method].append(share)
    means = {method: float(np.mean(values)) for method, values in shares.items() if values}
    first = best_method(means)
    return [
        Figure(name, POINTING, means[first], BARS[POINTING], "score", note=f"{first}, {number} mosaics of four photos, chance 0.25"),
        *(
            Figure(name, f"{POINTING}, {method}", value, None, "score", note="the same")
            for method, value in means.items()
            if method != first
        ),
    ]


def measure(name: str, setting: Setting) -> Report:
    """Return the figures and tables of the model ``name``, a ``clip``, on scenes, photos and words, with the folders and limits in
    ``setting``; if the photos are missing, their rows say so.
    """
    model = load_cached(setting.folder, "cpu")
    methods = setting.specs([*explainers.default_methods(model), *MORE_METHODS])
    report = on_scenes.measure(name, replace(setting, methods=methods))
    figures, tables = list(report.figures), dict(report.tables)
    rates = {"scenes": words_on(model, *draw_scenes(), OF_SCENES)}
    why = missing_reason(setting.data)
    if why is not None:
        figures += [Figure(name, what, None, bar, note=why) for what, bar in BARS.items() if what != WORDS]
    else:
        assert setting.data is not None
        photos = read_photos(setting.data, setting.limit)
        figures += named_figures(name, model, photos)
        figures += map_figures(name, setting, photos, methods, tables)
        figures += mosaic_figures(name, model, photos, setting.limit_to(MOSAICS))
        if missing_reason(setting.data, COCO) is None:
            figures += verdict_figures(name, model, setting.data)
        if len(set(photos.synsets)) > 2 * AMONG:
            rates["photos"] = words_on(model, photos.images, photos.synsets, OF_PHOTOS)
    every = [rate for word_rates in rates.values() for rate in word_rates.values()]
    figures.append(Figure(name, WORDS, float(np.mean(every)), BARS[WORDS], note=f"{len(every)} words, {' and '.join(rates)}"))
    for source, word_rates in rates.items():
        figures.append(Figure(name, f"the same, {source}", float(np.mean(list(word_rates.values()))), note=f"{len(word_rates)} words"))
        tables[f"{WORDS}, {source}"] = {word: {"first": rate} for word, rate in word_rates.items()}
    return Report(figures, tables)
