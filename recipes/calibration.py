"""Calibrate a model of images: fit the temperature of its probabilities and the thresholds of its abstentions.

Of a classifier on the photos of ``imagen_test`` or on rendered scenes; of a dual encoder see ``clip_calibration``. ``calibration.json``
lies with the weights.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor

from explainers.embedded.synthetic.scenes import BACKGROUNDS, background
from explainers.models.companion_files.calibration import (
    CALIBRATION_FILE,
    UNCALIBRATED,
    AbstentionThreshold,
    Calibration,
    prominence_of,
    read_calibration,
)
from recipes.data.pictures import SIDE
from recipes.data.unknowable import UNKNOWABLE

SOMETHING_ELSE = "something_else"  # the kind of a classifier's abstention threshold
KNOWN_PHOTO_SHARE = 0.95  # share of the rightly named photos that must stay above the threshold
KNOWN_SCENE_SHARE = 0.95  # share of the scenes that must stay above it; they are rendered, so the model knows all of them
MADE_UP_PICTURES, UNKNOWABLE_PICTURES = "textures, noise and pages of text", "pictures that show nothing it knows"
BINS = 15
TEMPERATURES = np.geomspace(0.3, 3, 150).tolist()
LAPSES = [step / 200 for step in range(41)]  # up to 0.2
SEED = 20_250_104


def scores(logits: Tensor, calibration: Calibration) -> dict[str, Tensor]:
    """Return four candidate scores for the abstention threshold, (N,) each, from ``logits`` (N, classes), with the temperature of
    ``calibration``: larger for familiar inputs.
    """
    return {
        "max_probability": largest_probability(logits, calibration),
        "max_logit": logits.amax(1),
        "prominence": prominence_of(logits),
        "energy": calibration.temperature * (logits / calibration.temperature).logsumexp(1),
    }


def fit_calibration(logits: Tensor, right: Tensor) -> Calibration:
    """Fit the temperature and the lapse of a calibration and return it: maximise the likelihood of ``right`` (N,), which says whether each
    answer is right.

    ``logits`` are (N, classes); only the largest probability of each row counts. A temperature alone makes all answers less certain in the
    same way. It cannot describe a model that is sometimes wrong where it is most certain, and elsewhere too certain or not certain enough.
    """
    lapses = torch.tensor(LAPSES)[:, None]  # all at once: each by `Calibration.probabilities` would be 41 softmaxes of the same logits

    def likelihood(temperature: float) -> Tensor:
        """Return the mean log-likelihood under each lapse, (lapses,), at one ``temperature``."""
        p = (1 - lapses) * (logits / temperature).softmax(1).amax(1) + lapses / logits.shape[1]
        return torch.where(right, p, 1 - p).clamp(min=1e-9).log().mean(1)

    likelihoods = torch.stack([likelihood(temperature) for temperature in TEMPERATURES])
    row, column = divmod(int(likelihoods.argmax()), len(LAPSES))
    return Calibration(round(TEMPERATURES[row], 4), lapse=LAPSES[column])


def calibration_error(likeliest: Tensor, right: Tensor) -> float:
    """Return the expected calibration error: over bins of ``likeliest``, the largest probability (N,), the mean gap between it and how
    often the answer is ``right``, bool (N,).

    Guo et al., "On Calibration of Modern Neural Networks", ICML 2017; bins of the same width.
    """
    places = (likeliest * BINS).long().clamp(max=BINS - 1)
    gaps = [(likeliest[places == b].mean() - right[places == b].float().mean()).abs() * (places == b).sum() for b in places.unique()]
    return float(torch.stack(gaps).sum() / len(right))


def draw_made_up(number: int) -> Tensor:
    """Draw pictures of textures, noise and pages of text, which show no class: uint8 (number, SIDE, SIDE, 3)."""
    pictures = []
    for index in range(number):
        rng = np.random.default_rng([SEED, index])
        if index % 4 == 0:
            small = rng.integers(0, 256, (int(rng.integers(8, SIDE)),) * 2 + (3,), dtype=np.uint8)
            pictures.append(np.asarray(Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC)))
        elif index % 4 == 1:
            pictures.append(draw_page(rng))
        else:
            pictures.append(background(BACKGROUNDS[index % len(BACKGROUNDS)], int(rng.integers(2**31)), SIDE).round().astype(np.uint8))
    return torch.from_numpy(np.stack(pictures))


def draw_page(rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw a page of random words from ``rng``, dark on light, uint8 (SIDE, SIDE, 3)."""
    image = Image.new("RGB", (SIDE, SIDE), tuple(int(v) for v in rng.integers(215, 256, 3)))
    draw, ink = ImageDraw.Draw(image), tuple(int(v) for v in rng.integers(0, 90, 3))
    for top in range(10, SIDE - 12, int(rng.integers(11, 18))):
        text = " ".join("".join(chr(97 + int(c)) for c in rng.integers(0, 26, rng.integers(1, 9))) for _ in range(9))
        draw.text((12, top), text[: int(rng.integers(12, 34))], fill=ink)
    return np.asarray(image)


def draw_unknowable(number: int) -> dict[str, Tensor]:
    """Draw pictures that show nothing a class stands for, by kind: `draw_made_up` ones, and ``number`` of each kind of `UNKNOWABLE`, uint8
    (n, SIDE, SIDE, 3).
    """
    pictures = {MADE_UP_PICTURES: draw_made_up(number)}
    for place, (kind, make) in enumerate(UNKNOWABLE.items()):
        pictures[kind] = torch.from_numpy(np.stack([make(np.random.default_rng([SEED, 2, place, i])) for i in range(number)]))
    return pictures


def calibrate(logits: Tensor, truth: Tensor, unknown: Tensor) -> dict[str, Any]:
    """Return the ``calibration.json`` of a classifier, from its ``logits`` (N, classes) for photos and ``unknown`` (M, classes) for
    `draw_unknowable` pictures.

    ``truth`` (N, classes) marks the right classes. A score's threshold leaves one in twenty of the rightly named photos below it; the score
    is taken that has most unknowable pictures below its threshold. Where no photo is named right, there is no threshold.
    """
    right = truth.gather(1, logits.argmax(1, keepdim=True))[:, 0]
    if not right.any():
        return {"temperature": 1.0, "lines": {}}
    probabilities = fit_calibration(logits, right)
    line = _best_threshold(
        logits[right], unknown, probabilities, KNOWN_PHOTO_SHARE, "photos that the model names right", UNKNOWABLE_PICTURES
    )
    return {"temperature": probabilities.temperature, "lapse": probabilities.lapse, "lines": {SOMETHING_ELSE: line}}


def calibrate_scenes(known: Tensor, unknown: Tensor) -> dict[str, Any]:
    """Return the ``calibration.json`` of a classifier of scenes, from its logits (N, classes) for scenes (``known``) and for `draw_made_up`
    pictures (``unknown``).

    The threshold is chosen as by `calibrate`. The objects of a scene share its probability, so its temperature stays 1.
    """
    line = _best_threshold(known, unknown, UNCALIBRATED, KNOWN_SCENE_SHARE, "rendered scenes", MADE_UP_PICTURES)
    return {"temperature": 1.0, "lines": {SOMETHING_ELSE: line}}


def _best_threshold(known: Tensor, unknown: Tensor, calibration: Calibration, stay: float, what: str, others: str) -> dict[str, Any]:
    """Choose the score and its threshold, and return them as an entry of ``calibration.json``: the share ``stay`` of the ``known`` answers
    (logits (N, classes)) lies above it, and as many of the ``unknown`` ones as possible below. ``what`` and ``others`` are the words for
    both in its sentence.
    """
    lines = {name: float(values.quantile(1 - stay)) for name, values in scores(known, calibration).items()}
    below = {name: float((values < lines[name]).float().mean()) for name, values in scores(unknown, calibration).items()}
    score = max(below, key=below.__getitem__)
    measured = f"{stay:.0%} of {len(known)} {what} stay above the line; {below[score]:.0%} of {len(unknown)} {others} fall below it"
    line = math.floor(lines[score] * 1e4) / 1e4  # rounded up it would cut off the answers that lie on it
    return {"score": score, "line": line, "below": True, "measured": measured}


def write(folder: Path, document: dict[str, Any]) -> None:
    """Write ``document`` as ``calibration.json`` into ``folder``, which holds the weights of the model."""
    (folder / CALIBRATION_FILE).write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def is_known(logits: Tensor, calibration: Calibration) -> Tensor:
    """Return which answers of a classifier, ``logits`` (N, classes), its abstention threshold, in ``calibration``, accepts: bool (N,).
    ``calibration`` must have one.
    """
    line = _abstention_threshold(calibration)
    assert line is not None
    return torch.tensor([not line.is_crossed(value) for value in scores(logits, calibration)[line.score].tolist()], dtype=torch.bool)


def largest_probability(logits: Tensor, calibration: Calibration) -> Tensor:
    """Return the largest probability by ``calibration``, (N,), of each row of ``logits`` (N, classes)."""
    return calibration.probabilities(logits, "softmax").amax(1)


def read_shipped_calibration(folder: Path) -> Calibration | None:
    """Read the ``calibration.json`` in ``folder``, which holds a classifier, and return it; None if there is none, or it has no threshold
    for "something else".
    """
    path = folder / CALIBRATION_FILE
    calibration = read_calibration(path) if path.is_file() else UNCALIBRATED
    return calibration if _abstention_threshold(calibration) else None


def _abstention_threshold(calibration: Calibration) -> AbstentionThreshold | None:
    return next((line for line in calibration.thresholds if line.kind == SOMETHING_ELSE), None)


def random_words(number: int) -> list[str]:
    """Return a ``number`` of words that nobody knows, made of random syllables."""
    rng = np.random.default_rng([SEED, 1])
    consonants, vowels = "bcdfghjklmnpqrstvwxz", "aeiouy"
    return [
        "".join(consonants[rng.integers(len(consonants))] + vowels[rng.integers(len(vowels))] for _ in range(rng.integers(3, 5)))
        for _ in range(number)
    ]
