"""Rules for when a model should say that it doesn't know: scores of one answer, compared with the thresholds of its calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from torch import Tensor

from explainers.errors import ExplainerError
from explainers.json_records import Record, describe
from explainers.models.companion_files.calibration import (
    ABSTENTION_KINDS,
    DOUBTS,
    SCORES,
    UNCALIBRATED,
    AbstentionThreshold,
    Calibration,
    prominence_of,
)
from explainers.models.companion_files.prompt_words import PromptReading, words_of
from explainers.models.feature_scores import feature_score
from explainers.models.inputs import languages
from explainers.models.inputs.types import TextInput

NEUTRAL = "neutral"  # the label of the class that stands for no opinion


@dataclass(frozen=True)
class Abstention(Record):
    """A statement that the model cannot know the answer: its kind, the statement in a few words (``says``) and in a sentence (``detail``),
    the score, and in ``line`` the threshold that it crossed. It replaces the answer, or stands next to it if it is only a doubt.
    """

    kind: Annotated[str, describe("The kind of statement: untaught, no_opinion, ...")]
    says: Annotated[str, describe("The statement in a few words.")]
    detail: Annotated[str, describe("The statement in one sentence.")]
    score: Annotated[float, describe("The number that crossed the threshold.")]
    line: Annotated[float, describe("The threshold that the score crossed.")]

    def qualify(self, answer: str) -> str:
        """Return a text: the ``answer``, a label, followed by the doubt, such as "a zebra? perhaps in this picture"; if the abstention is
        more than a doubt, only its statement (``says``).
        """
        return f"{answer}? {self.says}" if self.kind in DOUBTS else self.says

    def beside(self, answer: str) -> str:
        """Return what :meth:`qualify` returns for ``answer``: its name in version 0.2."""
        return self.qualify(answer)


@dataclass(frozen=True)
class Evidence:
    """The data of one answer from which scores are computed. Each score reads what it needs.

    logits       (C,), one for each class
    calibration  the calibration of the probabilities, with its thresholds
    labels       names of the classes
    text         the text or the prompt that was read; None for other inputs
    ids          the token ids (S,) of ``text``
    unknown_id   the id of the tokenizer's unknown token; None if it has none
    cosine       cosine of the embeddings of an image and a prompt
    patch_cosine mean cosine of the prompt with the tenth of the patches that is most like it
    similarity   similarity of a molecule to the nearest one of the training data; None if these are unknown
    prompt       what is known about the prompt itself
    features     (D,): the mean of a text's tokens after the last block; None if no threshold needs them
    directions   directions of features, see `explainers.models.feature_scores`
    """

    logits: Tensor | None = None
    calibration: Calibration = UNCALIBRATED
    labels: Sequence[str] = ()
    text: TextInput | None = None
    ids: Sequence[int] = ()
    unknown_id: int | None = None
    cosine: float | None = None
    patch_cosine: float | None = None
    similarity: float | None = None
    prompt: PromptReading | None = None
    features: Tensor | None = None
    directions: Mapping[str, Tensor] = field(default_factory=dict)


def max_probability(evidence: Evidence) -> float:
    """Return the largest probability in the answer that ``evidence`` holds."""
    return float(_probabilities(evidence).max())


def max_logit(evidence: Evidence) -> float:
    """Return the largest logit in the answer that ``evidence`` holds."""
    return float(_logits(evidence).max())


def energy(evidence: Evidence) -> float:
    """Return the energy score T logsumexp(logits / T) of the answer in ``evidence``, with T the temperature; it is large for familiar
    inputs.
    """
    temperature = evidence.calibration.temperature
    return float(temperature * (_logits(evidence) / temperature).logsumexp(-1))


def prominence(evidence: Evidence) -> float:
    """Return how far the largest logit of the answer in ``evidence`` stands out, as a number:
    `explainers.models.companion_files.calibration.prominence_of`.
    """
    return float(prominence_of(_logits(evidence)))


def opinion_evidence(evidence: Evidence) -> float:
    """Return how strongly the tokens after the last block, in the evidence of an answer, suggest that the text gives an opinion. Raises
    ExplainerError if the evidence has no such tokens.
    """
    if evidence.features is None:
        raise ExplainerError("opinion_evidence is a score of text classifiers, made from the tokens that they end with")
    return feature_score("opinion_evidence", evidence.directions, evidence.features)


def neutral_probability(evidence: Evidence) -> float:
    """Return the probability of the class called neutral in the answer in ``evidence``. Raises ExplainerError if there is none."""
    labels = [label.casefold() for label in evidence.labels]
    if NEUTRAL not in labels:
        raise ExplainerError(f"neutral_probability needs a class called {NEUTRAL}; there are {', '.join(evidence.labels[:6])}")
    return float(_probabilities(evidence)[labels.index(NEUTRAL)])


def probability_gap(evidence: Evidence) -> float:
    """Return the largest probability of the answer in ``evidence`` minus the second largest; 1 if there is one class."""
    best = _probabilities(evidence).topk(min(2, len(_logits(evidence)))).values
    return float(best[0] - best[1]) if len(best) > 1 else 1.0


def share_unknown(evidence: Evidence) -> float:
    """Return the share, 0 to 1, of the words of the text in ``evidence`` that have an unknown token among their pieces; 1 if there are no
    words.
    """
    text = _text(evidence)
    if evidence.unknown_id is None or not text.words:
        return 0.0 if text.words else 1.0
    unknown = [any(evidence.ids[i] == evidence.unknown_id for i in word.tokens) for word in text.words]
    return sum(unknown) / len(unknown)


def strange_words(evidence: Evidence) -> float:
    """Return how strongly the words of the text in ``evidence`` suggest another language than English, from -1 to 1: see
    `explainers.models.inputs.languages.strange_words`.
    """
    return languages.strange_words(_text(evidence))


def word_familiarity(evidence: Evidence) -> float:
    """Return the cosine of the prompt's strangest word with the nearest word of the model's training data, from the evidence of an answer.
    Raises ExplainerError if that is not known.
    """
    if evidence.prompt is None:
        raise ExplainerError("word_familiarity is a score of models with prompt_words.safetensors next to their weights")
    return evidence.prompt.familiarity


def cosine(evidence: Evidence) -> float:
    """Return the cosine of the image's and the prompt's embeddings, from ``evidence``. Raises ExplainerError if there is none."""
    if evidence.cosine is None:
        raise ExplainerError("cosine is a score of models that compare images with prompts and say their logit_scale")
    return evidence.cosine


def patch_cosine(evidence: Evidence) -> float:
    """Return the mean cosine of the prompt with the tenth of the patches that is most like it, from ``evidence``. Raises ExplainerError if
    there is none.
    """
    if evidence.patch_cosine is None:
        raise ExplainerError("patch_cosine is a score of models that compare images with prompts, patch by patch")
    return evidence.patch_cosine


def fingerprint_similarity(evidence: Evidence) -> float:
    """Return the similarity of the molecule to the nearest molecule of the training data, from the evidence of an answer. Raises
    ExplainerError if that is not known.
    """
    if evidence.similarity is None:
        raise ExplainerError("fingerprint_similarity is a score of models of molecules with fingerprints.safetensors next to their weights")
    return evidence.similarity


#: name in calibration.json -> the function of an answer
MEASURES: dict[str, Callable[[Evidence], float]] = {
    function.__name__: function
    for function in (
        max_probability,
        max_logit,
        energy,
        prominence,
        opinion_evidence,
        neutral_probability,
        probability_gap,
        share_unknown,
        strange_words,
        word_familiarity,
        cosine,
        patch_cosine,
        fingerprint_similarity,
    )
}
assert set(MEASURES) == set(SCORES)


def abstention(evidence: Evidence, subject: str) -> Abstention | None:
    """Return why a prompt cannot be read, else the first threshold of its calibration that the answer crosses, else that nothing of a text
    was read, as an abstention; None if there is none of these.

    ``evidence`` holds the model's answer and what it read; ``subject`` is its name in the sentence: the text, or a prompt in quotation
    marks.
    """
    if unread := _judge_words(evidence, subject):
        return unread
    for threshold in evidence.calibration.thresholds:
        if threshold.prompts is not None and (evidence.prompt is None or evidence.prompt.kind != threshold.prompts):
            continue
        value = MEASURES[threshold.score](evidence)
        if threshold.is_crossed(value):
            return Abstention(
                threshold.kind, ABSTENTION_KINDS[threshold.kind], _detail(threshold, value, evidence, subject), value, threshold.value
            )
    return _judge_characters(evidence)


def _judge_words(evidence: Evidence, subject: str) -> Abstention | None:
    """Return an abstention for a prompt (in ``evidence``) in another language, or with a word that is no training word and that the
    tokenizer has to spell in pieces; None for one that can be read, and where the training words are not known.

    Its text encoder may know such a word ("giraffe"), but no picture of the training was named by it. Other untaught words ("towards") are
    read: the text encoder has a piece for each. The abstention's score is the number of such words.
    """
    if evidence.prompt is None or not evidence.prompt.untaught or not isinstance(evidence.text, TextInput):
        return None
    untaught = set(evidence.prompt.untaught)
    words = words_of(evidence.text.text or "")
    foreign = [word for word in words if word in untaught and languages.is_foreign(word)]
    if foreign and 2 * sum(word in untaught for word in words) > len(words):
        detail = f"{subject} is not English, the only language that the model was taught."
        return Abstention("unreadable_language", ABSTENTION_KINDS["unreadable_language"], detail, len(foreign), 0)
    spelt_out = [part for word in evidence.text.words if languages.is_spelt_out(word) for part in words_of(word.text) if part in untaught]
    if not spelt_out:
        return None
    detail = f"The model learned from no picture named “{spelt_out[0]}”, so its map of {subject} may mean nothing."
    return Abstention("untaught", ABSTENTION_KINDS["untaught"], detail, len(spelt_out), 0)


def _judge_characters(evidence: Evidence) -> Abstention | None:
    """Return an abstention for a text, in ``evidence``, of which the tokenizer knows no word; None for any other, and for a prompt."""
    text = evidence.text
    if evidence.prompt is not None or evidence.unknown_id is None or not isinstance(text, TextInput) or not text.words:
        return None
    if share_unknown(evidence) < 1:
        return None
    detail = "The model reads none of these words or signs: they are not in its vocabulary."
    return Abstention("unreadable_words", ABSTENTION_KINDS["unreadable_words"], detail, 1.0, 1.0)


def _detail(threshold: AbstentionThreshold, value: float, evidence: Evidence, subject: str) -> str:
    """Return one sentence for a person on why the model abstains: what it cannot tell about ``subject``, with the measured ``value`` and
    the threshold in brackets. ``evidence`` holds the answer that is judged.
    """
    side = "below" if threshold.below else "above"
    shown, limit = _format_both(value, threshold.value, _is_share(threshold.score))
    strangest = evidence.prompt.strangest if evidence.prompt else ""
    return _SENTENCES[threshold.kind].format(
        measured=f"{SCORES[threshold.score].partition(' (')[0]} is {shown}, {side} the threshold of {limit}",
        subject=subject,
        classes=len(evidence.labels),
        word=f"“{strangest}”" if strangest else "a word",
        of_kind=f" for a {threshold.prompts}" if threshold.prompts else "",
        figures=threshold.measured,
        misses=f" {threshold.misses}" if threshold.misses else "",
    )


#: The sentence of each kind of abstention, with the fields that :func:`_detail` fills in.
_SENTENCES = {
    "something_else": "It may be none of the {classes:,} things that the model knows, or several of them ({measured}).",
    "unlike_training": "The model was trained on no molecule like this one ({measured}).",
    "no_opinion": "The model sees no opinion in this text ({measured}).",
    "unreadable_language": "The model cannot read this language: few words of the text are English ({measured}).",
    "unreadable_words": "{subject} has {word}, which is like no word that the model knows ({measured}).",
    "untaught": "{subject} asks{of_kind}; this model cannot tell whether one is in a picture. {figures}",
    "perhaps_in_picture": "{subject} may be in this picture, or not: prompts{of_kind} may score this high where it is not ({measured}).",
    "not_in_picture": "The model did not find {subject} in this picture; it may still be there ({measured}).{misses}",
}
assert set(_SENTENCES) == set(ABSTENTION_KINDS)


def _is_share(score: str) -> bool:
    return score in ("max_probability", "neutral_probability", "probability_gap", "share_unknown")


def _logits(evidence: Evidence) -> Tensor:
    if evidence.logits is None:
        raise ExplainerError("this score is made from logits, and there are none")
    return evidence.logits.float()


def _probabilities(evidence: Evidence) -> Tensor:
    return evidence.calibration.probabilities(_logits(evidence), "softmax")


def _text(evidence: Evidence) -> TextInput:
    if evidence.text is None:
        raise ExplainerError("this score is made from words, and the model reads none")
    return evidence.text


def _format_both(value: float, threshold: float, is_share: bool) -> tuple[str, str]:
    """Format ``value`` and its ``threshold``, as percentages if ``is_share``, with as many digits as are needed to make them look
    different; return both texts.
    """
    for digits in range(1 if is_share else 2, 15):
        shown, limit = (f"{number:.{digits}{'%' if is_share else 'f'}}" for number in (value, threshold))
        if shown != limit or value == threshold:
            break
    return shown, limit
