"""Runs that are begun on the page: what one is asked."""

from __future__ import annotations

from pydantic import Field

from explainers.evaluation.plan import MAX_STEPS, ExplainedTarget, RightLabels
from explainers.metrics.registry import TENTHS_OF_ALL
from explainers.models.resizing import Resize
from explainers.pipeline.long_texts import LongTexts
from explainers.records.targets.target import ExplainedNumber
from vitrine_server.schemas.base import Schema


class RunOptions(Schema):
    """The options of a run, as of ``vitrine evaluate``: which class and number are explained, how pictures are resized and long texts read,
    and how tokens are removed. Null: the choice that suits the model.
    """

    target: ExplainedTarget = Field("predicted", description="Which class is explained.")
    explains: ExplainedNumber = Field("logit", description="Which number of it.")
    resize: Resize | None = Field(None, description="How pictures are brought to the model's size; null: as it was trained.")
    how: str | None = Field(None, max_length=40, description="In which way tokens are taken away.")
    right: RightLabels = Field("any", description="Which labels of an input count as right.")
    steps: int = Field(TENTHS_OF_ALL, ge=2, le=MAX_STEPS, description="In how many equal steps tokens are taken away.")
    long_texts: LongTexts | None = Field(None, description="How texts are read that are longer than the model takes.")


class RunRequest(RunOptions):
    """A request to measure methods by metrics on a data set, with a model, on at most ``limit`` inputs drawn with a seed."""

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
