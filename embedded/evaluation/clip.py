"""``clip`` on scenes, on photos by the names of their categories, and on words that it was never trained on."""

from __future__ import annotations

import explainers  # before timm and transformers

# isort: split
import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from embedded.evaluation import Figure, Report, Setting
from embedded.evaluation import photos as on_photos
from embedded.evaluation import scenes as on_scenes
from embedded.evaluation.dual import image_features, text_features
from embedded.evaluation.synonyms import AMONG, applicable, first_of_ten
from embedded.recipes.photos_data import NAMES, held_out_photos
from embedded.recipes.scenes import KINDS, render
from embedded.recipes.vits import tensors
from explainers.models.base import Model

DRAWN = 4  # scenes of each kind that the words are tried on
ZERO_SHOT = "zero-shot {} of the photos by category name"
WORDS = f"words never trained on, right picture first of {AMONG}"
BARS = {ZERO_SHOT.format("top-1"): 0.55, on_photos.ROBUST: 0.9, WORDS: 0.7}


def drawn() -> tuple[Tensor, list[str]]:
    """Fresh scenes of one object each, as pixels, and what they show."""
    shown = [kind for kind in KINDS for _ in range(DRAWN)]
    scenes = [render(np.random.default_rng([on_scenes.SEED, 1, i]), on_scenes.SIZE, kinds=[kind]) for i, kind in enumerate(shown)]
    return tensors(torch.from_numpy(np.stack([np.asarray(scene.image) for scene in scenes])), "cpu"), shown


def words_on(model: Model, pixels: Tensor, shown: list[str]) -> dict[str, float]:
    """Of every word that is true of some of the pictures, how often the right one comes first of ten."""
    words = applicable(set(shown))
    texts = text_features(model, [on_scenes.PROMPT.format(word) for word in words])
    images = [image_features(model, some) for some in tqdm(pixels.split(50), desc="seeing", unit="batch", leave=False, disable=None)]
    return first_of_ten(torch.cat(images), shown, dict(zip(words, texts, strict=True)))


def measure(name: str, setting: Setting) -> Report:
    """The rows of scenes, of photos and of words; rows that say so where the photos are missing."""
    report = on_scenes.measure(name, setting)
    figures, tables = list(report.figures), dict(report.tables)
    model = explainers.load(setting.folder, device="cpu")
    by_source = {"scenes": words_on(model, *drawn())}
    why = on_photos.missing(setting.data)
    if why is not None:
        figures += [Figure(name, what, None, bar, note=why) for what, bar in BARS.items() if what != WORDS]
    else:
        assert setting.data is not None
        photos, labels = on_photos.sample(*held_out_photos(setting.data), setting.limit)
        answers = on_photos.named(on_scenes.dual_scores(setting.folder, NAMES), photos, labels)
        values = answers.figures()
        note = f"{len(labels):,} photos, '{on_scenes.PROMPT}'"
        for what, key in ((ZERO_SHOT.format("top-1"), on_photos.TOP), (ZERO_SHOT.format("top-5"), on_photos.TOP_5)):
            figures.append(Figure(name, what, values[key], BARS.get(what), note=note))
        figures.append(Figure(name, f"photos: {on_photos.ROBUST}", values[on_photos.ROBUST], BARS[on_photos.ROBUST], note=note))
        tables[f"Photos that {name} takes for others"] = answers.worst(on_photos.WORST)
        shown = [NAMES[label] for label in labels]
        if len(set(shown)) == len(NAMES):
            by_source["photos"] = words_on(model, tensors(torch.from_numpy(photos.images), "cpu"), shown)
    rates = [rate for found in by_source.values() for rate in found.values()]
    figures.append(Figure(name, WORDS, float(np.mean(rates)), BARS[WORDS], note=f"{len(rates)} words, {' and '.join(by_source)}"))
    for source, found in by_source.items():
        figures.append(Figure(name, f"the same, {source}", float(np.mean(list(found.values()))), note=f"{len(found)} words"))
        tables[f"{WORDS}, {source}"] = {word: {"first": rate} for word, rate in found.items()}
    return Report(figures, tables)
