"""The result types: one explanation of one input, and the attributions in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.models.abstention import Abstention
from explainers.models.inputs.types import ImageInput, TextInput, Token
from explainers.models.outputs import Output
from explainers.models.tasks import Place
from explainers.records.input_json import input_json
from explainers.records.outliers import OutlierPatches
from explainers.records.targets import ResolvedTarget

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TargetInfo:
    """An explained class or prompt, or one that the model thinks of.

    index    None for a contrast and for a group
    prompt   set for CLIP
    explains  of what is explained: which number of it, ``logit`` or ``probability``; ``logit`` of a contrast is the difference. In JSON
             it is called ``read``
    of       the class or prompt itself, where ``label`` says more: of a contrast, of a probability, and of a group (``any:dog``)
    against  the other class, prompt or group of a contrast
    group    of :class:`AnyOf`, the group: ``logit`` is the log-sum-exp of its classes, ``probability`` their sum
    kind     of a target of a kind that was added: its name. ``of`` is then how it is written
    abstention  of a prompt that the model cannot read or that is not in the picture; its numbers then say nothing
    """

    label: str
    index: int | None
    prompt: str | None
    logit: float
    probability: float | None
    explains: Literal["logit", "probability"] | None = None
    of: str | None = None
    against: str | None = None
    group: str | None = None
    abstention: Abstention | None = None
    kind: str | None = None

    @property
    def read(self) -> Literal["logit", "probability"] | None:
        """What ``explains`` was called in 0.1."""
        return self.explains

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        values = {"read" if k == "explains" else k: v for k, v in self.__dict__.items() if v is not None}
        return values if self.abstention is None else {**values, "abstention": self.abstention.to_json()}


@dataclass(frozen=True)
class WordScore:
    """A word of the text, with character offsets, and its score; ``part`` is 1 for a word of the second text of a pair."""

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]
    score: float
    part: int = 0


def word_scores(text: TextInput, scores: Tensor, signed: bool) -> list[WordScore]:
    """The words of a text with their scores: the sum over a word's pieces where scores are signed, else the largest."""
    merge = torch.sum if signed else torch.amax
    scored = [(w, float(merge(scores[list(w.tokens)]))) for w in text.words if w.tokens]
    return [WordScore(w.text, w.start, w.end, w.tokens, score, w.part) for w, score in scored]


@dataclass(frozen=True)
class MapPrecision:
    """In which precision a map of relevance was computed, and why.

    dtype     ``float32``, ``float64``, ...
    why       in one sentence
    rounding  by how much of the largest score rounding may change the map in the model's own precision (estimated, rather too large than
              too small); None where nobody asked
    """

    dtype: str
    why: str
    rounding: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data; what is beyond any number is no number."""
        rounding = self.rounding if self.rounding is not None and math.isfinite(self.rounding) else None
        return {"dtype": self.dtype, "why": self.why, "rounding": rounding}


@dataclass(frozen=True, eq=False)
class Numerics:
    """What is known of the numbers of a map, score by score: of this its notes on them are made. Tensors are (S,), on the CPU; None where
    nobody asked.

    sizes   the sum of the absolute values of a score's terms, in the type that they were added in
    errors  by how much rounding may change a score in the model's own precision (estimated)
    change  of a map of float64: by how much the same score in the model's own precision differs from it
    dtype   the model's own precision, where ``errors`` are known
    notes   those of the map's notes that say so
    """

    sizes: Tensor | None = None
    errors: Tensor | None = None
    change: Tensor | None = None
    dtype: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Attribution:
    """What one method says about one target.

    method   the spec: the name of the method with its rule and options; ``method_name`` is the name alone
    scores   float32 (S,), on the CPU: every token, prefix and special tokens included; signed where the method is
    content  bool (S,): which of them stand for patches or for words of the text
    adds_up_to  what the scores promise to add up to under this rule and with these options; None: nothing
    patches  (rows, columns) for images: ``scores[content]`` is in raster order
    pixels   float32 (height, width) where the method goes back to the pixels the model saw
    image    the picture that the map lies on; None for a text
    precision  of a map of relevance, in which precision it was computed and why; None for others, which need no more than the model's
    seed_correlation  of a map that was drawn at random, how much it would correlate with that of another seed, estimated from its samples
    numerics   what its notes on rounding are made of
    options  those that the spec names, as values
    names_rule  whether the title says the rule
    """

    method: str
    method_name: str
    rule: str | None
    title: str
    source: Citation
    target: str
    scores: Tensor
    content: Tensor
    patches: tuple[int, int] | None
    text: TextInput | None
    signed: bool
    class_specific: bool
    seconds: float
    adds_up_to: str | None = None
    completeness_error: float | None = None
    notes: tuple[str, ...] = ()
    pixels: Tensor | None = None
    image: ImageInput | None = field(default=None, repr=False)
    precision: MapPrecision | None = None
    seed_correlation: float | None = None
    numerics: Numerics = field(default=Numerics(), repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    names_rule: bool = False

    def __repr__(self) -> str:
        over = f"{len(self.scores)} tokens" if self.patches is None else f"{self.patches[0]} x {self.patches[1]} patches"
        return f"<Attribution {self.method} of {self.target!r} over {over}>"

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The word pieces, aligned with ``scores``. Raises ExplainerError for an image."""
        if self.text is None:
            raise ExplainerError("An image has patches, not word pieces: see .patches.")
        return self.text.tokens

    @property
    def readout(self) -> str:
        """What ``method_name`` was called in 0.1."""
        return self.method_name

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest score among patches or words."""
        content = self.scores[self.content]
        return (float(content.min()), float(content.max())) if len(content) else (0.0, 0.0)

    def words(self) -> list[WordScore]:
        """The words of the text with their scores: the sum over a word's pieces where scores are signed, else the largest."""
        if self.text is None:
            raise ExplainerError("An image has patches, not words: see .patches.")
        return word_scores(self.text, self.scores, self.signed)

    def _repr_html_(self) -> str:
        """The map over its picture, or the words in their colours: what a notebook shows."""
        from explainers.rendering.notebook import map_html

        return map_html(self, self.image)

    def to_json(self) -> dict[str, Any]:
        """A map as JSON. ``scores``: for an image those of the patches in raster order, for a text one for each token.

        ``pixels``: rows and columns of the map of the pixels, where the method has one; its numbers are not in here.
        """
        shown = self.scores if self.patches is None else self.scores[self.content]
        return {
            "method": self.method,
            "readout": self.method_name,
            "rule": self.rule,
            **({"options": dict(self.options)} if self.options else {}),
            "title": self.title,
            "names_rule": self.names_rule,
            **self.source.to_json(),
            "target": self.target,
            "scores": shown.tolist(),
            **({"grid": list(self.patches)} if self.patches is not None else {}),
            **({"pixels": list(self.pixels.shape)} if self.pixels is not None else {}),
            "range": list(self.range),
            "signed": self.signed,
            "class_specific": self.class_specific,
            "adds_up_to": self.adds_up_to,
            **({"completeness_error": self.completeness_error} if self.completeness_error is not None else {}),
            **({"seed_correlation": self.seed_correlation} if self.seed_correlation is not None else {}),
            **({"precision": self.precision.to_json()} if self.precision is not None else {}),
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class WindowInfo:
    """A part of a text that was longer than the model takes, and what the model says of this part alone.

    start, end   characters of the text
    tokens       its first and its last word piece among the tokens of the text
    label        the top class, and its ``probability``, None for a regression
    logits       for each explained target, in order: their mean is the target's own
    """

    start: int
    end: int
    tokens: tuple[int, int]
    label: str
    probability: float | None
    logits: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**self.__dict__, "tokens": list(self.tokens), "logits": list(self.logits)}


@dataclass(eq=False)
class Explanation:
    """One input explained: what the model says, and what each method says made it say so.

    ``probabilities`` are calibrated (`explainers.models.companion_files.calibration`): softmax(logits) where the model has no calibration.
    ``abstention`` says what the model can't know of this input; None where it is within what it knows.

    ``windows`` says where the windows lie of a text that was longer than the model takes: its logits are the means of theirs, and
    ``tensors`` has a row for each. Empty for what was read whole.

    ``result[spec]`` is the map of a method for the first target; ``result[spec, label]`` that for another one. ``spellings`` has for each
    spec as it was asked for that of its map: another where one method was spelt in two ways.
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
    output: Output = "softmax"  # what the logits mean; a regression has no probabilities: they are not a number
    abstention: Abstention | None = None
    task: str | None = None  # of a model that gives more than one row of logits: which
    place: Place | None = None  # of such a model, which place of its output is explained
    places: Sequence[Place] = ()  # and which there are
    outliers: OutlierPatches | None = None  # of a model whose outlier tokens are known
    prompted: bool = False  # whether the classes are prompts
    prompts: dict[str, TextInput] = field(default_factory=dict)  # where their words were explained in place of the image: what was read
    windows: tuple[WindowInfo, ...] = ()
    spellings: dict[str, str] = field(default_factory=dict, repr=False)
    tensors: dict[str, Tensor] = field(default_factory=dict, repr=False)  # what the model was given, a batch of one
    completeness_of: Callable[[str, int], float] | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and saved: all but the model, which :meth:`completeness` asks again."""
        return {**self.__dict__, "completeness_of": None}

    def __repr__(self) -> str:
        targets = ", ".join(repr(info.label) for info in self.targets)
        return f"<Explanation of {targets} by {self.model}: {len(self.maps)} map{'' if len(self.maps) == 1 else 's'}>"

    @property
    def target(self) -> TargetInfo:
        """The first explained target."""
        return self.targets[0]

    def spec_of(self, spelling: str) -> str:
        """The spec of the map that was asked for by this spelling."""
        return self.spellings.get(spelling, spelling)

    def __getitem__(self, key: str | tuple[str, str | int]) -> Attribution:
        spec, wanted = key if isinstance(key, tuple) else (key, 0)
        spec = self.spec_of(spec)
        label = self.targets[wanted].label if isinstance(wanted, int) else wanted
        for attribution in self.maps:
            if attribution.method == spec and attribution.target == label:
                return attribution
        have = ", ".join(dict.fromkeys(m.method for m in self.maps)) or "none yet"
        raise KeyError(f"no map of {spec!r} for {label!r}; methods: {have}; targets: {', '.join(t.label for t in self.targets)}")

    def top(self, count: int = 5) -> list[TargetInfo]:
        """The classes (or prompts) that the model finds likeliest, best first."""
        order = self.logits.argsort(descending=True)[:count]
        return [self.class_info(int(i)) for i in order]

    def class_info(self, index: int) -> TargetInfo:
        """Label, logit and probability of a class."""
        label = self.labels[index] if index < len(self.labels) else f"class {index}"
        probability = None if self.output == "regression" else float(self.probabilities[index])
        return TargetInfo(label, index, label if self.prompted else None, float(self.logits[index]), probability)

    def target_info(self, target: ResolvedTarget, sample: int = 0) -> TargetInfo:
        """What the model says of a resolved target; ``sample`` is this input's place in the batch that it was resolved for."""
        facts = target.only(sample).describe(self.logits[None], self.probabilities[None])
        index = facts["index"]
        prompt = self.labels[index] if self.prompted and index is not None else None
        return TargetInfo(prompt=prompt, explains=facts.pop("read"), **facts)

    def _repr_html_(self) -> str:
        """What the model says, and all maps side by side: what a notebook shows."""
        from explainers.rendering.notebook import map_html, panel_html

        answers = [info.label if info.probability is None else f"{info.label} {info.probability:.1%}" for info in self.top(3)]
        doubt = [] if self.abstention is None else [f"{self.abstention.beside(answers[0])}. {self.abstention.detail}"]
        maps = (map_html(attribution, attribution.image) for attribution in self.maps)
        return panel_html(f"{self.model}: {', '.join(answers)}", [*doubt, *self.notes], maps)

    def figure(self, methods: Sequence[str] | None = None, target: str | None = None, columns: int = 4, sink: bool = True) -> Figure:
        """The maps side by side as a figure of matplotlib, which can be saved or changed further.

        methods  the specs of the maps to draw, in this order; None: all
        target   the label of the explained target; None: all targets
        sink     of a text, whether a first word that dwarfs all others has a say in the colour scale

        Raises ExplainerError for a method or a target without a map, and where no picture was given to draw on.
        """
        from explainers.rendering.figures import panel

        known = list(dict.fromkeys(attribution.method for attribution in self.maps))
        wanted = [self.spec_of(spec) for spec in methods or ()]
        if missing := [spec for spec in wanted if spec not in known]:
            raise ExplainerError(f"There is no map of {', '.join(missing)}: there are {', '.join(known) or 'none yet'}.")
        maps = [
            attribution
            for spec in wanted or known
            for attribution in self.maps
            if attribution.method == spec and target in (None, attribution.target)
        ]
        if not maps and target is not None:
            raise ExplainerError(f"{target!r} is none of the explained targets: {', '.join(info.label for info in self.targets)}.")
        return panel(self, maps, columns, sink)

    def completeness(self, rule: str, target: int | str = 0) -> float:
        """|f(x) - sum of all FullGrad terms| under ``rule``: 0 is a full account. ``target`` is the place or the label of one of the
        explained targets. Raises ExplainerError for a relevance rule and for a target that was not explained.
        """
        if self.completeness_of is None:
            raise ExplainerError(
                "Completeness asks the model again, and an explanation that was stored holds none: explain the input anew."
            )
        labels = [info.label for info in self.targets]
        if target not in (range(len(labels)) if isinstance(target, int) else labels):
            raise ExplainerError(f"{target!r} is none of the explained targets: {', '.join(labels)} (0 to {len(labels) - 1}).")
        return self.completeness_of(rule, target if isinstance(target, int) else labels.index(target))

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain data, as documented for the HTTP interface (the server adds id, state and date)."""
        return {
            "model": self.model,
            "output": self.output,
            "weights_digest": self.weights_digest,
            "versions": self.versions,
            "input": input_json(self.input),
            **({"prompts": [{"prompt": label, **input_json(text)} for label, text in self.prompts.items()]} if self.prompts else {}),
            **({} if self.place is None else {"task": self.task, "at": self.place.at, "place": self.place.to_json()}),
            **({"places": [place.to_json() for place in self.places]} if self.places else {}),
            **({} if self.outliers is None else {"outliers": self.outliers.to_json()}),
            **({"windows": [window.to_json() for window in self.windows]} if self.windows else {}),
            "targets": [t.to_json() for t in self.targets],
            "top": [t.to_json() for t in self.top()],
            **({} if self.abstention is None else {"abstention": self.abstention.to_json()}),
            "methods": self.methods,
            "maps": [m.to_json() for m in self.maps],
            "notes": self.notes,
        }
