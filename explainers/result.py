"""The result types: one explanation of one input, and the attributions in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from explainers.errors import ExplainerError
from explainers.models.base import ImageInput, TextInput, Token


@dataclass(frozen=True)
class TargetInfo:
    """An explained class or prompt, or one that the model thinks of. ``index`` is None for a contrast, ``prompt`` is set for CLIP.

    read     of what is explained: which number of it, ``logit`` or ``probability``; ``logit`` of a contrast is the difference
    of       the class or prompt itself, where ``label`` says more: of a contrast and of a probability
    against  the other class or prompt of a contrast
    """

    label: str
    index: int | None
    prompt: str | None
    logit: float
    probability: float | None
    read: Literal["logit", "probability"] | None = None
    of: str | None = None
    against: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {k: v for k, v in self.__dict__.items() if v is not None}


@dataclass(frozen=True)
class WordScore:
    """A word of the text, with character offsets, and its score; ``part`` is 1 for a word of the second text of a pair."""

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]
    score: float
    part: int = 0


@dataclass(frozen=True, eq=False)
class Attribution:
    """What one method says about one target.

    scores   float32 (S,), on the CPU: every token, prefix and special tokens included; signed where the method is
    content  bool (S,): which of them stand for patches or for words of the text
    patches  (rows, columns) for images: ``scores[content]`` is in raster order
    pixels   float32 (height, width) where the method goes back to the pixels the model saw
    """

    method: str
    readout: str
    rule: str | None
    title: str
    by: str
    year: int | None
    paper: str
    target: str
    scores: Tensor
    content: Tensor
    patches: tuple[int, int] | None
    text: TextInput | None
    signed: bool
    class_specific: bool
    seconds: float
    completeness_error: float | None = None
    notes: tuple[str, ...] = ()
    pixels: Tensor | None = None

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The word pieces, aligned with ``scores``. Raises ExplainerError for an image."""
        if self.text is None:
            raise ExplainerError("An image has patches, not word pieces: see .patches.")
        return self.text.tokens

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest score among patches or words."""
        content = self.scores[self.content]
        return (float(content.min()), float(content.max())) if len(content) else (0.0, 0.0)

    def words(self) -> list[WordScore]:
        """The words of the text with their scores: the sum over a word's pieces where scores are signed, else the largest."""
        if self.text is None:
            raise ExplainerError("An image has patches, not words: see .patches.")
        merge = torch.sum if self.signed else torch.amax
        scored = [(w, float(merge(self.scores[list(w.tokens)]))) for w in self.text.words if w.tokens]
        return [WordScore(w.text, w.start, w.end, w.tokens, score, w.part) for w, score in scored]

    def to_json(self) -> dict[str, Any]:
        """A map as JSON. ``scores``: for an image those of the patches in raster order, for a text one for each token."""
        shown = self.scores if self.patches is None else self.scores[self.content]
        return {
            "method": self.method,
            "readout": self.readout,
            "rule": self.rule,
            "title": self.title,
            "by": self.by,
            "year": self.year,
            "paper": self.paper,
            "target": self.target,
            "scores": shown.tolist(),
            **({"grid": list(self.patches)} if self.patches is not None else {}),
            "range": list(self.range),
            "signed": self.signed,
            "class_specific": self.class_specific,
            **({"completeness_error": self.completeness_error} if self.completeness_error is not None else {}),
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


@dataclass(eq=False)
class Explanation:
    """One input explained: what the model says, and what each method says made it say so.

    ``result[spec]`` is the map of a method for the first target; ``result[spec, label]`` that for another one.
    """

    model: str
    weights_digest: str
    input: ImageInput | TextInput
    labels: Sequence[str]
    logits: Tensor  # (C,), float32, CPU
    probabilities: Tensor  # (C,)
    targets: list[TargetInfo]
    methods: list[str]
    versions: dict[str, str]
    maps: list[Attribution] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    prompted: bool = False  # whether the classes are prompts
    prompts: dict[str, TextInput] = field(default_factory=dict)  # where their words were explained in place of the image: what was read
    tensors: dict[str, Tensor] = field(default_factory=dict, repr=False)  # what the model was given, a batch of one
    completeness_of: Callable[[str], float] | None = field(default=None, repr=False)

    @property
    def target(self) -> TargetInfo:
        """The first explained target."""
        return self.targets[0]

    def __getitem__(self, key: str | tuple[str, str | int]) -> Attribution:
        spec, wanted = key if isinstance(key, tuple) else (key, 0)
        label = self.targets[wanted].label if isinstance(wanted, int) else wanted
        for one in self.maps:
            if one.method == spec and one.target == label:
                return one
        have = ", ".join(dict.fromkeys(m.method for m in self.maps)) or "none yet"
        raise KeyError(f"no map of {spec!r} for {label!r}; methods: {have}; targets: {', '.join(t.label for t in self.targets)}")

    def top(self, count: int = 5) -> list[TargetInfo]:
        """The classes (or prompts) that the model finds likeliest, best first."""
        order = self.logits.argsort(descending=True)[:count]
        return [self.class_info(int(i)) for i in order]

    def class_info(self, index: int) -> TargetInfo:
        """Label, logit and probability of a class."""
        label = self.labels[index] if index < len(self.labels) else f"class {index}"
        return TargetInfo(label, index, label if self.prompted else None, float(self.logits[index]), float(self.probabilities[index]))

    def completeness(self, rule: str) -> float:
        """|f(x) - sum of all FullGrad terms| for the first target under ``rule``: 0 is a full account. Raises
        ExplainerError for a relevance rule.
        """
        assert self.completeness_of is not None
        return self.completeness_of(rule)

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain data, as documented for the HTTP face (the server adds id, state and date)."""
        return {
            "model": self.model,
            "weights_digest": self.weights_digest,
            "versions": self.versions,
            "input": input_json(self.input),
            **({"prompts": [{"prompt": label, **input_json(text)} for label, text in self.prompts.items()]} if self.prompts else {}),
            "targets": [t.to_json() for t in self.targets],
            "top": [t.to_json() for t in self.top()],
            "methods": self.methods,
            "maps": [m.to_json() for m in self.maps],
            "notes": self.notes,
        }


def input_json(record: ImageInput | TextInput) -> dict[str, Any]:
    """How the input was shown to the model, as plain data; of a pair of texts, ``part`` says to which of them a token or word belongs."""
    if isinstance(record, ImageInput):
        return {"kind": "image", "width": record.width, "height": record.height, "crop": list(record.crop), "seen": list(record.seen)}
    told: dict[str, Any] = {
        "kind": "text",
        "text": record.text,
        "tokens": [{"text": t.text, "start": t.start, "end": t.end, "special": t.special} for t in record.tokens],
        "words": [{"text": w.text, "start": w.start, "end": w.end, "tokens": list(w.tokens)} for w in record.words],
    }
    if record.pair is None:
        return told
    parts = {"tokens": [t.part for t in record.tokens], "words": [w.part for w in record.words]}
    for name, own in parts.items():
        told[name] = [{**one, "part": part} for one, part in zip(told[name], own, strict=True)]
    return {**told, "text_pair": record.pair}
