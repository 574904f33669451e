"""A model of one's own: its files are brought, looked at, and opened; the report of what it is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from explainers.errors import ExplainerError
from explainers.models.opening.class_names import names_in
from explainers.models.opening.look import look_at
from explainers.models.outputs import Output
from server.http.bodies import BodyRoute
from server.http.hosts import is_local
from server.http.problems import Problem
from server.json_text import can_be_encoded
from server.services import Services, Use
from server.settings import environment_name

router = APIRouter(prefix="/api/opening", tags=["opening"], route_class=BodyRoute)
_SETTING = environment_name("own_models")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


class Allowed(BaseModel):
    """What this server takes of whoever asks. ``why``: where it takes nothing."""

    uploads: bool
    paths: bool
    most_mb: float
    why: str | None = None


class Begun(BaseModel):
    """An upload that takes files."""

    id: str


class Received(BaseModel):
    """How much of an upload has arrived; ``left_out``: names of files that are never read."""

    files: int
    bytes: int
    left_out: list[str]


class Place(BaseModel):
    """What is looked at: an upload, or a path of the server's machine."""

    model_config = ConfigDict(extra="forbid")
    upload: str | None = Field(default=None, max_length=40)
    path: str | None = Field(default=None, max_length=2000)


class Looked(BaseModel):
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


class Wanted(Place):
    """What is opened, and how; ``labels`` is the text of a list of names and ``labels_name`` the name of its file, whose ending counts."""

    name: str = Field(default="", max_length=60)
    architecture: str | None = Field(default=None, max_length=200)
    labels: str | None = Field(default=None, max_length=500_000)
    labels_name: str = Field(default="names.txt", max_length=200)
    base: str | None = Field(default=None, max_length=200)
    tokenizer: str | None = Field(default=None, max_length=200)
    output: Output | None = None


class Opening(BaseModel):
    """A model that is being opened: ``events`` tells how far."""

    name: str
    state: Literal["loading", "loaded"]
    events: str


class ReportFact(BaseModel):
    """Something that was found of a model."""

    name: str
    value: str


class ReportGuess(BaseModel):
    """Something that nobody said, and the argument that says otherwise."""

    what: str
    why: str
    argument: str


class ReportCheck(BaseModel):
    """One check on a sample."""

    name: str
    title: str
    state: Literal["passed", "failed", "not asked"]
    detail: str


class ModelReport(BaseModel):
    """What a model is, as ``Model.report`` has it in Python."""

    name: str
    opened: str
    facts: list[ReportFact]
    reading: str
    guesses: list[ReportGuess]
    notes: list[str]
    checks: list[ReportCheck]
    seconds: float


class ReportAnswer(BaseModel):
    """``report`` of a model that is open, ``failure``, a text to send to others, of one that could not be opened."""

    name: str
    state: str
    kind: str | None = None
    report: ModelReport | None = None
    failure: str | None = None


def _allowed(request: Request, services: Services) -> Allowed:
    setting, most = services.settings.own_models, services.settings.max_model_mb
    if setting == "off":
        return Allowed(uploads=False, paths=False, most_mb=most, why=f"Whoever runs this server has switched it off ({_SETTING}).")
    at_home = is_local(request.scope, services.settings)
    if at_home or setting == "all":
        return Allowed(uploads=True, paths=True, most_mb=most)
    if setting == "uploads":
        return Allowed(uploads=True, paths=False, most_mb=most)
    why = f"Models are only taken from the machine that the server runs on. {_SETTING}=uploads takes them from others too."
    return Allowed(uploads=False, paths=False, most_mb=most, why=why)


def _check(allowed: Allowed, *, path: bool = False) -> None:
    if not (allowed.paths if path else allowed.uploads):
        why = allowed.why or f"Paths are only read for who sits at the server's machine. {_SETTING}=all reads them for others too."
        raise Problem(403, "own-models-not-allowed", why, send="Open it in Python with explainers.open, or run a server of your own.")


@router.get("")
def allowed(request: Request, services: Use) -> Allowed:
    """What may be brought here."""
    return _allowed(request, services)


@router.post("", status_code=201)
def begin(request: Request, services: Use) -> Begun:
    """Begin an upload, to which files are then sent one by one."""
    _check(_allowed(request, services))
    return Begun(id=services.own_models.begin().id)


@router.put("/{upload_id}/file")
async def receive(upload_id: str, name: Annotated[str, Query(max_length=1000)], request: Request, services: Use) -> Received:
    """One file of an upload, as the body; ``name`` is its path inside the folder that it is from."""
    _check(_allowed(request, services))
    upload = services.own_models.find(upload_id)
    await services.own_models.receive(upload, name, request.stream())
    return Received(files=upload.files, bytes=upload.size, left_out=upload.left_out)


@router.delete("/{upload_id}", status_code=204)
def forget(upload_id: str, request: Request, services: Use) -> None:
    """Remove an upload and its files."""
    _check(_allowed(request, services))
    services.own_models.forget(upload_id)


@router.post("/look")
async def look(place: Place, request: Request, services: Use) -> Looked:
    """What an upload or a path holds, and which architecture its weights may be of; nothing is opened yet."""
    folder, left_out = await run_in_threadpool(_place, place, request, services)
    try:
        seen = await run_in_threadpool(look_at, folder)
    except ExplainerError as error:
        raise _refused(error, folder) from None
    return Looked(**vars(seen), left_out=left_out[:20])


@router.post("/open", status_code=202)
async def open_it(wanted: Wanted, request: Request, services: Use) -> Opening:
    """Open an upload or a path: it is then a model like any other, called ``own/<name>``, until the server stops."""
    folder, _ = await run_in_threadpool(_place, wanted, request, services)
    ways: dict[str, Any] = {
        key: value for key in ("architecture", "base", "tokenizer", "output") if (value := getattr(wanted, key)) is not None
    }
    for key in ("architecture", "base", "tokenizer"):
        if key in ways:
            ways[key] = ways[key].strip()
            if not _is_a_name(ways[key]):
                raise Problem(422, "not-a-name", f"{key} is {ways[key]!r}.", send="Send timm/<name>, hf/<organisation>/<name>, ...")
    try:
        if wanted.labels is not None and wanted.labels.strip():
            ways["labels"] = names_in(wanted.labels, wanted.labels_name)
    except ExplainerError as error:
        raise _refused(error, folder) from None
    name = services.registry.free_name(f"own/{_slug(wanted.name or folder.name)}")
    if wanted.upload is not None:
        services.own_models.find(wanted.upload).is_open = True
    entry = services.registry.bring(name, folder, {**ways, "name": name}, services.worker.load)
    return Opening(name=entry.name, state="loading", events=f"/api/models/events?name={entry.name}")


@router.get("/report")
def report(name: Annotated[str, Query(max_length=1000)], services: Use) -> ReportAnswer:
    """The report of a model that was opened, or of why it could not be."""
    entry = services.registry.find(name)
    known = None if entry.facts is None or entry.facts.report is None else ModelReport.model_validate(entry.facts.report)
    return ReportAnswer(name=name, state=entry.state, kind=entry.kind, report=known, failure=entry.failure)


def _place(place: Place, request: Request, services: Services) -> tuple[Path, list[str]]:
    """The folder or file that is meant, and names of files that were left out."""
    if (place.upload is None) == (place.path is None):
        raise Problem(422, "no-place", "Either an upload or a path is needed.", send='Send {"upload": id} or {"path": "..."}.')
    if place.path is not None:
        _check(_allowed(request, services), path=True)
        path = Path(place.path.strip().strip("'\"")).expanduser()
        if not can_be_encoded(place.path) or "\0" in place.path or not path.exists():
            raise Problem(404, "no-such-path", "There is no such file or folder on the server's machine.", send="Send its whole path.")
        return path, []
    _check(_allowed(request, services))
    upload = services.own_models.find(place.upload or "")
    services.own_models.unpack(upload)
    if not _allowed(request, services).paths:
        _refuse_paths_inside(upload.folder)
    inside = [path for path in upload.folder.iterdir() if not path.name.startswith(".")]
    if not inside:
        raise Problem(422, "nothing-to-open", "No file has arrived that could be read.", send="Send weights and what lies beside them.")
    return (inside[0] if len(inside) == 1 else upload.folder), upload.left_out


def _refuse_paths_inside(folder: Path) -> None:
    """Raise Problem 422 for an adapter whose base model is a path: who may not read folders here may not by way of a file."""
    for file in folder.rglob("adapter_config.json"):
        try:
            base = json.loads(file.read_text("utf-8")).get("base_model_name_or_path")
        except (ValueError, AttributeError):
            raise Problem(422, "cannot-be-opened", "adapter_config.json is no JSON object.", send="Save the adapter again.") from None
        if base and not (isinstance(base, str) and _HUB_NAME.fullmatch(base) and _is_a_name(base)):
            raise Problem(422, "base-is-a-path", "The adapter names its base model by a path.", send="Name one of the hub in its config.")


def _is_a_name(text: str) -> bool:
    """Whether it is the name of an architecture or of the hub, and no path."""
    return not text.startswith(("/", "~", ".")) and ".." not in text and "\\" not in text and not Path(text).exists()


def _slug(name: str) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name.split(".", maxsplit=1)[0]).strip("-")
    return kept[:40] or "model"


def _refused(error: ExplainerError, place: Path) -> Problem:
    """A refusal of the engine, without the server's paths."""
    told_to_all = str(error).replace(str(place), place.name)
    return Problem(422, "cannot-be-opened", told_to_all, send="See what opens and how in docs/models.md.")
