"""A visitor's own model: what is uploaded, what is found, and the report on it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from explainers.json_records import schema_of
from explainers.models.opening.look import Look
from explainers.models.outputs import Output
from explainers.models.report import Report
from vitrine_server.schemas.base import Schema


class OwnModelLimits(Schema):
    """Whether this visitor may open models of their own by uploads and by paths, and the size limit in megabytes; ``why`` says why there is
    none.
    """

    uploads: bool
    paths: bool
    most_mb: float
    why: str | None = None


class UploadId(Schema):
    """The id of an upload that can receive files."""

    id: str


class FilesLeftOut(Schema):
    """The names of the files that were sent and are not read."""

    left_out: list[str] = Field(description="Names of files that are never read.")


class UploadState(FilesLeftOut):
    """The number and size of the files of an upload that have arrived."""

    files: int
    bytes: int


ModelLook = schema_of(Look, base=FilesLeftOut)


class ModelPlace(Schema):
    """The files of a model: an upload, or a path on the server's machine."""

    upload: str | None = Field(default=None, max_length=40)
    path: str | None = Field(default=None, max_length=2000)


class OpeningQuestion(ModelPlace):
    """The files of a model and how to open them (its name, architecture, base model, tokenizer and what its output means); ``labels`` is
    the text of a list of class names and ``labels_name`` the name of its file, whose suffix tells the format.
    """

    name: str = Field(default="", max_length=60)
    architecture: str | None = Field(default=None, max_length=200)
    labels: str | None = Field(default=None, max_length=500_000)
    labels_name: str = Field(default="names.txt", max_length=200)
    base: str | None = Field(default=None, max_length=200)
    tokenizer: str | None = Field(default=None, max_length=200)
    output: Output | None = None


class Opening(Schema):
    """A model that is being opened: its name and state; ``events`` is the URL path of the events of its progress."""

    name: str
    state: Literal["loading", "loaded"]
    events: str


class OpeningReport(Schema):
    """The result of opening a model: its name, state and kind, what it ``reads``, whether it ``reads_pictures`` with a text, and
    the ``report`` of an open one, or ``failure``, a text to send to others, if it could not be opened.
    """

    name: str
    state: str
    kind: str | None = None
    reads: tuple[str, ...] = ()
    reads_pictures: bool = False
    report: Report | None = None
    failure: str | None = None
