"""A visitor's own model: its files are uploaded, looked at, and opened; and the report on it."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from explainers.errors import ExplainerError
from explainers.json_files import read_json_object
from explainers.models.opening.adapters import CONFIG as ADAPTER_CONFIG
from explainers.models.opening.class_names import names_in
from explainers.models.opening.look import look_at
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.hosts import is_local
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor, Who
from vitrine_server.jobs.catalogue.model_paths import exists, find_place
from vitrine_server.schemas.opening import (
    ModelLook,
    ModelPlace,
    Opening,
    OpeningQuestion,
    OpeningReport,
    OwnModelLimits,
    UploadId,
    UploadState,
)
from vitrine_server.services import Services, Use
from vitrine_server.settings import environment_name

router = APIRouter(prefix="/api/opening", tags=["opening"], route_class=BodyRoute)
_SETTING = environment_name("own_models")
#: What ends the name of a file of weights, which its model is not called by.
_FILE_ENDINGS = re.compile(r"(\.(safetensors|pth|pt|ckpt|bin|tar|zip))+$", re.IGNORECASE)
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def _allowed(request: Request, services: Services) -> OwnModelLimits:
    setting, most = services.settings.own_models, services.settings.max_model_mb
    if services.settings.read_only:
        return OwnModelLimits(
            uploads=False, paths=False, most_mb=most, why="This server only shows stored explanations and takes no models."
        )
    if setting == "off":
        return OwnModelLimits(uploads=False, paths=False, most_mb=most, why=f"Whoever runs this server has switched it off ({_SETTING}).")
    at_home = is_local(request.scope, services.settings)
    if at_home or setting == "all":
        return OwnModelLimits(uploads=True, paths=True, most_mb=most)
    if setting == "uploads":
        return OwnModelLimits(uploads=True, paths=False, most_mb=most)
    why = f"Models are only taken from the machine that the server runs on. {_SETTING}=uploads takes them from others too."
    return OwnModelLimits(uploads=False, paths=False, most_mb=most, why=why)


def _check(allowed: OwnModelLimits, *, path: bool = False) -> None:
    if not (allowed.paths if path else allowed.uploads):
        why = allowed.why or f"Paths are only read for who sits at the server's machine. {_SETTING}=all reads them for others too."
        raise Problem(403, "own-models-not-allowed", why, send="Open it in Python with explainers.open, or run your own server.")


@router.get("")
def allowed(request: Request, services: Use) -> OwnModelLimits:
    """Return the ways in which this visitor may open their own models, and the maximum sizes."""
    return _allowed(request, services)


@router.post("", status_code=201)
def begin(request: Request, services: Use, visitor: Who) -> UploadId:
    """Begin an upload, to which files are then sent one by one."""
    _check(_allowed(request, services))
    return UploadId(id=services.own_models.begin(visitor).id)


@router.put("/{upload_id}/file")
async def receive(
    upload_id: str, name: Annotated[str, Query(max_length=1000)], request: Request, services: Use, visitor: Who
) -> UploadState:
    """Receive one file of the upload with this id as the body, and return what has arrived so far; ``name`` is its path inside the model's
    folder.
    """
    _check(_allowed(request, services))
    upload = services.own_models.find(upload_id, visitor)
    await services.own_models.receive(upload, name, request.stream())
    return UploadState(files=upload.files, bytes=upload.size, left_out=upload.left_out)


@router.delete("/{upload_id}", status_code=204, response_class=Response)
def forget(upload_id: str, request: Request, services: Use, visitor: Who) -> None:
    """Remove the upload with this id and its files."""
    _check(_allowed(request, services))
    services.own_models.forget(upload_id, visitor)


@router.post("/look", response_model=ModelLook)
async def look(place: ModelPlace, request: Request, services: Use, visitor: Who) -> DocumentResponse:
    """Return which files an upload (by its id) or a path has, and which architecture its weights may belong to; no model is opened yet."""
    folder, left_out = await run_in_threadpool(_place, place, request, services, visitor)
    try:
        seen = await run_in_threadpool(look_at, folder)
    except ExplainerError as error:
        raise _to_problem(error, folder) from None
    except (OSError, RecursionError) as error:  # not to be read, or folders without end: a link may lead back
        why = getattr(error, "strerror", None) or "it is too deep"
        raise _to_problem(ExplainerError(f"{folder} cannot be read: {why}"), folder) from None
    return DocumentResponse({**seen.to_json(), "left_out": left_out[:20]})


@router.post("/open", status_code=202)
async def open_it(wanted: OpeningQuestion, request: Request, services: Use, visitor: Who) -> Opening:
    """Open an upload or a path as a model called ``own/<name>``, which can be used like any other until the server stops. If visitors are
    separate, only its owner sees it.
    """
    folder, _ = await run_in_threadpool(_place, wanted, request, services, visitor)
    options: dict[str, Any] = {
        key: value for key in ("architecture", "base", "tokenizer", "output") if (value := getattr(wanted, key)) is not None
    }
    for key in ("architecture", "base", "tokenizer"):
        if key in options:
            options[key] = options[key].strip()
            if not _is_a_name(options[key]):
                raise Problem(422, "not-a-name", f"{key} is {options[key]!r}.", send="Send timm/<name>, hf/<organisation>/<name>, ...")
            if key != "architecture" or not options[key].startswith("timm/"):  # what timm makes needs nothing of the hub
                services.registry.check_may_load()
    try:
        if wanted.labels is not None and wanted.labels.strip():
            options["labels"] = names_in(wanted.labels, wanted.labels_name)
    except ExplainerError as error:
        raise _to_problem(error, folder) from None
    mark = "" if visitor.is_alone else f"-{secrets.token_hex(3)}"  # that a name is taken would tell of another's model
    name = services.registry.free_name(f"own/{_slug(wanted.name or folder.name)}{mark}")
    if wanted.upload is not None:
        services.own_models.find(wanted.upload, visitor).is_open = True
    entry = services.registry.bring(name, folder, {**options, "name": name}, services.worker.load, visitor.owner)
    events = services.settings.address(f"/api/models/events?name={entry.name}")
    return Opening(name=entry.name, state="loading", events=events)


@router.get("/report", response_model=OpeningReport)
def report(name: Annotated[str, Query(max_length=1000)], services: Use, visitor: Who) -> DocumentResponse:
    """Return the report of the model called ``name`` that was opened, or the reason why it could not be opened."""
    entry = services.registry.find(name, visitor)
    known = None if entry.facts is None or entry.facts.report is None else entry.facts.report.to_json()
    reads_pictures = entry.facts is not None and entry.facts.details.get("picture_grid") is not None
    reads = [] if entry.facts is None else list(entry.facts.details.get("reads", ()))
    about = {"name": name, "state": entry.state, "kind": entry.kind, "reads": reads, "reads_pictures": reads_pictures}
    return DocumentResponse({**about, "report": known, "failure": entry.failure_report})


def _place(place: ModelPlace, request: Request, services: Services, visitor: Visitor) -> tuple[Path, list[str]]:
    """Return the folder or file of a model, and the names of files that were left out. ``place`` names the model: the id of an upload,
    which is unpacked, or a path. Raises Problem 422 unless the request has exactly one of upload and path.
    """
    if (place.upload is None) == (place.path is None):
        raise Problem(422, "no-place", "Either an upload or a path is needed.", send='Send {"upload": id} or {"path": "..."}.')
    if place.path is not None:
        _check(_allowed(request, services), path=True)
        path = find_place(place.path)
        _check_bases(path, services, may_read=True)
        return path, []
    _check(_allowed(request, services))
    upload = services.own_models.find(place.upload or "", visitor)
    services.own_models.unpack(upload)
    _check_bases(upload.folder, services, may_read=_allowed(request, services).paths)
    inside = [path for path in upload.folder.iterdir() if not path.name.startswith(".")]
    if not inside:
        raise Problem(
            422, "nothing-to-open", "No file has arrived that could be read.", send="Send the weights and the files next to them."
        )
    return (inside[0] if len(inside) == 1 else upload.folder), upload.left_out


def _check_bases(place: Path, services: Services, *, may_read: bool) -> None:
    """Raise Problem 422 for an adapter in ``place``, a folder, whose base model is a path, unless the visitor ``may_read`` folders here,
    and then only for paths that they could name themselves. Raise 403 for a base model of the hub if visitors may load none.
    """
    for file in _adapters_of(place):
        try:
            base = read_json_object(file).get("base_model_name_or_path")
        except ExplainerError as error:
            raise _to_problem(error, file.parent) from None
        if not base:
            continue
        if isinstance(base, str) and _HUB_NAME.fullmatch(base) and _is_a_name(base):
            services.registry.check_may_load()
        elif not may_read:
            raise Problem(
                422,
                "base-is-a-path",
                "The adapter names its base model by a path.",
                send="In adapter_config.json, set base_model_name_or_path to the name of a model of the hub.",
            )
        elif isinstance(base, str) and exists(base):
            find_place(base)


def _adapters_of(path: Path) -> Iterator[Path]:
    """Yield the configuration files of adapters that may be read with the model at ``path``: for a file, the one next to it; for a folder,
    those in it and in folders that it links to, each folder once.
    """
    if not path.is_dir():
        adapter_config = path.parent / ADAPTER_CONFIG
        if adapter_config.is_file():
            yield adapter_config
        return
    known = set()
    for place, inner, files in os.walk(path, followlinks=True):
        if (real := os.path.realpath(place)) in known:
            inner.clear()
            continue
        known.add(real)
        if ADAPTER_CONFIG in files:
            yield Path(place, ADAPTER_CONFIG)


def _is_a_name(text: str) -> bool:
    """Return whether a text can be the name of an architecture or a model of the hub, rather than a path."""
    return not text.startswith(("/", "~", ".")) and ".." not in text and "\\" not in text and not exists(text)


def _slug(name: str) -> str:
    stem = _FILE_ENDINGS.sub("", name)
    kept = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in stem).strip("-")
    return kept[:40] or "model"


def _to_problem(error: ExplainerError, place: Path) -> Problem:
    """Convert an error of the library about the folder or file ``place`` to a Problem 422, without the server's paths."""
    told_to_all = str(error).replace(str(place), place.name)
    return Problem(422, "cannot-be-opened", told_to_all, send="See in docs/models.md what can be opened, and how.")
