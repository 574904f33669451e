"""Tables of many inputs: the collections that are here, their rows by page, what a filter leaves, and the inputs of rows."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import Field, Json
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool

from explainers.collection.labels import unknown_labels_in_words
from explainers.collection.relied_words import ReliedWords, find_relied_words
from explainers.collection.shared_places import SharedPlace
from explainers.collection.slices.report import SLICES_PAGE, rows_of_slices
from explainers.collection.suspicion import FLAGS, SLICES_FIRST_IN_WORDS
from explainers.collection.table import CollectionTable, RowFilter, Space
from explainers.errors import ExplainerError
from explainers.json_records import Record, describe, schema_of
from explainers.methods import parse
from explainers.models.inputs.images import is_picture_name
from vitrine_server.api.explanations import stream
from vitrine_server.api.runs import check_may_run, may_run
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import events_of, file_of
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor, Who
from vitrine_server.jobs.runs.measurable import MeasurableModel
from vitrine_server.jobs.runs.run_state import RunProgress, RunState
from vitrine_server.schemas.base import Message
from vitrine_server.schemas.collections import CollectionRequest, CollectionRows, Selection, SlicesRequest, SlicesWanted
from vitrine_server.services import Services, Use
from vitrine_server.settings import environment_name
from vitrine_server.shelf import CollectionEntry, ShelvedCollection

router = APIRouter(prefix="/api/collections", tags=["collections"], route_class=BodyRoute)
CollectionId = Annotated[str, Path(alias="id", description="The id of a collection.")]
Index = Annotated[int, Path(description="The index of a row: the place of its input in the data.", ge=0)]
MAX_ROWS = 200  # of a page
MAX_VALUES = 200  # of a column, to choose from
#: Of a report, which has its styles and pictures in itself, and no scripts.
_REPORT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_A_DAY = "private, max-age=86400"
_MEDIA_TYPES = {".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png", ".webp": "image/webp", ".gif": "image/gif"}


CollectionRun = schema_of(RunProgress, base=CollectionRequest, name="CollectionRun")
SlicesRun = schema_of(RunProgress, base=SlicesRequest, name="SlicesRun")


@dataclass(frozen=True)
class CollectionList(Record):
    """The finished collections that the visitor may see, those that they began here, and what another can be made of."""

    collections: list[CollectionEntry]
    runs: Annotated[list[dict[str, Any]], describe("Those that the visitor began here, the latest first.", kind=list[CollectionRun])]
    models: Annotated[list[MeasurableModel], describe("The loaded models; none if the visitor may not make collections.")]
    most: Annotated[int, describe("Inputs of a collection that is made here.")]
    most_mb: Annotated[float, describe("Megabytes of data that is sent.")]


class CollectionProgressEvent(Message):
    """An event: another part of the inputs is collected; its data is the state of the collection."""

    event: Literal["progress"]
    data: Json[CollectionRun]  # type: ignore[valid-type]  # it is made of a record


class CollectionEndedEvent(Message):
    """The last event of a collection: it is done, stopped or failed; its data is the state of it."""

    event: Literal["ended"]
    data: Json[CollectionRun]  # type: ignore[valid-type]


CollectionEvent = Annotated[CollectionProgressEvent | CollectionEndedEvent, Field(discriminator="event")]


@dataclass(frozen=True)
class CollectionFlag(Record):
    """A reason to look at a row: its name, its title, the sentence that defines it, and how many rows have it."""

    name: str
    title: str
    says: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class CollectionAbout(Record):
    """What a collection is made of, and what its rows can be filtered by."""

    entry: CollectionEntry
    methods: list[str]
    method_titles: list[str]
    prompts: Annotated[list[str] | None, describe("Of a CLIP model: those that it chose from.")]
    page: Annotated[Literal["/image", "/prompt", "/text", "/molecule"], describe("The workbench that opens its rows.")]
    model: Annotated[str | None, describe("The model here with its weights, which the workbench asks; null if there is none.")]
    reason: Annotated[str | None, describe("Why its rows cannot be opened in the workbench.")]
    suspicion: Annotated[str, describe("What is suspicious, in a sentence.")]
    flags: list[CollectionFlag]
    shared_places: Annotated[list[SharedPlace], describe("Places that most rows with one answer share, the most rows first.")]
    labels: list[str]
    answers: list[str]
    own_columns: Annotated[dict[str, list[str]], describe("The values of the data's own columns that have few.")]
    has_labels: bool
    has_masks: bool
    unknown_labels: Annotated[str | None, describe("A sentence on the labels that the model does not know; null if it knows all.")]
    broken: Annotated[int, describe("Inputs that were left out, as they could not be read.")]
    has_slices: Annotated[bool, describe("Whether there is a report on slices, the page at `slices`: the visitor's, or the operator's.")]
    searches: Annotated[
        list[dict[str, Any]], describe("Searches for slices that the visitor began, the latest first.", kind=list[SlicesRun])
    ]
    reason_against_slices: Annotated[str | None, describe("Why the visitor cannot begin a search for slices here.")]


@dataclass(frozen=True)
class CollectionPoints(Record):
    """The plane of two principal components: for each row that has a place its index, x, y, and whether its answer is right."""

    index: list[int]
    x: list[float]
    y: list[float]
    right: list[bool | None]


@router.get("", response_model=CollectionList)
def collections(services: Use, visitor: Who) -> DocumentResponse:
    """Return the finished collections here (those that the visitor made, then those that the operator named), the ``runs`` that the visitor
    began, and the ``models`` with their data sets that another can be made of.
    """
    listed = CollectionList(
        collections=[each.entry() for each in services.shelf.all(visitor)],
        runs=[run.to_json() for run in services.collecting.all(visitor)],
        models=services.collecting.measurable.models(visitor) if may_run(services) else [],
        most=services.settings.max_run_inputs,
        most_mb=services.settings.max_data_mb,
    )
    return DocumentResponse(listed.to_json())


@router.post("", status_code=202, response_model=CollectionRun)
async def begin(wanted: CollectionRequest, services: Use, visitor: Who) -> DocumentResponse:
    """Begin the collection that the body describes (a model, a data set and methods), and return its state; all questions of visitors go
    before it. One that was stopped continues after its last input. Data of your own go to POST /api/runs/data first, and stay with the
    collection until it is deleted.
    """
    check_may_run(services)
    return DocumentResponse((await run_in_threadpool(services.collecting.begin, wanted, visitor)).to_json(), 202)


@router.get("/{id}/progress", response_model=CollectionRun)
def progress(collection_id: CollectionId, services: Use, visitor: Who) -> DocumentResponse:
    """Return how far the collection with this id is, which the visitor began here."""
    return DocumentResponse(services.collecting.find(collection_id, visitor).to_json())


@router.get("/{id}/events", response_class=EventSourceResponse, responses=events_of(CollectionEvent))
async def events(collection_id: CollectionId, services: Use, visitor: Who) -> EventSourceResponse:
    """Send the events of the collection with this id as server-sent events since it was last begun: ``progress``, then ``ended``."""
    return stream(services.collecting.find(collection_id, visitor).feed, None)


@router.post("/{id}/stop", status_code=204)
def stop(collection_id: CollectionId, services: Use, visitor: Who) -> Response:
    """Stop the collection with this id. The rows that are done are kept."""
    check_may_run(services)
    services.collecting.stop(collection_id, visitor)
    return Response(status_code=204)


@router.post("/{id}/again", status_code=202, response_model=CollectionRun)
async def go_on(collection_id: CollectionId, services: Use, visitor: Who) -> DocumentResponse:
    """Continue the collection with this id, which was stopped or has failed, after its last input; also after a restart of the server."""
    check_may_run(services)
    return DocumentResponse((await run_in_threadpool(services.collecting.go_on, collection_id, visitor)).to_json(), 202)


@router.delete("/{id}", status_code=204)
def delete(collection_id: CollectionId, services: Use, visitor: Who) -> Response:
    """Delete the collection with this id, which the visitor began here, with the data that was sent for it and the searches for its slices;
    a running one is stopped first.
    """
    check_may_run(services)
    services.collecting.find(collection_id, visitor)
    for search in _searches(collection_id, services, visitor):
        services.slicing.remove(search.id, visitor)
    services.collecting.remove(collection_id, visitor)
    return Response(status_code=204)


@router.get("/{id}", response_model=CollectionAbout)
def about(collection_id: CollectionId, services: Use, visitor: Who) -> DocumentResponse:
    """Return what the collection with this id is made of, and what its rows can be filtered by."""
    shelved = services.shelf.find(collection_id, visitor)
    table, record = services.shelf.table(shelved), shelved.record
    held = services.registry.find_weights(record.get("weights_digest"), shelved.model, visitor)
    values_of = {name: sorted({row["own_columns"][name] for row in table.rows if name in row["own_columns"]}) for name in table.own_columns}
    # of pictures without masks it is worth saying that masks would add a reason
    offered = table.readings.known_flags() | ({"off_object"} if shelved.record.get("input_kind") == "image" else set())
    document = CollectionAbout(
        entry=shelved.entry(),
        methods=list(record["methods"]),
        method_titles=[_title_of(spec) for spec in record["methods"]],
        prompts=record.get("prompts"),
        page=_page_of(shelved),
        model=None if held is None else held.name,
        reason=_reason_against_opening(shelved, has_model=held is not None),
        suspicion=_suspicion_in_words(table.readings.in_words(), has_slices=bool(_rows_of_slices(shelved, services, visitor))),
        flags=[CollectionFlag(name, *FLAGS[name], int(has.sum())) for name, has in table.flags.items() if name in offered],
        shared_places=table.shared_places,
        labels=table.values("label")[:MAX_VALUES],
        answers=table.values("answer")[:MAX_VALUES],
        own_columns={name: values for name, values in values_of.items() if len(values) <= MAX_VALUES},
        has_labels=any(row["right"] is not None for row in table.rows),
        has_masks=any(row["object_area"] is not None for row in table.rows),
        unknown_labels=unknown_labels_in_words(table.unknown_labels, table.count),
        broken=len(table.collection.broken),
        has_slices=_slices_page(shelved, services, visitor) is not None,
        searches=[run.to_json() for run in _searches(shelved.id, services, visitor)],
        reason_against_slices=_reason_against_slices(shelved, table, services, has_model=held is not None),
    )
    return DocumentResponse(document.to_json())


def _searches(collection_id: str, services: Services, visitor: Visitor) -> list[RunState]:
    """Return the searches for slices of a collection that the visitor began, the latest first."""
    return [run for run in services.slicing.all(visitor) if run.request.dataset == collection_id]


def _slices_page(shelved: ShelvedCollection, services: Services, visitor: Visitor) -> FilePath | None:
    """Return the path of the report on slices: that of the visitor's last search, else the one that lies with the collection; None if there
    is none.
    """
    folders = [*(run.folder for run in _searches(shelved.id, services, visitor) if run.state == "done"), shelved.folder]
    return next((page for folder in folders if (page := folder / SLICES_PAGE).is_file()), None)


def _rows_of_slices(shelved: ShelvedCollection, services: Services, visitor: Visitor) -> frozenset[int]:
    """Return the indices of the rows of the slices that the page shows to the visitor."""
    page = _slices_page(shelved, services, visitor)
    return frozenset() if page is None else rows_of_slices(page.parent)


def _suspicion_in_words(sentence: str, *, has_slices: bool) -> str:
    return f"{SLICES_FIRST_IN_WORDS}{sentence[:1].lower()}{sentence[1:]}" if has_slices and sentence else sentence


def _reason_against_slices(shelved: ShelvedCollection, table: CollectionTable, services: Services, *, has_model: bool) -> str | None:
    """Return why no search for slices can begin; None if one can."""
    if not may_run(services):
        return f"This server begins no searches for visitors; {environment_name('allow_runs')} allows it."
    if shelved.record.get("input_kind") == "molecule":
        return "Slices are found in pictures and texts, not in molecules."
    if not any(row["right"] is not None for row in table.rows):
        return "No row is right or wrong: slices need labels."
    return _reason_against_opening(shelved, has_model=has_model)


def _title_of(spec: str) -> str:
    """Return the title of a method with its rule; the spec itself if its method is no longer known here."""
    try:
        return parse(spec).name.title
    except ExplainerError:
        return spec


def _page_of(shelved: ShelvedCollection) -> Literal["/image", "/prompt", "/text", "/molecule"]:
    if shelved.record.get("prompts") is not None:
        return "/prompt"
    return {"text": "/text", "molecule": "/molecule"}.get(str(shelved.record.get("input_kind")), "/image")  # type: ignore[return-value]


def _reason_against_opening(shelved: ShelvedCollection, *, has_model: bool) -> str | None:
    """Return why rows of a collection cannot be opened: the server has not its model, or nobody knows where its pictures lie. None if they
    can.
    """
    from explainers.collection.sources import sources_of

    if not has_model:
        return (
            f"This server has no model with the weights of “{shelved.model}”, which the collection was made with. Whoever runs it adds the "
            "model by naming it in VITRINE_MODELS."
        )
    if shelved.record.get("input_kind") == "image" and sources_of(shelved.record) is None:
        return "It does not say where its pictures lie. Type the same vitrine collect again, which adds that."
    return None


def _row_filter(
    word: Annotated[str, Query(max_length=200, description="A part of the name, text, label, answer or an own column.")] = "",
    label: Annotated[str | None, Query(max_length=1000)] = None,
    answer: Annotated[str | None, Query(max_length=1000)] = None,
    right: Annotated[bool | None, Query(description="Whether the answer is right.")] = None,
    flag: Annotated[list[str] | None, Query(max_length=10, description="Flags that the row has, all of them.")] = None,
    column: Annotated[list[str] | None, Query(max_length=10, description="Values of own columns, as name=value.")] = None,
    box: Annotated[list[float] | None, Query(description="x0, y0, x1, y1 in the plane of `space`.")] = None,
    space: Annotated[Space, Query(description="The plane of inputs, or of maps.")] = "inputs",
) -> RowFilter:
    """Make the filter of the query parameters. Raises Problem 422 for a box that has no four numbers."""
    if box is not None and len(box) != 4:
        raise Problem(422, "invalid-request", "box has no four numbers.", send="Send box four times: x0, y0, x1, y1.")
    return RowFilter(
        word=word,
        label=label,
        answer=answer,
        right=right,
        flags=tuple(flag or ()),
        columns=dict(each.partition("=")[::2] for each in column or ()),
        box=None if box is None else (box[0], box[1], box[2], box[3]),
        space=space,
    )


Filter = Annotated[RowFilter, Depends(_row_filter)]


def _open(collection_id: str, services: Services, visitor: Visitor) -> CollectionTable:
    return services.shelf.table(services.shelf.find(collection_id, visitor))


@router.get("/{id}/rows", response_model=CollectionRows)
def rows(
    collection_id: CollectionId,
    wanted: Filter,
    services: Use,
    visitor: Who,
    order: Annotated[str, Query(max_length=40, description="suspicion, input, label, answer, probability, ...")] = "suspicion",
    descending: Annotated[bool | None, Query(description="Null: as suits the order.")] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = 50,
) -> DocumentResponse:
    """Return a page of the rows that pass the filter, sorted, with how many there are."""
    shelved = services.shelf.find(collection_id, visitor)
    table = services.shelf.table(shelved)
    try:
        in_slices = _rows_of_slices(shelved, services, visitor) if order == "suspicion" else frozenset[int]()
        positions = table.select(wanted, order, descending=descending, in_slices=in_slices)
        page = table.page(positions[offset : offset + limit])
    except ExplainerError as problem:
        raise Problem(422, "invalid-request", str(problem), send="GET the collection for what it can be filtered by.") from None
    return DocumentResponse({"total": len(positions), "rows": [row.to_json() for row in page]})


@router.get("/{id}/selection", response_model=Selection)
def selection(collection_id: CollectionId, wanted: Filter, services: Use, visitor: Who) -> DocumentResponse:
    """Return what a filter leaves: how many rows, how many are right, wrong and have each flag, the confusion of labels and answers
    (where both a label and an answer are asked for, as by a count of it, of all of them), and the indices of the rows (null: all).
    """
    table = _open(collection_id, services, visitor)
    try:
        positions = table.select(wanted, "input")
    except ExplainerError as problem:
        raise Problem(422, "invalid-request", str(problem), send="GET the collection for what it can be filtered by.") from None
    is_cell = wanted.label is not None and wanted.answer is not None
    confused = table.select(replace(wanted, label=None, answer=None), "input") if is_cell else positions
    right = table.readings.right[positions]
    document = {
        "total": len(positions),
        "right": int((right == 1).sum()),
        "wrong": int((right == 0).sum()),
        "flags": {name: int(has[positions].sum()) for name, has in table.flags.items()},
        "confusion": table.confusion(confused).to_json(),
        "indices": None if len(positions) == table.count else [table.rows[position]["index"] for position in positions],
    }
    return DocumentResponse(document)


@router.get("/{id}/points", response_model=CollectionPoints)
def points(collection_id: CollectionId, services: Use, visitor: Who, space: Space = "inputs") -> DocumentResponse:
    """Return the plane of two principal components of the embeddings of the inputs, or of the first maps, sorted by x; empty where there
    are none.
    """
    import numpy as np

    table = _open(collection_id, services, visitor)
    plane = table.plane(space)
    if plane is None:
        return DocumentResponse(CollectionPoints([], [], [], []).to_json())
    order = np.argsort(plane[:, 0], kind="stable")
    known = [int(position) for position in order if not np.isnan(plane[position]).any()]
    document = CollectionPoints(
        index=[table.rows[position]["index"] for position in known],
        x=[float(f"{plane[position, 0]:.5g}") for position in known],
        y=[float(f"{plane[position, 1]:.5g}") for position in known],
        right=[table.rows[position]["right"] for position in known],
    )
    return DocumentResponse(document.to_json())


@router.get("/{id}/words", response_model=ReliedWords)
def words(collection_id: CollectionId, services: Use, visitor: Who) -> DocumentResponse:
    """Return the words of the texts that hold most of the evidence for the answers, by the first map; none of pictures and molecules."""
    return DocumentResponse(find_relied_words(_open(collection_id, services, visitor).collection).to_json())


@router.post("/{id}/slices", status_code=202, response_model=SlicesRun)
async def find_slices(collection_id: CollectionId, wanted: SlicesWanted, services: Use, visitor: Who) -> DocumentResponse:
    """Begin a search for slices of the collection with this id, and return its state; all questions of visitors go before it. The calls
    below /api/slices follow, stop, continue and delete it.
    """
    check_may_run(services)
    return DocumentResponse((await run_in_threadpool(_find_slices, collection_id, wanted, services, visitor)).to_json(), 202)


def _find_slices(collection_id: str, wanted: SlicesWanted, services: Services, visitor: Visitor) -> RunState:
    shelved = services.shelf.find(collection_id, visitor)
    held = services.registry.find_weights(shelved.record.get("weights_digest"), shelved.model, visitor)
    if (reason := _reason_against_slices(shelved, services.shelf.table(shelved), services, has_model=held is not None)) or held is None:
        raise Problem(422, "cannot-search", reason or "", send="Send another collection.")
    entry = services.registry.ask(held.name, services.worker.load, visitor=visitor)
    if entry.facts is None:
        raise Problem(409, "model-loading", f"The model “{shelved.model}” is still loading.", send="Ask again in a moment.")
    request = SlicesRequest(model=entry.name, dataset=collection_id, limit=shelved.rows, seed=wanted.seed)
    return services.slicing.begin(request, visitor)


@router.get("/{id}/slices", response_class=HTMLResponse)
def slices(collection_id: CollectionId, request: Request, services: Use, visitor: Who) -> HTMLResponse:
    """Return the page on the slices of the collection with this id, what many of its wrong or doubtful rows have in common: that of the
    visitor's last search, else the one that the operator made.
    """
    shelved = services.shelf.find(collection_id, visitor)
    try:
        place = _slices_page(shelved, services, visitor)
        page = None if place is None else place.read_text("utf-8")
    except OSError:  # it was deleted since
        page = None
    if page is None:
        send = "POST to this address begins a search; or type vitrine slices with the folder of the collection."
        raise Problem(404, "no-slices", "No slices of this collection have been searched.", send=send)
    back = f"/collection?c={quote(collection_id, safe='')}"
    page = request.app.state.with_navigation(page, "/collection", back, f"the rows of {shelved.title}")
    return HTMLResponse(page, headers={"Content-Security-Policy": _REPORT_POLICY})


@router.get("/{id}/thumbnails/{index}.jpg", response_class=Response, responses=file_of("image/jpeg"))
def thumbnail(collection_id: CollectionId, index: Index, services: Use, visitor: Who) -> Response:
    """Return the part of the picture of a row that the model saw, at most 96 pixels wide and high."""
    picture = _open(collection_id, services, visitor).thumbnail(index)
    if picture is None:
        raise _no_row(index)
    return Response(picture, media_type="image/jpeg", headers={"Cache-Control": _A_DAY})


@router.get("/{id}/inputs/{index}", response_class=Response, responses=file_of("image/*"))
def picture(collection_id: CollectionId, index: Index, services: Use, visitor: Who) -> Response:
    """Return the picture of a row as it was given: its file, or a PNG of what the data hold."""
    shelved = services.shelf.find(collection_id, visitor)
    table = services.shelf.table(shelved)
    position = table.position_of(index)
    if position is None:
        raise _no_row(index)
    content, media_type = _picture(shelved, index, str(table.rows[position]["input"]))
    return Response(content, media_type=media_type)


def _picture(shelved: ShelvedCollection, index: int, name: str) -> tuple[bytes, str]:
    """Return the bytes and the media type of the picture ``index``, called ``name``. Raises Problem 409 if it is gone."""
    from explainers.collection.sources import sources_of

    sources = sources_of(shelved.record)
    gone = Problem(409, "input-gone", "The picture is not where it was collected.", send="Put the data back, or collect them again.")
    if sources is None:
        raise gone
    try:
        data = sources.open()
        path = None if data.folder is None else _inside(data.folder, name)
        if path is not None:
            return path.read_bytes(), _MEDIA_TYPES.get(path.suffix.lower(), "application/octet-stream")
        sample = data[index]
    except (ExplainerError, OSError, IndexError):
        raise gone from None
    if sample.image is None or sample.name != name:
        raise gone
    file = io.BytesIO()
    sample.image.save(file, "PNG")
    return file.getvalue(), "image/png"


def _inside(folder: FilePath, name: str) -> FilePath | None:
    """Return the picture file called ``name`` if it lies inside ``folder``, else None."""
    path = (folder / name).resolve()
    return path if is_picture_name(path.name) and path.is_file() and path.is_relative_to(folder.resolve()) else None


def _no_row(index: int) -> Problem:
    return Problem(404, "no-such-row", f"The collection has no picture of a row {index}.", send="GET its rows lists their indices.")
