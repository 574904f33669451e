"""Runs that measured methods on a data set: what they found."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from explainers.evaluation import reporting
from explainers.evaluation.reporting import Interval
from explainers.json_records import schema_of
from explainers.metrics import Metric
from vitrine_server.schemas.base import Schema, absent

Side = Literal["above", "below", "alike"]


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


class MethodInRun(Schema):
    """What the server adds to a method that a run measured."""

    readout: str = Field(description="The part of the spec that names the method.")
    control: bool


class MetricInRun(Schema):
    """What the server adds to a metric of a run: how far it can be trusted."""

    cannot_tell: str | None = Field(description="Why it cannot tell methods apart, where it cannot.")
    truth: TruthOfKind | None = Field(description="Its agreement with the truth on this kind of input; null where they were not compared.")
    doubts: list[str] = Field(description="Why it is not to be believed on this kind of input, each a predicate.")


RunMethod = schema_of(reporting.RunMethod, base=MethodInRun)
RunMetric = schema_of(Metric, base=MetricInRun)


class ServedRun(Schema):
    """What the server adds to the report of a run."""

    id: str
    shipped: bool
    begun_here: bool = Field(description="Whether it was begun on the page.")
    shows_inputs: bool
    protocol: list[str] = Field(description="How was measured, a sentence each.")
    methods: list[RunMethod]  # type: ignore[valid-type]  # it is made of a record
    metrics: list[RunMetric]  # type: ignore[valid-type]


RunReport = schema_of(reporting.EvaluationReport, name="RunReport", base=ServedRun, without=("apart",))


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
