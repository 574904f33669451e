"""Runs that measured methods on a data set: what they found."""

from __future__ import annotations

from pydantic import Field

from explainers.evaluation import reporting
from explainers.evaluation.known_truth import metrics_on_truth
from explainers.evaluation.known_truth.metrics_on_truth import TruthOfKind, TruthWorld
from explainers.evaluation.reporting import Interval
from explainers.json_records import schema_of
from explainers.metrics import Metric
from vitrine_server.schemas import claims
from vitrine_server.schemas.base import Schema, absent


class MethodInRun(Schema):
    """The fields that the server adds to a method of a run: its name without rule and options, and whether it is a control."""

    readout: str = Field(description="The part of the spec that names the method.")
    control: bool


class MetricInRun(Schema):
    """The fields that the server adds to a metric of a run: what it measures, in one line; why it cannot tell methods apart (null if it
    can); its mean rank correlation (Kendall's tau) with methods' known true order, null if that was not measured; and the reasons not to
    believe it, a list that is empty if there are none.
    """

    line: str = Field(description="What it measures, in one line.")
    cannot_tell: str | None = Field(description="Why it cannot tell methods apart, where it cannot.")
    truth: TruthOfKind | None = Field(description="Its agreement with the truth on this kind of input; null where they were not compared.")
    doubts: list[str] = Field(description="Why it is not to be believed on this kind of input, each a predicate.")


RunMethod = schema_of(reporting.RunMethod, base=MethodInRun)
RunMetric = schema_of(Metric, base=MetricInRun)


class ServedRun(Schema):
    """The fields that the server adds to the report of a run: its id, whether it ships with Vitrine or was begun here, whether its inputs
    may be shown, how it measured and what it found, in sentences, the metric that ranks its methods, and its methods and metrics with
    fields of their own.
    """

    id: str
    shipped: bool
    begun_here: bool = Field(description="Whether it was begun on the page.")
    shows_inputs: bool
    protocol: list[str] = Field(description="How was measured, a sentence each.")
    sentences: list[str] = Field(description="What to trust, what is no better than chance, how sure that is.")
    ranked_by: str | None = Field(description="The metric that ranks its methods; null where none says which map is better.")
    why: str | None = Field(description="Why this metric decides, and how far it may be believed; null where none does.")
    methods: list[RunMethod]  # type: ignore[valid-type]  # it is made of a record
    metrics: list[RunMetric]  # type: ignore[valid-type]


RunReport = schema_of(reporting.EvaluationReport, name="RunReport", base=ServedRun, without=("apart",))


class Doubted(Schema):
    """The field that the server adds to a metric that was compared with the truth: for each kind of input the reasons to doubt it, an empty
    list if there are none.
    """

    doubts: dict[str, list[str]] = Field(description="By the kind of input, why it is not to be believed there, each a predicate.")


MetricOnTruth = schema_of(metrics_on_truth.MetricOnTruth, base=Doubted)


class MetricTruth(Schema):
    """The agreement of every metric with the truth, the confidence level of its intervals, the worlds in which it was measured, and
    sentences on what the figures say and which metric to use.
    """

    interval: Interval
    worlds: list[TruthWorld]
    metrics: list[MetricOnTruth]  # type: ignore[valid-type]
    advice: list[str] = Field(description="Which metric to use.")
    sentences: list[str] = Field(description="What the figures say.")


RunClaims = schema_of(claims.RunClaims)


class ExampleWord(Schema):
    """A word of an example's text, and its score from -1 to 1."""

    text: str
    score: float


class Example(Schema):
    """One input of a run: its number in the run, name and explained class, its value of a metric, and its map, as a picture or as scored
    words.
    """

    place: int
    name: str
    target: str
    value: float
    image: str = absent("The address of a picture of its map.")
    words: list[ExampleWord] = absent("Of a text.")


class Examples(Schema):
    """The inputs on which a method did best and worst by a metric, with the names of both."""

    metric: str
    method: str
    best: list[Example]
    worst: list[Example]
