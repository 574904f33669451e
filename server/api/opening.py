"""A model of one's own: its files are brought, looked at, and opened; the report of what it is."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from explainers.errors import ExplainerError
from explainers.models.opening.class_names import names_in
from explainers.models.opening.look import look_at
from server.http.bodies import BodyRoute
from server.http.hosts import is_local
from server.http.problems import Problem
from server.http.visitors import Visitor, Who
from server.json_text import can_be_encoded
from server.schemas.opening import (
    ModelLook,
    ModelPlace,
    ModelReport,
    Opening,
    OpeningQuestion,
    OpeningReport,
    OwnModelLimits,
    UploadId,
    UploadState,
)
from server.services import Services, Use
from server.settings import environment_name

router = APIRouter(prefix="/api/opening", tags=["opening"], route_class=BodyRoute)
_SETTING = environment_name("own_models")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def _allowed(request: Request, services: Services) -> OwnModelLimits:
    setting, most = services.settings.own_models, services.settings.max_model_mb
    if services.settings.read_only:
        return OwnModelLimits(uploads=False, paths=False, most_mb=most, why="This server shows what is stored, and takes nothing.")
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
        raise Problem(403, "own-models-not-allowed", why, send="Open it in Python with explainers.open, or run a server of your own.")


@router.get("")
def allowed(request: Request, services: Use) -> OwnModelLimits:
    """What may be brought here."""
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
    """One file of an upload, as the body; ``name`` is its path inside the folder that it is from."""
    _check(_allowed(request, services))
    upload = services.own_models.find(upload_id, visitor)
    await services.own_models.receive(upload, name, request.stream())
    return UploadState(files=upload.files, bytes=upload.size, left_out=upload.left_out)


@router.delete("/{upload_id}", status_code=204, response_class=Response)
def forget(upload_id: str, request: Request, services: Use, visitor: Who) -> None:
    """Remove an upload and its files."""
    _check(_allowed(request, services))
    services.own_models.forget(upload_id, visitor)


@router.post("/look")
async def look(place: ModelPlace, request: Request, services: Use, visitor: Who) -> ModelLook:
    """What an upload or a path holds, and which architecture its weights may be of; nothing is opened yet."""
    folder, left_out = await run_in_threadpool(_place, place, request, services, visitor)
    try:
        seen = await run_in_threadpool(look_at, folder)
    except ExplainerError as error:
        raise _refused(error, folder) from None
    return ModelLook(**vars(seen), left_out=left_out[:20])


@router.post("/open", status_code=202)
async def open_it(wanted: OpeningQuestion, request: Request, services: Use, visitor: Who) -> Opening:
    """Open an upload or a path: it is then a model like any other, called ``own/<name>``, until the server stops. Where visitors are
    apart, nobody else knows of it.
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
        raise _refused(error, folder) from None
    mark = "" if visitor.is_alone else f"-{secrets.token_hex(3)}"  # that a name is taken would tell of another's model
    name = services.registry.free_name(f"own/{_slug(wanted.name or folder.name)}{mark}")
    if wanted.upload is not None:
        services.own_models.find(wanted.upload, visitor).is_open = True
    entry = services.registry.bring(name, folder, {**options, "name": name}, services.worker.load, visitor.owner)
    events = services.settings.address(f"/api/models/events?name={entry.name}")
    return Opening(name=entry.name, state="loading", events=events)


@router.get("/report")
def report(name: Annotated[str, Query(max_length=1000)], services: Use, visitor: Who) -> OpeningReport:
    """The report of a model that was opened, or of why it could not be."""
    entry = services.registry.find(name, visitor)
    known = None if entry.facts is None or entry.facts.report is None else ModelReport.model_validate(entry.facts.report)
    return OpeningReport(name=name, state=entry.state, kind=entry.kind, report=known, failure=entry.failure_report)


def _place(place: ModelPlace, request: Request, services: Services, visitor: Visitor) -> tuple[Path, list[str]]:
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
    upload = services.own_models.find(place.upload or "", visitor)
    services.own_models.unpack(upload)
    _check_bases(upload.folder, services, may_read=_allowed(request, services).paths)
    inside = [path for path in upload.folder.iterdir() if not path.name.startswith(".")]
    if not inside:
        raise Problem(422, "nothing-to-open", "No file has arrived that could be read.", send="Send weights and what lies beside them.")
    return (inside[0] if len(inside) == 1 else upload.folder), upload.left_out


def _check_bases(folder: Path, services: Services, *, may_read: bool) -> None:
    """Raise Problem 422 for an adapter whose base model is a path, unless they ``may_read`` folders here: who may not, may not by way of a
    file either. And 403 for a base model of the hub, where people may load none.
    """
    for file in folder.rglob("adapter_config.json"):
        try:
            base = json.loads(file.read_text("utf-8")).get("base_model_name_or_path")
        except (ValueError, AttributeError):
            raise Problem(422, "cannot-be-opened", "adapter_config.json is no JSON object.", send="Save the adapter again.") from None
        if not base:
            continue
        if isinstance(base, str) and _HUB_NAME.fullmatch(base) and _is_a_name(base):
            services.registry.check_may_load()
        elif not may_read:
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
