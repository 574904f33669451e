"""A model of one's own: what is brought, what is found, and the report of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from explainers.models.outputs import Output
from server.schemas.base import Schema


class OwnModelLimits(Schema):
    """What this server takes of whoever asks. ``why``: where it takes nothing."""

    uploads: bool
    paths: bool
    most_mb: float
    why: str | None = None


class UploadId(Schema):
    """An upload that takes files."""

    id: str


class UploadState(Schema):
    """How much of an upload has arrived; ``left_out``: names of files that are never read."""

    files: int
    bytes: int
    left_out: list[str]


class ModelPlace(Schema):
    """What is looked at: an upload, or a path of the server's machine."""

    upload: str | None = Field(default=None, max_length=40)
    path: str | None = Field(default=None, max_length=2000)


class ModelLook(Schema):
    """What was found, before anything is opened.

    what           in words: a folder of transformers, a file of weights, ...
    architectures  that the weights may be of, the likeliest first; empty where none is needed or known
    needs_architecture  whether one must be named
    classes        how many the head has, where that is known
    guess          which of several was taken
    left_out       names of files that were not kept
    """

    what: str
    name: str
    architectures: list[str]
    needs_architecture: bool
    classes: int | None
    guess: str | None
    left_out: list[str]


class OpeningQuestion(ModelPlace):
    """What is opened, and how; ``labels`` is the text of a list of names and ``labels_name`` the name of its file, whose ending counts."""

    name: str = Field(default="", max_length=60)
    architecture: str | None = Field(default=None, max_length=200)
    labels: str | None = Field(default=None, max_length=500_000)
    labels_name: str = Field(default="names.txt", max_length=200)
    base: str | None = Field(default=None, max_length=200)
    tokenizer: str | None = Field(default=None, max_length=200)
    output: Output | None = None


class Opening(Schema):
    """A model that is being opened: ``events`` tells how far."""

    name: str
    state: Literal["loading", "loaded"]
    events: str


class ReportFact(Schema):
    """Something that was found of a model."""

    name: str
    value: str


class ReportGuess(Schema):
    """Something that nobody said, and the argument that says otherwise."""

    what: str
    why: str
    argument: str


class ReportCheck(Schema):
    """One check on a sample."""

    name: str
    title: str
    state: Literal["passed", "failed", "not asked"]
    detail: str


class ModelReport(Schema):
    """What a model is, as ``Model.report`` has it in Python."""

    name: str
    opened: str
    facts: list[ReportFact]
    reading: str
    guesses: list[ReportGuess]
    notes: list[str]
    checks: list[ReportCheck]
    seconds: float


class OpeningReport(Schema):
    """``report`` of a model that is open, ``failure``, a text to send to others, of one that could not be opened."""

    name: str
    state: str
    kind: str | None = None
    report: ModelReport | None = None
    failure: str | None = None
