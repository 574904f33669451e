"""Calibrate a model of images: fit the temperature of its probabilities and the thresholds of its abstentions.

Of a classifier on the photos of ``imagen_test`` or on rendered scenes; of a dual encoder see ``clip_calibration``. ``calibration.json``
lies with the weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from embedded.recipes.data.pictures import SIDE
from embedded.recipes.data.scenes import BACKGROUNDS, background
from embedded.recipes.data.unknowable import UNKNOWABLE
from explainers.models.companion_files.calibration import (
    CALIBRATION_FILE,
    UNCALIBRATED,
    AbstentionThreshold,
    Calibration,
    prominence_of,
    read_calibration,
)

SOMETHING_ELSE = "something_else"  # the line of a classifier
STAY = 0.95  # of the photos that are named right are not doubted
SCENES_STAY = 0.95  # of the scenes; they are rendered, so that all of them are known
MADE_UP, NOTHING_KNOWN = "textures, noise and pages of text", "pictures that show nothing it knows"
BINS = 15
TEMPERATURES = np.geomspace(0.3, 3, 150).tolist()
LAPSES = [step / 200 for step in range(41)]  # up to 0.2
SEED = 20_250_104


def scores(logits: Tensor, calibration: Calibration) -> dict[str, Tensor]:
    """Of answers (N, classes) the scores that a line may be drawn in, (N,) each: larger for what is known."""
    return {
        "max_probability": largest_probability(logits, calibration),
        "max_logit": logits.amax(1),
        "prominence": prominence_of(logits),
        "energy": calibration.temperature * (logits / calibration.temperature).logsumexp(1),
    }


def fitted(logits: Tensor, right: Tensor) -> Calibration:
    """The temperature and the lapse under which it is likeliest that those answers (N, classes) are right that are (N,).

    Only the largest probability counts. A temperature alone, which makes all answers less sure alike, can't say of a model that it is
    wrong now and then where it is surest, and sure of more than it should be or of less elsewhere.
    """
    lapses = torch.tensor(LAPSES)[:, None]  # all at once: each by `Calibration.probabilities` would be 41 softmaxes of the same logits

    def likelihood(temperature: float) -> Tensor:
        """(lapses,): the mean logarithm."""
        p = (1 - lapses) * (logits / temperature).softmax(1).amax(1) + lapses / logits.shape[1]
        return torch.where(right, p, 1 - p).clamp(min=1e-9).log().mean(1)

    likelihoods = torch.stack([likelihood(temperature) for temperature in TEMPERATURES])
    row, column = divmod(int(likelihoods.argmax()), len(LAPSES))
    return Calibration(round(TEMPERATURES[row], 4), lapse=LAPSES[column])


def calibration_error(likeliest: Tensor, right: Tensor) -> float:
    """The expected calibration error: over bins of the largest probability (N,), the mean gap to how often the answer is right (N,).

    Guo et al., "On Calibration of Modern Neural Networks", ICML 2017; bins of the same width.
    """
    places = (likeliest * BINS).long().clamp(max=BINS - 1)
    gaps = [(likeliest[places == b].mean() - right[places == b].float().mean()).abs() * (places == b).sum() for b in places.unique()]
    return float(torch.stack(gaps).sum() / len(right))


def made_up(number: int) -> Tensor:
    """uint8 (number, SIDE, SIDE, 3): textures, noise and pages of text; nothing that a class stands for."""
    pictures = []
    for index in range(number):
        rng = np.random.default_rng([SEED, index])
        if index % 4 == 0:
            small = rng.integers(0, 256, (int(rng.integers(8, SIDE)),) * 2 + (3,), dtype=np.uint8)
            pictures.append(np.asarray(Image.fromarray(small).resize((SIDE, SIDE), Image.Resampling.BICUBIC)))
        elif index % 4 == 1:
            pictures.append(page(rng))
        else:
            pictures.append(background(BACKGROUNDS[index % len(BACKGROUNDS)], int(rng.integers(2**31)), SIDE).round().astype(np.uint8))
    return torch.from_numpy(np.stack(pictures))


def page(rng: np.random.Generator) -> Any:
    """(SIDE, SIDE, 3): lines of random words, dark on light."""
    image = Image.new("RGB", (SIDE, SIDE), tuple(int(v) for v in rng.integers(215, 256, 3)))
    draw, ink = ImageDraw.Draw(image), tuple(int(v) for v in rng.integers(0, 90, 3))
    for top in range(10, SIDE - 12, int(rng.integers(11, 18))):
        text = " ".join("".join(chr(97 + int(c)) for c in rng.integers(0, 26, rng.integers(1, 9))) for _ in range(9))
        draw.text((12, top), text[: int(rng.integers(12, 34))], fill=ink)
    return np.asarray(image)


def unknowable(number: int) -> dict[str, Tensor]:
    """What cannot be known, by what it is: `made_up` pictures, and ``number`` each of those of `UNKNOWABLE`, uint8 (n, SIDE, SIDE, 3)."""
    pictures = {MADE_UP: made_up(number)}
    for place, (kind, make) in enumerate(UNKNOWABLE.items()):
        pictures[kind] = torch.from_numpy(np.stack([make(np.random.default_rng([SEED, 2, place, i])) for i in range(number)]))
    return pictures


def calibrate(logits: Tensor, truth: Tensor, unknown: Tensor) -> dict[str, Any]:
    """The document of a classifier: from its answers to photos (N, classes), which are right, and its answers to `unknowable` pictures.

    One in twenty of the photos that are named right lies below the line of a score; the score is taken whose line has most unknowable
    pictures below it. Where none is named right, no line can be drawn.
    """
    right = truth.gather(1, logits.argmax(1, keepdim=True))[:, 0]
    if not right.any():
        return {"temperature": 1.0, "lines": {}}
    probabilities = fitted(logits, right)
    line = _best_line(logits[right], unknown, probabilities, STAY, "photos that the model names right", NOTHING_KNOWN)
    return {"temperature": probabilities.temperature, "lapse": probabilities.lapse, "lines": {SOMETHING_ELSE: line}}


def calibrate_scenes(known: Tensor, unknown: Tensor) -> dict[str, Any]:
    """The document of a classifier of scenes: from its answers to scenes and to `made_up` pictures, (N, classes) each.

    The line is drawn as by `calibrate`. The objects of a scene share its probability, so its temperature stays 1.
    """
    line = _best_line(known, unknown, UNCALIBRATED, SCENES_STAY, "rendered scenes", MADE_UP)
    return {"temperature": 1.0, "lines": {SOMETHING_ELSE: line}}


def _best_line(known: Tensor, unknown: Tensor, calibration: Calibration, stay: float, what: str, others: str) -> dict[str, Any]:
    """The line under the share ``stay`` of known answers in the score where most unknown ones lie below it."""
    lines = {name: float(values.quantile(1 - stay)) for name, values in scores(known, calibration).items()}
    below = {name: float((values < lines[name]).float().mean()) for name, values in scores(unknown, calibration).items()}
    score = max(below, key=below.__getitem__)
    measured = f"{stay:.0%} of {len(known)} {what} stay above the line; {below[score]:.0%} of {len(unknown)} {others} fall below it"
    return {"score": score, "line": round(lines[score], 4), "below": True, "measured": measured}


def write(folder: Path, document: dict[str, Any]) -> None:
    """Put the document beside the weights."""
    (folder / CALIBRATION_FILE).write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def stays_known(logits: Tensor, calibration: Calibration) -> Tensor:
    """bool (N,): which answers (N, classes) of a classifier are on the near side of its line. ``calibration`` must have one."""
    line = _line(calibration)
    assert line is not None
    return torch.tensor([not line.is_crossed(value) for value in scores(logits, calibration)[line.score].tolist()], dtype=torch.bool)


def largest_probability(logits: Tensor, calibration: Calibration) -> Tensor:
    """(N,) of answers (N, classes)."""
    return calibration.probabilities(logits, "softmax").amax(1)


def shipped_calibration(folder: Path) -> Calibration | None:
    """The calibration beside the weights of a classifier; None where there is none, or it does not say what is something else."""
    path = folder / CALIBRATION_FILE
    calibration = read_calibration(path) if path.is_file() else UNCALIBRATED
    return calibration if _line(calibration) else None


def _line(calibration: Calibration) -> AbstentionThreshold | None:
    return next((line for line in calibration.thresholds if line.kind == SOMETHING_ELSE), None)


def letters_at_random(number: int) -> list[str]:
    """Words that nobody knows: syllables at random."""
    rng = np.random.default_rng([SEED, 1])
    consonants, vowels = "bcdfghjklmnpqrstvwxz", "aeiouy"
    return [
        "".join(consonants[rng.integers(len(consonants))] + vowels[rng.integers(len(vowels))] for _ in range(rng.integers(3, 5)))
        for _ in range(number)
    ]
