"""The result types: one explanation of one input, and the attributions in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from torch import Tensor

from explainers.citation import Citation
from explainers.errors import ExplainerError
from explainers.json_records import HIDDEN, INLINE, Record, describe, finite_or_none, optional
from explainers.models.abstention import Abstention
from explainers.models.inputs.types import ImageInput, PromptInput, TextInput, Token
from explainers.models.outputs import Output
from explainers.models.tasks import Place
from explainers.records.notes import kind_of
from explainers.records.outliers import OutlierPatches
from explainers.records.targets import ResolvedTarget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OptionValue = bool | int | float | str  # of an option of a method


@dataclass(frozen=True)
class TargetInfo(Record, name="Target"):
    """An explained class or prompt, or one of those that the model finds likeliest: its label and index, its logit and probability, and
    which of these numbers is explained.
    """

    label: str
    index: Annotated[int | None, optional("The index of the class; a group and a contrast have none.")]
    prompt: Annotated[str | None, optional("The prompt, for a CLIP model.")]
    logit: Annotated[
        float, describe("The logit of the class or prompt; for a contrast the difference of two, for a group their log-sum-exp.")
    ]
    probability: Annotated[float | None, optional("The probability, for a group the sum; a regression and a contrast have none.")]
    explains: Annotated[Literal["logit", "probability"] | None, optional("Which of its numbers is explained.", key="read")] = None
    of: Annotated[str | None, optional("The class or prompt itself, where the label says more; of an added kind what to send.")] = None
    against: Annotated[str | None, optional("The class, prompt or group that it is compared with.")] = None
    group: Annotated[str | None, optional("The group, where it is one.")] = None
    abstention: Annotated[
        Abstention | None,
        optional("Why a prompt cannot be read, or is not in the picture; the numbers then say nothing."),
    ] = None
    kind: Annotated[str | None, optional("The kind of a target that a package adds.")] = None


@dataclass(frozen=True)
class WordScore:
    """A word of the text, its characters from ``start`` to before ``end``, the indices of its tokens, and its score; ``part`` is 1 for a
    word of the second text of a pair.
    """

    text: str
    start: int
    end: int
    tokens: tuple[int, ...]
    score: float
    part: int = 0


def word_scores(text: TextInput, scores: Tensor, signed: bool) -> list[WordScore]:
    """Return the words of a text with their scores: the sum over a word's pieces where scores are signed, else the largest."""
    merge = torch.sum if signed else torch.amax
    scored = [(w, float(merge(scores[list(w.tokens)]))) for w in text.words if w.tokens]
    return [WordScore(w.text, w.start, w.end, w.tokens, score, w.part) for w, score in scored]


@dataclass(frozen=True)
class MapPrecision(Record):
    """The precision in which a map was computed, why, and how far rounding may change it."""

    dtype: Annotated[
        str,
        describe("`float32` (without TF32), `float32 with TF32`, `float64`, `bfloat16`, `float16`, or two for a text in windows."),
    ]
    why: Annotated[str, describe("In one sentence.")]
    rounding: Annotated[
        float | None,
        describe(
            "By how much of the largest score rounding may change the map in the model's own precision: an estimate that is rather too "
            "large than too small; null where it was not asked for or has no bound.",
            write=finite_or_none,
        ),
    ] = None


@dataclass(frozen=True, eq=False)
class Numerics:
    """Facts about the numbers of a map, score by score, from which its notes on rounding are made. Tensors are (S,), on the CPU; None if
    not computed.

    sizes   the sum of the absolute values of a score's terms, in the dtype of the sum
    errors  the estimated rounding error of a score in the model's own precision
    change  for a map in float64: the difference of the same score in the model's own precision
    dtype   the model's own precision, if ``errors`` are known
    notes   the notes of the map that are about rounding
    """

    sizes: Tensor | None = None
    errors: Tensor | None = None
    change: Tensor | None = None
    dtype: str = ""
    notes: tuple[str, ...] = ()


def _shape(values: Tensor) -> list[int]:
    return list(values.shape)


@dataclass(frozen=True, eq=False)
class Attribution(Record, name="Map"):
    """The map of one method for one target.

    title     the method's title; ``source`` is its publication
    scores    float32 (S,), on the CPU: one for every token, prefix and special tokens included; signed if the method is
    content   bool (S,): which of them stand for patches or for words of the text
    patches   (rows, columns) for images: ``scores[content]`` is in raster order
    text      the text that was read, with its tokens; None for an image
    pixels    float32 (height, width): the map of the pixels that the model saw, for methods that go back to them
    image     the picture that the map lies on; None for a text
    seconds   how long it took
    numerics  the numbers from which its notes on rounding are made
    """

    method: Annotated[str, describe("The spec, as it was asked for: the name of the method with its rule and options.")]
    method_name: Annotated[str, describe("The part of the spec that names the method.", key="readout")]
    rule: Annotated[str | None, describe("The backward rule; null for a method that reads no signal.")]
    title: str
    source: Annotated[Citation, INLINE]
    target: Annotated[str, describe("The label of what is explained.")]
    scores: Annotated[Tensor, HIDDEN]
    content: Annotated[Tensor, HIDDEN]
    patches: Annotated[tuple[int, int] | None, optional("Rows and columns of the patches; a text has none.", key="grid")]
    text: Annotated[TextInput | None, HIDDEN]
    signed: Annotated[bool, describe("Whether scores tell evidence for the target from evidence against it, or only strength.")]
    class_specific: Annotated[bool, describe("Whether another target can have another map.")]
    seconds: float
    adds_up_to: Annotated[
        str | None, describe("The number that the scores promise to add up to; null where they promise nothing.", is_required=False)
    ] = None
    completeness_error: Annotated[float | None, optional("By how much the scores miss that number.")] = None
    notes: Annotated[tuple[str, ...], describe("What a person should know.")] = ()
    pixels: Annotated[
        Tensor | None,
        optional(
            "Rows and columns of its map of the pixels, where there is one: /maps/{method}.npy?at=pixels has it.",
            kind=tuple[int, int],
            write=_shape,
        ),
    ] = None
    image: Annotated[ImageInput | None, HIDDEN] = field(default=None, repr=False)
    precision: Annotated[
        MapPrecision | None, optional("The precision in which it was computed; an earlier version stored it for maps of relevance alone.")
    ] = None
    seed_correlation: Annotated[
        float | None, optional("The estimated correlation with the map of another seed, for a method that draws at random.")
    ] = None
    numerics: Annotated[Numerics, HIDDEN] = field(default=Numerics(), repr=False)
    options: Annotated[Mapping[str, Any], optional("The options that the spec names, with their values.", kind=dict[str, OptionValue])] = (
        field(default_factory=dict)
    )
    names_rule: Annotated[
        bool, describe("Whether the title says the rule; left out where an earlier version made the map.", is_required=False)
    ] = False

    @property
    def is_doubtful(self) -> bool:
        """Return whether a note says that the order of this map cannot be trusted for this input: it is noise, or all zero, or rounding may
        change it.
        """
        return any(kind_of(note) for note in self.notes)

    @property
    def _doubtful(self) -> Annotated[bool | None, optional("true where a note says that its order cannot be trusted.", key="doubtful")]:
        return self.is_doubtful or None

    def __repr__(self) -> str:
        over = f"{len(self.scores)} tokens" if self.patches is None else f"{self.patches[0]} x {self.patches[1]} patches"
        return f"<Attribution {self.method} of {self.target!r} over {over}>"

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The word pieces, in the order of ``scores``. Raises ExplainerError for an image."""
        if self.text is None:
            raise ExplainerError("An image has patches, not word pieces: see .patches.")
        return self.text.tokens

    @property
    def range(self) -> Annotated[tuple[float, float], describe("The smallest and the largest score.")]:
        """The smallest and the largest score among patches or words; zeros if there are none."""
        content = self.scores.masked_select(self.content)
        if not len(content):
            return 0.0, 0.0
        low, high = content.aminmax()
        return float(low), float(high)

    def words(self) -> list[WordScore]:
        """Return the words of the text, each with its characters (``start``, ``end``), ``tokens`` and ``score``: the sum over a word's
        pieces where scores are signed, else the largest. Raises ExplainerError for an image.
        """
        if self.text is None:
            raise ExplainerError("An image has patches, not words: see .patches.")
        return word_scores(self.text, self.scores, self.signed)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: the map over its picture, or the words in their colours."""
        from explainers.rendering.notebook import map_html

        return map_html(self, self.image)

    @property
    def shown_scores(
        self,
    ) -> Annotated[
        Tensor,
        describe("For an image one for each patch in raster order, for a text one for each token.", key="scores", kind=list[float]),
    ]:
        """The scores that are drawn: for an image those of the patches in raster order, for a text one for each token."""
        return self.scores if self.patches is None else self.scores.masked_select(self.content)


@dataclass(frozen=True)
class WindowInfo(Record, name="TextWindow"):
    """A part of a text that is longer than the model takes (its first and last characters and tokens), and the model's answer for this part
    alone (top class, its probability, and the logits of the targets).
    """

    start: Annotated[int, describe("The first of its characters in the text.")]
    end: Annotated[int, describe("The character after its last one.")]
    tokens: Annotated[tuple[int, int], describe("Its first and its last word piece among the tokens of the text.")]
    label: Annotated[str, describe("The top class.")]
    probability: Annotated[float | None, describe("The probability of that class; null for a regression.")]
    logits: Annotated[
        tuple[float, ...], describe("The logit of each explained target, in order: the mean over the windows is the target's own logit.")
    ]


@dataclass(eq=False)
class Explanation(Record):
    """One explained input: the model's answer, and the maps of each method for it.

    ``result[spec]`` is the map of a method for the first target; ``result[spec, label]`` that for another one.

    model          the model's name
    labels         the names of the logits: the classes, or the prompts of a CLIP model (``prompted``)
    logits         float32 (C,), on the CPU
    probabilities  (C,), calibrated (`explainers.models.companion_files.calibration`): softmax(logits) if the model has no calibration
    maps           one for each target and method
    abstention     why the model cannot know the answer; None if it can
    task           name of the kind of output of a model that gives more than one row of logits; else None
    prompts        prompt -> the text that was read, where the words of prompts were explained
    windows        windows of a text that was too long for the model: the logits are the means over them, and ``tensors`` has a row for
                   each. Empty for an input that was read whole
    spellings      each requested spec -> the spec of its map, which differs if one method was spelt in two ways
    tensors        what the model was given, by name, a batch of one
    completeness_of  function behind :meth:`completeness`; None for an explanation that was stored and read again
    """

    model: str
    weights_digest: Annotated[str, describe("SHA-256 of the model's weights.")]
    input: Annotated[ImageInput | TextInput, describe(tag="kind")]
    labels: Annotated[Sequence[str], HIDDEN]
    logits: Annotated[Tensor, HIDDEN]  # (C,), float32, CPU
    probabilities: Annotated[Tensor, HIDDEN]  # (C,)
    targets: Annotated[list[TargetInfo], describe("The explained targets, in the order in which they were asked for.")]
    methods: Annotated[list[str], describe("The specs of the maps that were asked for.")]
    versions: Annotated[dict[str, str], describe("The versions of the libraries, by name.")]
    maps: list[Attribution] = field(default_factory=list)
    notes: Annotated[list[str], describe("What a person should know.")] = field(default_factory=list)
    output: Annotated[Output, describe("What the logits mean; a regression has no probabilities.")] = "softmax"
    abstention: Annotated[Abstention | None, optional()] = None
    task: Annotated[str | None, HIDDEN] = None  # of a model that gives more than one row of logits: which
    place: Annotated[
        Place | None, optional("The place of the output that is explained, for a model that gives more than one answer to an input.")
    ] = None
    places: Annotated[Sequence[Place], optional("All places of the output of such a model.")] = ()
    outliers: Annotated[
        OutlierPatches | None, optional("The patches that are outlier tokens, for a model whose outlier tokens are known.")
    ] = None
    prompted: Annotated[bool, HIDDEN] = False  # whether the classes are prompts
    prompts: Annotated[dict[str, TextInput], HIDDEN] = field(default_factory=dict)  # where their words were explained: what was read
    windows: Annotated[tuple[WindowInfo, ...], optional("The windows of a text that is longer than the model takes.")] = ()
    spellings: Annotated[dict[str, str], HIDDEN] = field(default_factory=dict, repr=False)
    tensors: Annotated[dict[str, Tensor], HIDDEN] = field(default_factory=dict, repr=False)  # what the model was given, a batch of one
    completeness_of: Annotated[Callable[[str, int], float] | None, HIDDEN] = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that is pickled and saved: everything except the link to the model, which :meth:`completeness` uses."""
        return {**self.__dict__, "completeness_of": None}

    def __repr__(self) -> str:
        targets = ", ".join(repr(info.label) for info in self.targets)
        return f"<Explanation of {targets} by {self.model}: {len(self.maps)} map{'' if len(self.maps) == 1 else 's'}>"

    @property
    def target(self) -> TargetInfo:
        """The first of the explained targets."""
        return self.targets[0]

    def spec_of(self, spelling: str) -> str:
        """Return the spec of the map that was asked for by this ``spelling``."""
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
        """Return the ``count`` classes (or prompts) that the model finds most probable, best first."""
        order = self.logits.argsort(descending=True)[:count]
        return [self.class_info(int(i)) for i in order]

    def class_info(self, index: int) -> TargetInfo:
        """Return label, logit and probability of the class number ``index``."""
        label = self.labels[index] if index < len(self.labels) else f"class {index}"
        probability = None if self.output == "regression" else float(self.probabilities[index])
        return TargetInfo(label, index, label if self.prompted else None, float(self.logits[index]), probability)

    def target_info(self, target: ResolvedTarget, sample: int = 0) -> TargetInfo:
        """Return the model's answer for a resolved target; ``sample`` is the index of this input in the batch for which the target was
        resolved.
        """
        facts = target.only(sample).describe(self.logits[None], self.probabilities[None])
        index = facts["index"]
        prompt = self.labels[index] if self.prompted and index is not None else None
        return TargetInfo(prompt=prompt, explains=facts.pop("read"), **facts)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: the model's answer, and all maps side by side."""
        from explainers.rendering.notebook import map_html, panel_html

        answers = [info.label if info.probability is None else f"{info.label} {info.probability:.1%}" for info in self.top(3)]
        doubt = [] if self.abstention is None else [f"{self.abstention.qualify(answers[0])}. {self.abstention.detail}"]
        maps = (map_html(attribution, attribution.image) for attribution in self.maps)
        return panel_html(f"{self.model}: {', '.join(answers)}", [*doubt, *self.notes], maps)

    def figure(self, methods: Sequence[str] | None = None, target: str | None = None, columns: int = 4, sink: bool = True) -> Figure:
        """Draw the maps side by side and return the matplotlib Figure, which can be saved or changed further.

        methods  the specs of the maps to draw, in this order; None: all
        target   the label of the explained target; None: all targets
        sink     texts only: whether a first word with a far larger score than all others is included in the colour scale

        Raises ExplainerError for a method or a target without a map, and if there is no picture to draw on.

        The figure has ``columns`` maps in a row.
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
        """Return |f(x) - sum of all FullGrad terms| under ``rule``: 0 is a full account. ``target`` is the index or the label of one of the
        explained targets. Raises ExplainerError for a relevance rule and for a target that was not explained.
        """
        if self.completeness_of is None:
            raise ExplainerError(
                "Completeness asks the model again, and an explanation that was stored holds none: explain the input again."
            )
        labels = [info.label for info in self.targets]
        if target not in (range(len(labels)) if isinstance(target, int) else labels):
            raise ExplainerError(f"{target!r} is none of the explained targets: {', '.join(labels)} (0 to {len(labels) - 1}).")
        return self.completeness_of(rule, target if isinstance(target, int) else labels.index(target))

    @property
    def _top(self) -> Annotated[list[TargetInfo], describe("What the model finds likeliest, best first.", key="top")]:
        return self.top()

    @property
    def _task(
        self,
    ) -> Annotated[
        str | None, optional("The kind of output of a model that gives more than one answer, such as token-classification.", key="task")
    ]:
        return None if self.place is None else self.task

    @property
    def _at(self) -> Annotated[str | None, optional("The place that is explained, as it is sent.", key="at")]:
        return None if self.place is None else self.place.at

    @property
    def _prompts(self) -> Annotated[list[PromptInput], optional("Where the words of prompts are explained.", key="prompts")]:
        return [PromptInput(label, text) for label, text in self.prompts.items()]
