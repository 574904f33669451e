"""Take an explanation away: its pictures, its maps as pictures and as numbers, the whole as a bundle, the lines that make it again."""

from __future__ import annotations

import hashlib
import io
import textwrap
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from PIL import Image

from explainers.methods.registry import is_control
from explainers.models.inputs.depth import GreyWindow
from explainers.models.inputs.images import to_rgb
from explainers.records.result import Attribution
from vitrine_server.export import bundle
from vitrine_server.export.file_names import as_download, download_name
from vitrine_server.export.map_formats import MAP_FORMATS, MapFormat, scores_of
from vitrine_server.export.reproduce import CLIP, WHOLE, curl_lines, is_video, pictures_in, python_lines
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import file_of
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import encode_clip, encode_image, open_clip, open_picture, unpack_files
from vitrine_server.lookup import ExplanationId, find_document, find_map, stored_file, upload_of
from vitrine_server.method_ranking import ranking_for
from vitrine_server.schemas.explanations import ExplanationSummary, PixelMap, ReproducingLines
from vitrine_server.services import Services, Use
from vitrine_server.store.map_files import pixels_name, with_pixels
from vitrine_server.store.stored_files import COPY, SEEN, TENSORS_FILE, name_of_picture

router = APIRouter(prefix="/api/explanations", tags=["taking away"], route_class=BodyRoute)
_At = Annotated[Literal["patches", "pixels"], Query(description="The scores of patches, or the map of the pixels where a method has one.")]
OVERLAY_SIDE = 448
THUMBNAIL_SIDE = 160
EXCERPT_CHARACTERS = 120  # characters of a text in its summary
#: The page that shows an explanation, by the kind of its input.
_PAGES = {"image": "/image", "clip": "/prompt", "text": "/text", "molecule": "/molecule"}


def _best_map(document: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """Return the map of ``document`` (JSON of an explanation) to show if there is room for one: for the first target, by the explanation's
    method with the best rank for this ``kind`` of input. None if it has no map except the control's.
    """
    ranking = ranking_for(kind, document["model"])
    maps = [entry for entry in document["maps"] if not is_control(entry["readout"])]
    return min(maps, key=lambda entry: (ranking and ranking.rank(entry["method"])) or len(document["maps"]) + 999, default=None)


def _scored_words(document: dict[str, Any], entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the first words of the text of ``document`` (JSON of an explanation), each with its score in the map ``entry``, divided by the
    largest magnitude of all: the sum over a word's pieces if scores are signed, else the largest of them.
    """
    merge = sum if entry["signed"] else max
    words = [
        {"text": word["text"], "score": merge(entry["scores"][token] for token in word["tokens"])}
        for word in document["input"].get("words", ())
        if word["tokens"]
    ]
    largest = max((abs(word["score"]) for word in words), default=0.0) or 1.0
    taken, length = [], 0
    for word in words:
        length += len(word["text"]) + 1
        if length > EXCERPT_CHARACTERS:
            break
        taken.append({"text": word["text"], "score": round(word["score"] / largest, 3)})
    return taken


@router.get("/{id}/summary", response_model=ExplanationSummary)
def summary(explanation_id: ExplanationId, services: Use) -> DocumentResponse:
    """Summarise the explanation with this id for a list: question and answer, without maps. ``page`` is the page that shows it.

    ``methods`` is the number of methods, ``controls`` that of random maps shown with them, ``maps`` that of all maps. ``about`` is the same
    for all explanations of one picture or text. ``map`` is the address of the picture of one map, of a molecule too; ``words`` are the
    first words of another text with their scores.
    """
    document = find_document(explanation_id, services)
    source = document.get("input", {"kind": None})
    shown = ("id", "state", "title", "created", "model", "targets", "abstention", "problem", "seconds")
    short = {name: document[name] for name in shown if name in document}
    text = source["kind"] == "text"
    prompted = any(answer.get("prompt") is not None for answer in document.get("top", ()))
    specs = {stored["method"]: is_control(stored["readout"]) for stored in document["maps"]}
    controls = sum(specs.values())
    kind = "molecule" if "molecule" in source else "text" if text else "clip" if prompted else "image"
    short |= {"page": _PAGES[kind], "maps": len(document["maps"])}
    short |= {"methods": len(specs) - controls, "controls": controls}
    best = _best_map(document, kind) if document["state"] == "done" else None
    short["specs"] = list(specs)
    if text:
        short["excerpt"] = textwrap.shorten(source["text"], EXCERPT_CHARACTERS, placeholder=" …")
        picture = stored_file(explanation_id, COPY, services) if "picture" in source else None
        short["about"] = _digest(source["text"].encode("utf-8", "replace") + (picture or b""))
        if best is not None and "drawing" in source.get("molecule", {}):
            short["map"] = _map_address(document, best, 2 * THUMBNAIL_SIDE, services)  # thin lines: for screens of two pixels a point
        elif best is not None:
            short["words"] = _scored_words(document, best)
    elif (picture := stored_file(explanation_id, COPY, services)) is not None:
        short["thumbnail"] = services.settings.address(f"/api/explanations/{explanation_id}/thumbnail.jpg")
        short["about"] = _digest(picture)
        if best is not None and stored_file(explanation_id, SEEN, services) is not None:
            short["map"] = _map_address(document, best, THUMBNAIL_SIDE, services)
    return DocumentResponse(short)


def _map_address(document: dict[str, Any], entry: dict[str, Any], size: int, services: Services) -> str:
    """Return the address of the picture, ``size`` pixels wide, of the map ``entry`` of an explanation."""
    which = f"target={quote(entry['target'], safe='')}&size={size}"
    return services.settings.address(f"/api/explanations/{document['id']}/maps/{quote(entry['method'], safe='')}.png?{which}")


def _digest(data: bytes) -> str:
    """Return a short digest, 16 hexadecimal digits, of the bytes ``data`` of an input; different inputs have different ones."""
    return hashlib.sha256(data).hexdigest()[:16]


@router.get("/{id}/thumbnail.jpg", response_class=Response, responses=file_of("image/jpeg"))
def thumbnail(explanation_id: ExplanationId, services: Use, request: Request) -> Response:
    """Return the uploaded picture of the explanation with this id, upright, as a small JPEG."""
    data = _stored_file(explanation_id, COPY, services)
    with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
        image.draft("RGB", (THUMBNAIL_SIDE, THUMBNAIL_SIDE))
        return _answer_cached(request, encode_image(image, "JPEG", THUMBNAIL_SIDE), "image/jpeg")


@router.get("/{id}/{name}.png", response_class=Response, responses=file_of("image/png"))
def model_input_png(explanation_id: ExplanationId, name: str, services: Use, request: Request) -> Response:
    """Return ``input.png`` of the explanation with this id: the pixels that the model saw, before normalisation. Of the second picture of a
    prompt it is ``input-2.png``.
    """
    return _answer_cached(request, _stored_file(explanation_id, f"{name}.png", services), "image/png")


@router.get("/{id}/{name}.jpg", response_class=Response, responses=file_of("image/jpeg"))
def original(explanation_id: ExplanationId, name: str, services: Use, request: Request) -> Response:
    """Return ``original.jpg`` of the explanation with this id: a copy of the uploaded picture, upright. Of the second picture of a prompt
    it is ``original-2.jpg``.
    """
    return _answer_cached(request, _stored_file(explanation_id, f"{name}.jpg", services), "image/jpeg")


@router.get("/{id}/tensors.safetensors", response_class=Response, responses=file_of("application/octet-stream"))
def tensors(explanation_id: ExplanationId, services: Use, request: Request) -> Response:
    """Return the tensors that the model read for the explanation with this id, bit for bit, as a file; ``explainers.explain`` accepts them
    as input.
    """
    return _answer_cached(request, _stored_file(explanation_id, TENSORS_FILE, services), "application/octet-stream")


def _answer_cached(request: Request, data: bytes, media: str) -> Response:
    """Answer the ``request`` with a file, the bytes ``data`` of the media type ``media``, that a browser may cache but must revalidate each
    time, so that a deleted file is not shown again.
    """
    headers = {"Cache-Control": "private, no-cache", "ETag": f'"{_digest(data)}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media, headers=headers)


def _stored_file(explanation_id: str, name: str, services: Services) -> bytes:
    """Return the bytes of the file ``name`` that is stored with the explanation with this id. Raises Problem 404 if there is none."""
    document = find_document(explanation_id, services)
    data = stored_file(explanation_id, name, services)
    if data is None:
        send = f"Read it once the state is done; it is {document['state']} now. Texts have no pictures of their input."
        raise Problem(404, "no-such-picture", f"The explanation has no {name}.", send=send)
    return data


@router.get("/{id}/maps/{spec:path}.png", response_class=Response, responses=file_of("image/png"))
def map_picture(
    explanation_id: ExplanationId,
    spec: str,
    services: Use,
    target: str | None = None,
    size: Annotated[int, Query(ge=64, le=2048)] = OVERLAY_SIDE,
    at: _At = "patches",
) -> Response:
    """Return the map of the method ``spec`` of one explanation, by its id, as a PNG of ``size`` pixels: in colours over the grey input, or
    a text with its words coloured. ``target`` is a label, by default the first.
    """
    document, entry = find_map(explanation_id, spec, target, services)
    pixels = np.load(io.BytesIO(_pixels(explanation_id, entry, services))) if at == "pixels" else None
    data = bundle.picture(document, entry, lambda name: stored_file(explanation_id, name, services), size, pixels)
    return Response(data, media_type="image/png")


def _numbers(kind: MapFormat) -> Callable[..., Response]:
    """Return the API call that answers with a map as a file of the format ``kind``."""

    def map_numbers(explanation_id: ExplanationId, spec: str, services: Use, target: str | None = None, at: _At = "patches") -> Response:
        """Return the scores of the map of the method ``spec`` of one explanation, by its id, as a file, float32: (rows, columns) of
        patches, or one a token; with ``at=pixels`` (height, width). ``target`` is a label, by default the first.
        """
        document, entry = find_map(explanation_id, spec, target, services)
        values = np.load(io.BytesIO(_pixels(explanation_id, entry, services))) if at == "pixels" else scores_of(entry)
        about = {**document, "targets": [each for each in document["targets"] if each["label"] == entry["target"]]}
        headers = as_download(f"{download_name(about, entry['title'])}.{kind.ending}")
        return Response(kind.write(values), media_type=kind.media_type, headers=headers)

    return map_numbers


for _kind in MAP_FORMATS:
    router.get(f"/{{id}}/maps/{{spec:path}}.{_kind.ending}", response_class=Response, responses=file_of(_kind.media_type))(_numbers(_kind))


@router.get("/{id}/maps/{spec:path}.json", response_model=Attribution | PixelMap)
def map_json(explanation_id: ExplanationId, spec: str, services: Use, target: str | None = None, at: _At = "patches") -> JSONResponse:
    """Return the map of the method ``spec`` for ``target`` (a label, by default the first) of one explanation, by its id, as JSON, as in
    the explanation; with ``at=pixels`` its ``scores`` are rows of pixels instead of a list of patches.
    """
    _, entry = find_map(explanation_id, spec, target, services)
    if at == "pixels":
        values = np.load(io.BytesIO(_pixels(explanation_id, entry, services)))
        rest = {name: value for name, value in entry.items() if name != "grid"}
        of_pixels = {**rest, "scores": values.tolist(), "range": [float(values.min()), float(values.max())]}
        return JSONResponse(of_pixels)  # it was not checked for NaN, and JSONResponse refuses that
    return DocumentResponse(entry)


def _pixels(explanation_id: str, entry: dict[str, Any], services: Services) -> bytes:
    """Return the map by pixel of ``entry``, a map in the JSON of the explanation with this id, from the store, as the bytes of a NumPy
    file. Raises Problem 404 for a method that has none: it is never interpolated from patches.
    """
    data = stored_file(explanation_id, pixels_name(entry["method"], entry["target"]), services) if "pixels" in entry else None
    if data is None:
        detail = f"{entry['method']} has one score for each patch and no map of the pixels."
        raise Problem(404, "no-pixels", detail, send=f"Leave at out, or explain with a method that goes back to them: {with_pixels()}.")
    return data


@router.get("/{id}/code", response_model=ReproducingLines)
def code(explanation_id: ExplanationId, request: Request, services: Use) -> DocumentResponse:
    """Return the lines of ``python`` and ``curl`` that compute the explanation with this id again, from the input stored on this server.
    Raises Problem 409 until it is done.
    """
    document = _finished_document(explanation_id, services)
    server = str(request.base_url).rstrip("/")
    address = f"{server}/api/explanations/{explanation_id}"
    exact = stored_file(explanation_id, TENSORS_FILE, services) is not None
    return DocumentResponse({"python": python_lines(document, address, exact=exact), "curl": curl_lines(document, server)})


@router.get("/{id}/bundle.zip", response_class=StreamingResponse, responses=file_of("application/zip"))
def zip_file(explanation_id: ExplanationId, request: Request, services: Use) -> StreamingResponse:
    """Return one zip file of the explanation with this id: with the input, the scores and picture of every map, the versions, and the lines
    that compute the explanation again.
    """
    document = _finished_document(explanation_id, services)
    maps = [pixels_name(entry["method"], entry["target"]) for entry in document["maps"] if "pixels" in entry]
    pictures = [name_of_picture(name, number) for name in (SEEN, COPY) for number in range(pictures_in(document["input"]))]
    stored = {name: data for name in (*pictures, TENSORS_FILE, *maps) if (data := stored_file(explanation_id, name, services)) is not None}
    upload = upload_of(explanation_id, services)
    if upload is not None and ("frames" in document["input"] or is_video(document["input"])):
        stored[CLIP] = encode_clip(open_clip(upload, services.settings))
    elif upload is not None:
        window = document["input"].get("window")
        for number, file in enumerate(unpack_files(upload, services.settings)):
            shown = to_rgb(open_picture(file, services.settings), None if window is None else GreyWindow(**window))
            stored[name_of_picture(WHOLE, number)] = encode_image(shown, "PNG")
    entries = bundle.files(document, stored, str(request.base_url).rstrip("/"), services.settings.max_upload_bytes)
    stream = bundle.zip_entries(entries, datetime.fromisoformat(document["created"]))
    headers = as_download(f"{download_name(document)}.zip")
    return StreamingResponse(stream, media_type="application/zip", headers=headers)


def _finished_document(explanation_id: str, services: Services) -> dict[str, Any]:
    """Return the document (JSON) of the explanation with this id. Raises Problem 409 unless it is done."""
    document = find_document(explanation_id, services)
    if document["state"] != "done":
        raise Problem(
            409, "not-done", f"The explanation is {document['state']}, not done.", send="Ask again when the explanation's state is done."
        )
    return document
