"""Calibration: the temperature of a model's probabilities, and the thresholds beyond which it says that it does not know.

The file next to the weights is ``calibration.json``, where thresholds are called lines::

    {"temperature": 1.3, "lapse": 0.05,
     "lines": {"something_else": {"score": "max_probability", "line": 0.4, "below": true, "measured": "On 400 photos ..."}}}

A kind may have a list of lines; of a dual encoder one for each kind of prompt: ``"prompts": "scene"`` is about prompts for scenes alone.

Temperature: Guo et al., ICML 2017, arXiv 1706.04599. Lapse: the share of answers that are no better than a guess however large the logit
is, as the lapse rate of a psychometric function (Wichmann and Hill, Perception & Psychophysics 63, 2001). Both change the probabilities
that are shown and never the logits, which are what is explained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from torch import Tensor

from explainers.errors import ExplainerError
from explainers.json_files import read_json
from explainers.json_records import Record, describe, optional
from explainers.models.companion_files.prompt_words import PROMPT_KINDS, PromptKind
from explainers.models.outputs import Output, probabilities

#: The name of the file next to the weights.
CALIBRATION_FILE = "calibration.json"
#: kind of abstention -> what is said then, in few words
ABSTENTION_KINDS = {
    "something_else": "it may be something that the model does not know",
    "no_opinion": "no opinion",
    "unreadable_language": "a language I don't read",
    "unreadable_words": "words I don't read",
    "not_in_picture": "not found in this picture",
    "perhaps_in_picture": "perhaps in this picture",
    "untaught": "nothing that the model was taught to see",
    "unlike_training": "unlike the molecules that the model was trained on",
}
#: kinds of abstention that are shown next to the answer and do not replace it: the model may well be right
DOUBTS = frozenset({"something_else", "perhaps_in_picture", "unlike_training"})
#: the scores that a line may be drawn on, each with what it measures
SCORES = {
    "max_probability": "the largest probability",
    "max_logit": "the largest logit",
    "energy": "the energy of all logits together (temperature x log-sum-exp of logits / temperature: Liu et al., NeurIPS 2020, "
    "arXiv 2010.03759, there with a minus sign)",
    "prominence": "how far the largest logit stands out (its distance from the mean of all in standard deviations, and a tenth of it)",
    "opinion_evidence": "the evidence for an opinion in the tokens that the model ends with",
    "neutral_probability": "the probability of the class called neutral",
    "probability_gap": "the largest probability minus the second largest",
    "share_unknown": "the share of the words that hold an unknown token",
    "strange_words": "the share of words that are strange to English less that of English small words",
    "word_familiarity": "the cosine of the strangest word with the nearest of those that the model was given",
    "cosine": "the cosine of the image and the prompt",
    "patch_cosine": "the mean cosine of the prompt with the tenth of the patches that is most like it",
    "fingerprint_similarity": "the likeness to the nearest molecule of the training (Tanimoto similarity of fingerprints)",
}
#: of the largest logit in its prominence: the share that told best, on photos-vit, what is known from what is not
LENGTH = 0.1
#: the scores that are made from the tokens that a text classifier ends with
FEATURE_SCORES = frozenset({"opinion_evidence"})
#: the score that is made from the patches of a picture
PATCH_SCORE = "patch_cosine"


@dataclass(frozen=True)
class AbstentionThreshold(Record, name="AbstentionLine"):
    """A threshold, ``value``, of one ``score``. A model whose score is above or below it says that it does not know (``kind``). The
    measurement behind the threshold is kept too.
    """

    kind: Annotated[str, describe("What the model then says, as a name for programs.")]
    score: Annotated[str, describe("The number that is compared with the threshold.")]
    value: Annotated[float, describe("The threshold.", key="line")]
    below: Annotated[bool, describe("Whether the model abstains below the threshold; else above.")]
    measured: Annotated[str, describe("On what it was measured, and how often it is right and wrong there, in a sentence.")]
    prompts: Annotated[PromptKind | None, optional("The kind of prompts that it is about; else all.", kind=str)] = None
    misses: Annotated[str | None, optional("What the model is known to miss, in a sentence.")] = None

    @property
    def says(self) -> Annotated[str, describe("What the model then says, in few words.")]:
        """The statement that the model does not know, in few words."""
        return ABSTENTION_KINDS[self.kind]

    def is_crossed(self, score: float) -> bool:
        """Return whether the model abstains at this value of the ``score``."""
        return score < self.value if self.below else score > self.value


@dataclass(frozen=True)
class Calibration(Record):
    """The temperature and the lapse of a model's probabilities, and its thresholds, in their order."""

    temperature: Annotated[float, describe("Logits are divided by it.")] = 1.0
    thresholds: Annotated[tuple[AbstentionThreshold, ...], describe("Where the model abstains.", key="lines")] = ()
    lapse: Annotated[float, describe("The share of answers that are no better than a guess.")] = 0.0

    @property
    def reads_features(self) -> bool:
        """Return whether a threshold is of one of `FEATURE_SCORES`."""
        return any(threshold.score in FEATURE_SCORES for threshold in self.thresholds)

    @property
    def reads_patches(self) -> bool:
        """Return whether one of the thresholds is of `PATCH_SCORE`, so that the score is read from the patches of a picture."""
        return any(threshold.score == PATCH_SCORE for threshold in self.thresholds)

    def probabilities(self, logits: Tensor, output: Output) -> Tensor:
        """Return calibrated probabilities (..., C) from logits of the same shape; ``output`` says which formula: (1 - lapse) softmax(logits
        / temperature) + lapse / C; for labels that are each yes or no, (1 - lapse) sigmoid(logits / temperature) + lapse / 2; NaN for a
        regression.
        """
        shares = probabilities(logits / self.temperature, output)
        if not self.lapse:
            return shares
        return (1 - self.lapse) * shares + self.lapse / (logits.shape[-1] if output == "softmax" else 2)

    def probability_settings(self) -> dict[str, float]:
        """Return the settings that probabilities depend on: temperature and lapse, but no threshold."""
        return ProbabilitySettings(self.temperature, self.lapse).to_json()


@dataclass(frozen=True)
class ProbabilitySettings(Record):
    """The temperature and lapse rate with which the model's probabilities were computed."""

    temperature: float
    lapse: float


def prominence_of(logits: Tensor) -> Tensor:
    """Return a score (...) of how far the largest of logits (..., C) stands out: its distance from their mean in standard deviations, plus
    a tenth of it.

    The first term depends only on the direction of the vector that the head reads: a page of text may point at a class with a short vector.
    The second term also depends on its length. The score is 0 if all logits are equal.
    """
    most = logits.amax(-1)
    return (most - logits.mean(-1)) / logits.std(-1, correction=0).clamp(min=1e-6) + LENGTH * most


#: The calibration of a model that was not measured: its probabilities are softmax(logits), and it has no threshold.
UNCALIBRATED = Calibration()


def read_calibration(path: Path) -> Calibration:
    """Return the calibration in the file ``path``, a ``calibration.json``. Raises ExplainerError, naming the part, for a file of another
    form.
    """
    return parse_calibration(read_json(path), str(path))


def parse_calibration(content: Any, where: str) -> Calibration:
    """Check ``content``, the plain data of a ``calibration.json``, and return the calibration that it describes. ``where`` is the name of
    the file in error messages. Raises ExplainerError for data of another form.
    """
    if not isinstance(content, dict) or not isinstance(content.get("lines", {}), dict):
        raise ExplainerError(f'{where} must be an object such as {{"temperature": 1.3, "lines": {{...}}}}')
    temperature = content.get("temperature", 1.0)
    if not _is_number(temperature) or temperature <= 0:
        raise ExplainerError(f"{where}: temperature must be a positive number, not {temperature!r}")
    lapse = content.get("lapse", 0.0)
    if not _is_number(lapse) or not 0 <= lapse < 1:
        raise ExplainerError(f"{where}: lapse must be a share from 0 to less than 1, not {lapse!r}")
    rows = ((kind, row) for kind, rows in content.get("lines", {}).items() for row in (rows if isinstance(rows, list) else [rows]))
    thresholds = tuple(_parse_threshold(kind, row, f"{where}, {kind}") for kind, row in rows)
    return Calibration(float(temperature), thresholds, float(lapse))


def _parse_threshold(kind: str, row: Any, where: str) -> AbstentionThreshold:
    if kind not in ABSTENTION_KINDS:
        raise ExplainerError(f"{where}: there is no such kind of abstention; there are {', '.join(ABSTENTION_KINDS)}")
    if not isinstance(row, dict) or row.get("score") not in SCORES:
        raise ExplainerError(f"{where}: score must be one of {', '.join(SCORES)}")
    if not _is_number(row.get("line")) or not isinstance(row.get("below"), bool):
        raise ExplainerError(f"{where}: line must be a number, and below true or false")
    if not isinstance(row.get("measured"), str) or not row["measured"].strip():
        raise ExplainerError(
            f"{where}: measured must say, in a sentence, on which data the threshold was measured and at which error rates"
        )
    if row.get("prompts") not in (None, *PROMPT_KINDS):
        raise ExplainerError(f"{where}: prompts must be one of {', '.join(PROMPT_KINDS)}, not {row['prompts']!r}")
    if not isinstance(row.get("misses", ""), str):
        raise ExplainerError(f"{where}: misses must be a sentence on what the model is known to miss")
    return AbstentionThreshold(kind, row["score"], float(row["line"]), row["below"], row["measured"], row.get("prompts"), row.get("misses"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
