"""Runs that are begun on the page: what can be measured, what one is asked, and how far it is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Json

from explainers.evaluation.plan import MAX_STEPS, ExplainedTarget, RightLabels
from explainers.methods.presets import PresetOfVariants
from explainers.metrics.registry import TENTHS_OF_ALL
from explainers.models.resizing import Resize
from explainers.pipeline.long_texts import LongTexts
from explainers.records.targets.target import ExplainedNumber
from vitrine_server.schemas.base import Message, ProblemDocument, Schema, absent


class RunOptions(Schema):
    """The options of a run, as of ``vitrine evaluate``. Null: the choice that suits the model."""

    target: ExplainedTarget = Field("predicted", description="Which class is explained.")
    explains: ExplainedNumber = Field("logit", description="Which number of it.")
    resize: Resize | None = Field(None, description="How pictures are brought to the model's size; null: as it was trained.")
    how: str | None = Field(None, max_length=40, description="In which way tokens are taken away.")
    right: RightLabels = Field("any", description="Which labels of an input count as right.")
    steps: int = Field(TENTHS_OF_ALL, ge=2, le=MAX_STEPS, description="In how many equal steps tokens are taken away.")
    long_texts: LongTexts | None = Field(None, description="How texts are read that are longer than the model takes.")


class RunRequest(RunOptions):
    """A request to measure methods by metrics on a data set."""

    model: str = Field(max_length=1000, description="A model that is loaded.")
    dataset: str = Field(max_length=100, description="A data set of GET /api/runs, or the name that POST /api/runs/data gave.")
    methods: list[str] = Field(["default"], min_length=1, max_length=256, description="Specs, or sets of methods: default, quick, ...")
    metrics: list[str] = Field(["mif", "lif", "srg"], min_length=1, max_length=64, description="Names of metrics.")
    limit: int = Field(20, ge=2, description="How many inputs, drawn with the seed.")
    seed: int = Field(0, ge=0, lt=2**32)
    skip_broken: bool = Field(False, description="Leave out inputs that cannot be read.")
    examples: bool | None = Field(
        None, description="Show the best and worst inputs with the figures; null: those of data sets that ship with Vitrine."
    )


class Run(RunRequest):
    """A run and its progress."""

    id: str
    title: str = Field(description="That of its data set.")
    created: str
    state: Literal["waiting", "running", "done", "stopped", "failed"]
    done: int
    total: int
    seconds_left: float | None
    problem: ProblemDocument = absent("Why it failed.")


class MeasurableDataset(Schema):
    """A data set, and the reason if a model cannot be measured on it."""

    name: str
    title: str
    inputs: int
    gives: list[str] = Field(description="What is known of its inputs, in words.")
    shipped: bool = Field(description="Whether it comes with Vitrine.")
    reason: str | None = Field(description="Why the model cannot be measured on it.")


class MeasurableModel(Schema):
    """A loaded model, and the data sets on which it can be measured."""

    name: str
    title: str
    datasets: list[MeasurableDataset]


class Runs(Schema):
    """The models, data sets and limits for runs, and the visitor's runs, the latest first."""

    models: list[MeasurableModel]
    sets: list[PresetOfVariants]
    most: int = Field(description="Inputs of a run, and of a data set that is sent.")
    most_mb: float = Field(description="Megabytes of a data set that is sent.")
    runs: list[Run]


class MeasurableMetric(Schema):
    """A metric, and the reason if it cannot be measured on a data set."""

    name: str
    title: str
    family: str
    needs: list[str] = Field(description="What a data set has to give, in words.")
    reason: str | None = Field(description="Why it cannot be measured here.")


class RunOptionValue(Schema):
    """A value of an option of a run."""

    value: str | None
    title: str
    reason: str | None = Field(description="Why it cannot be chosen here.")


class ProtocolForm(Schema):
    """The settings of a run that follows the protocol of a paper."""

    name: str
    title: str
    methods: list[str]
    metrics: list[str]
    limit: int
    options: RunOptions
    left_out: list[str] = Field(description="What of it cannot be measured here, and why.")
    notes: list[str] = Field(description="What differs from the paper or its code.")


class RunChoices(Schema):
    """The metrics, options and protocols for a run of a model on a data set, each with the reason if it cannot be chosen."""

    metrics: list[MeasurableMetric]
    options: dict[str, list[RunOptionValue]]
    protocols: list[ProtocolForm]


class RunProgressEvent(Message):
    """An event: the run has measured another input."""

    event: Literal["progress"]
    data: Json[Run]


class RunEndedEvent(Message):
    """The last event of a run: it is done, stopped or failed."""

    event: Literal["ended"]
    data: Json[Run]


RunEvent = Annotated[RunProgressEvent | RunEndedEvent, Field(discriminator="event")]
