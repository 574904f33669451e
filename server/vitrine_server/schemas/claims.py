"""The claims that methods earned in a run, as the API gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from explainers.json_records import Record, describe


@dataclass(frozen=True)
class MethodClaims(Record):
    """The claims of one method in a run: ``count`` of ``inputs`` maps earned one."""

    spec: str
    title: str
    count: Annotated[int, describe("On how many inputs its map earned a claim.")]
    inputs: int
    low: Annotated[float, describe("The lower end of the exact interval (Clopper and Pearson) of the share that earns one.")]
    high: Annotated[float, describe("The upper end.")]
    size: Annotated[float | None, describe("The mean share of an input's parts that a claim is about; null without a claim.")]
    size_low: Annotated[float | None, describe("The lower end of its interval; null where one claim or none was earned.")]
    size_high: Annotated[float | None, describe("The upper end.")]


@dataclass(frozen=True)
class RunClaims(Record):
    """The claims of all methods in one run."""

    run: Annotated[str, describe("The id of the run.")]
    model: str
    dataset: Annotated[str, describe("The title of the data set.")]
    inputs: int
    level: Annotated[float, describe("The level of the intervals.")]
    methods: Annotated[list[MethodClaims], describe("Those that earned most claims first, and of these the ones with the smaller sets.")]
