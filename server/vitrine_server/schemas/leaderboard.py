"""Runs that measured methods on a data set: what they found."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vitrine_server.schemas.base import Schema, absent

Side = Literal["above", "below", "alike"]


class Source(Schema):
    """The publication of a data set or a metric."""

    authors: str
    year: int | None
    title: str
    link: str


class RunPlan(Schema):
    """The plan of a run: model, data set, methods, metrics and options."""

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
    """The temperature and lapse rate with which the model's probabilities were computed."""

    temperature: float
    lapse: float


class RunMethod(Schema):
    """A method that a run measured."""

    spec: str
    readout: str = Field(description="The part of the spec that names the method.")
    title: str
    by: str
    year: int | None
    signed: bool
    control: bool


class TruthAgreement(Schema):
    """Kendall's tau between the order of methods by a metric and their true order, with its confidence interval."""

    tau: float
    low: float
    high: float
    methods: int = Field(description="How many methods have a value.")
    of: int = Field(description="How many were measured.")


class TruthOfKind(TruthAgreement):
    """The mean of tau over the worlds of known truth of one kind of input; ``methods`` and ``of`` are those of the world in which the
    smallest share of methods has a value.
    """

    worlds: int


class TruthInWorld(TruthAgreement):
    """The agreement of a metric with the truth in one world, and the method that it ranks first."""

    first: str = Field(description="The method that the metric puts first.")
    first_place: int = Field(description="Its place by truth.")


class RunMetric(Schema):
    """A metric of a run, and how far it can be trusted."""

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
    """The confidence level of all intervals, and the number of bootstrap draws."""

    level: float
    draws: int


class RunFigure(Schema):
    """The mean value of a metric for a method, with its standard error and confidence interval."""

    value: float | None
    error: float | None
    low: float | None
    high: float | None
    inputs: int = absent()
    tied: bool


class RunCurves(Schema):
    """The mean probability of the explained class while tokens are removed, by method."""

    fractions: list[float]
    methods: dict[str, list[float]]


class BrokenInput(Schema):
    """An input that could not be read, and the reason."""

    index: int
    input: str | None
    broken: str = Field(description="Why.")


class BlockFigure(Schema):
    """The conservation error at the input of one block: by how much the relevance there misses the explained number, with its confidence
    interval.
    """

    value: float | None
    low: float | None
    high: float | None
    without_biases: float | None = Field(description="The same, bias terms left out.")


class CostFigure(Schema):
    """The median cost of a map over inputs, with its quartiles."""

    value: float | None
    low: float | None
    high: float | None
    inputs: int


class RunCosts(Schema):
    """The time and memory that a map takes, by method."""

    devices: list[str]
    seconds: dict[str, CostFigure]
    memory: dict[str, int | None] = Field(description="Bytes, the most of a map made alone; null where the device does not count them.")


class RunReport(Schema):
    """The plan of a run, how it was measured, and its results."""

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


class WorldTruth(Schema):
    """The metric that is taken as the truth in a world."""

    name: str
    title: str
    unit: str


class WorldMethod(Schema):
    """A method in a world, and how well its maps find the tokens that determine the answers."""

    spec: str
    title: str
    value: float
    low: float
    high: float
    further: dict[str, float | None] = Field(description="By other metrics that are told the truth.")


class WorldControl(Schema):
    """A control map in a world: not a method, but a map of known quality."""

    name: str
    title: str
    value: float = Field(description="How well it names the tokens that answers come from.")
    low: float
    high: float
    place: int = Field(description="Among the methods of the world, by truth.")


class TruthWorld(Schema):
    """A world of known truth: a run in which it is known which tokens determine the answers."""

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
    """The number of comparisons of a control with truer and less true methods that a metric gets right."""

    right: int
    of: int


class ControlPlace(ControlFigure):
    """The rank that a metric gives to a control in one world."""

    place: int = Field(description="Among those methods and the control.")


class ControlsInWorld(Schema):
    """The ranks that a metric gives to the controls of one world."""

    places: dict[str, ControlPlace] = Field(description="By control.")
    random: Side | None = Field(description="On which side of random numbers it puts the truth itself.")
    inverted: Side | None = Field(description="On which side of its inverse it puts the truth itself.")
    pairs: int = Field(description="How many pairs of controls have a known order.")
    pairs_right: int


class ControlsOfKind(Schema):
    """The ranks that a metric gives to the controls, over the worlds of one kind of input."""

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
    """The ranks that a metric gives to controls, by kind of input and by world; null if it has no value for the truth itself."""

    kinds: dict[str, ControlsOfKind | None]
    worlds: dict[str, ControlsInWorld | None]


class MetricOnTruth(Schema):
    """A metric, and how well it agrees with the truth, by kind of input and by world."""

    name: str
    title: str
    family: str
    reads_marks: bool = Field(description="Whether it is told the truth itself, as an outline or as marked words.")
    kinds: dict[str, TruthOfKind | None] = Field(description="By the kind of input.")
    worlds: dict[str, TruthInWorld | None]
    controls: MetricControls
    doubts: dict[str, list[str]] = Field(description="By the kind of input, why it is not to be believed there, each a predicate.")


class MetricTruth(Schema):
    """The agreement of every metric with the truth, and the worlds in which it was measured."""

    interval: Interval
    worlds: list[TruthWorld]
    metrics: list[MetricOnTruth]
    advice: list[str] = Field(description="Which metric to use.")
    sentences: list[str] = Field(description="What the figures say.")


class ExampleWord(Schema):
    """A word and its score from -1 to 1."""

    text: str
    score: float


class Example(Schema):
    """One input of a run, its value of a metric, and its map."""

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
