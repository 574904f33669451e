"""Runs that measured methods on a data set: what they found."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from server.schemas.base import Schema, absent
from server.schemas.methods import Place, RankingMetric

Side = Literal["above", "below", "alike"]


class Source(Schema):
    """Where a data set or a metric was published."""

    authors: str
    year: int | None
    title: str
    link: str


class RunPlan(Schema):
    """What a run measured."""

    model: str
    dataset: str
    methods: list[str] = absent()
    metrics: list[str] = absent()
    limit: int | None = absent()
    target: str
    how: str | None
    seed: int
    explains: str = absent()
    resize: str | None = absent()
    right: str = absent()
    steps: int = absent()
    long_texts: str = absent()
    controls: list[str] = absent("Maps whose place is known, which were measured beside the methods.")


class RunDataset(Schema):
    """The data set of a run."""

    name: str
    title: str
    description: str = absent()
    source: Source | None = absent()
    split: str | None = absent()
    unread: int = absent("Files in its folder that were not read.")


class ProbabilitySettings(Schema):
    """What the model's probabilities depended on."""

    temperature: float
    lapse: float


class RunMethod(Schema):
    """A method of a run."""

    spec: str
    readout: str = Field(description="The part of the spec that names the method.")
    title: str
    by: str
    year: int | None
    signed: bool
    control: bool


class TruthAgreement(Schema):
    """Kendall's tau between the order in which a metric puts methods and their order by truth, and its interval."""

    tau: float
    low: float
    high: float
    methods: int = Field(description="How many methods have a value.")
    of: int = Field(description="How many were measured.")


class TruthOfKind(TruthAgreement):
    """The mean over worlds of known truth; methods are those of the world in which the smallest share of them has a value."""

    worlds: int


class TruthInWorld(TruthAgreement):
    """The agreement in one world."""

    first: str = Field(description="The method that the metric puts first.")
    first_place: int = Field(description="Its place by truth.")


class RunMetric(Schema):
    """A metric of a run."""

    name: str
    title: str
    family: str = absent()
    description: str
    direction: Literal["lower", "higher"] | None
    lowest: float | None = absent()
    highest: float | None = absent()
    unit: str
    source: Source | None
    takes: dict[str, str] = absent()
    kinds: list[str] = absent()
    cannot_tell: str | None = Field(description="Why it cannot tell methods apart, where it cannot.")
    truth: TruthOfKind | None = Field(description="Its agreement with the truth on this kind of input; null where they were not compared.")
    doubts: list[str] = Field(description="Why it is not to be believed on this kind of input, each a predicate.")


class Interval(Schema):
    """How the ends of intervals were found."""

    level: float
    draws: int


class RunFigure(Schema):
    """What a run found of a method by a metric."""

    value: float | None
    error: float | None
    low: float | None
    high: float | None
    inputs: int = absent()
    tied: bool


class RunCurves(Schema):
    """The mean probability of the explained class while tokens are taken away."""

    fractions: list[float]
    methods: dict[str, list[float]]


class BrokenInput(Schema):
    """An input that could not be read."""

    index: int
    input: str | None
    broken: str = Field(description="Why.")


class BlockFigure(Schema):
    """By how much what arrives at the input of a block misses the explained number."""

    value: float | None
    low: float | None
    high: float | None
    without_biases: float | None = Field(description="The same, bias terms left out.")


class CostFigure(Schema):
    """The median over inputs, and its quartiles."""

    value: float | None
    low: float | None
    high: float | None
    inputs: int


class RunCosts(Schema):
    """What a map costs."""

    devices: list[str]
    seconds: dict[str, CostFigure]
    memory: dict[str, int | None] = Field(description="Bytes, the most of a map made alone; null where the device does not count them.")


class RunReport(Schema):
    """What a run measured and found."""

    id: str
    shipped: bool
    begun_here: bool = Field(description="Whether it was begun on the page.")
    shows_inputs: bool
    protocol: list[str] = Field(description="How was measured, a sentence each.")
    removal: str = absent("In which way tokens were taken away, where the plan names none.")
    format: int
    plan: RunPlan
    weights_digest: str = absent()
    calibration: ProbabilitySettings = absent()
    versions: dict[str, str] = absent()
    inputs: int
    data_digest: str = absent()
    tokens_at_once: int = absent()
    left_out: int = absent("Inputs of which the model knows no class.")
    broken: list[BrokenInput] = absent("Inputs that could not be read and were left out.")
    unknown: dict[str, int] = absent("Of how many inputs each class was left out, as the model knows nothing of its name.")
    command: str | None
    seconds: float | None = absent()
    kind: str
    dataset: RunDataset
    methods: list[RunMethod]
    metrics: list[RunMetric]
    interval: Interval
    results: dict[str, dict[str, RunFigure]]
    curves: dict[str, RunCurves]
    blocks: dict[str, list[BlockFigure] | None] = absent("Of each method the conservation error by block, where it was measured.")
    costs: RunCosts | None = absent()


class RankedMethod(Schema):
    """A method and its place."""

    spec: str
    readout: str = Field(description="The part of the spec that names the method.")
    title: str
    rank: int


class TrustedMethod(RankedMethod, Place):
    """A method that a run gives reason to trust, and its figures."""


class Ranking(Schema):
    """What a run found by which methods are ranked on the pages."""

    run: str
    model: str
    measured: str
    metric: RankingMetric
    second: RankingMetric | None
    random: float | None
    of: int
    tied: int = Field(description="How many methods cannot be told from the best.")
    trust: list[TrustedMethod]
    by_chance: list[RankedMethod] = Field(description="What cannot be told from a random map.")
    worse: list[RankedMethod] = Field(description="What is worse than one.")


class WorldTruth(Schema):
    """The metric that is the truth of a world."""

    name: str
    title: str
    unit: str


class WorldMethod(Schema):
    """A method of a world, and how well its maps name the tokens that answers come from."""

    spec: str
    title: str
    value: float
    low: float
    high: float
    further: dict[str, float | None] = Field(description="By other metrics that are told the truth.")


class WorldControl(Schema):
    """A map whose place is known, which is no method."""

    name: str
    title: str
    value: float = Field(description="How well it names the tokens that answers come from.")
    low: float
    high: float
    place: int = Field(description="Among the methods of the world, by truth.")


class TruthWorld(Schema):
    """A run in which it is known what answers come from."""

    name: str
    kind: str
    model: str
    dataset: str
    marks_alone: bool = Field(description="Whether it is known that answers come from what is marked and from nothing else.")
    inputs: int
    truth: WorldTruth
    methods: list[WorldMethod] = Field(description="In the order of the truth, the best first.")
    controls: list[WorldControl]


class ControlFigure(Schema):
    """How many comparisons of a control with methods that are measurably truer or less true a metric puts right."""

    right: int
    of: int


class ControlPlace(ControlFigure):
    """Where a metric puts a control in one world."""

    place: int = Field(description="Among those methods and the control.")


class ControlsInWorld(Schema):
    """Where a metric puts the controls of a world."""

    places: dict[str, ControlPlace] = Field(description="By control.")
    random: Side | None = Field(description="On which side of random numbers it puts the truth itself.")
    inverted: Side | None = Field(description="On which side of its inverse it puts the truth itself.")
    pairs: int = Field(description="How many pairs of controls have a known order.")
    pairs_right: int


class ControlsOfKind(Schema):
    """Where a metric puts the controls of the worlds of a kind of input."""

    controls: dict[str, ControlFigure] = Field(description="By control, over the worlds whose marks are all that answers come from.")
    first: bool | None = Field(
        description="Whether it puts the truth first and its inverse last in each of these; null where there is none."
    )
    below_random: list[str] = Field(description="The worlds in which it puts the truth measurably below random numbers.")
    like_random: list[str] = Field(description="Those in which it cannot tell the truth from random numbers.")
    below_inverted: list[str] = Field(description="Those in which it puts the truth measurably below its inverse.")
    like_inverted: list[str] = Field(description="Those in which it cannot tell the truth from its inverse.")
    pairs: int
    pairs_right: int
    worlds: int


class MetricControls(Schema):
    """Where a metric puts the controls; null where it has no value for the truth itself."""

    kinds: dict[str, ControlsOfKind | None]
    worlds: dict[str, ControlsInWorld | None]


class MetricOnTruth(Schema):
    """A metric against the truth."""

    name: str
    title: str
    family: str
    reads_marks: bool = Field(description="Whether it is told the truth itself, as an outline or as marked words.")
    kinds: dict[str, TruthOfKind | None] = Field(description="By the kind of input.")
    worlds: dict[str, TruthInWorld | None]
    controls: MetricControls
    doubts: dict[str, list[str]] = Field(description="By the kind of input, why it is not to be believed there, each a predicate.")


class MetricTruth(Schema):
    """Which metrics put methods in the order of the truth."""

    interval: Interval
    worlds: list[TruthWorld]
    metrics: list[MetricOnTruth]
    advice: list[str] = Field(description="Which metric to use.")
    sentences: list[str] = Field(description="What the figures say.")


class Leaderboard(Schema):
    """Every run."""

    runs: list[RunReport]
    truth: MetricTruth | None = Field(description="Null where no comparison ships.")
    rankings: dict[str, Ranking] = Field(description="By the kind of input.")
    problems: list[str] = Field(description="Which of the folders cannot be read.")


class ExampleWord(Schema):
    """A word and its score from -1 to 1."""

    text: str
    score: float


class Example(Schema):
    """An input of a run."""

    place: int
    name: str
    target: str
    value: float
    image: str = absent("The address of a picture of its map.")
    words: list[ExampleWord] = absent("Of a text.")


class Examples(Schema):
    """The inputs on which a method did best and worst by a metric."""

    metric: str
    method: str
    best: list[Example]
    worst: list[Example]
