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
from server.export import bundle
from server.export.map_formats import MAP_FORMATS, MapFormat, scores_of
from server.export.reproduce import CLIP, PICTURE, SEEN, WHOLE, curl_lines, python_lines
from server.http.answers import DocumentResponse
from server.http.bodies import BodyRoute
from server.http.openapi import file_of
from server.http.problems import Problem
from server.http.uploads import encode_clip, encode_image, open_clip, open_picture
from server.lookup import ExplanationId, find_document, find_map, stored_file, upload_of
from server.method_ranking import ranking_for
from server.schemas.explanations import ExplanationSummary, Map, PixelMap, ReproducingLines
from server.services import Services, Use
from server.store.map_files import pixels_name, with_pixels
from server.store.stored_files import TENSORS_FILE

router = APIRouter(prefix="/api/explanations", tags=["taking away"], route_class=BodyRoute)
_At = Annotated[Literal["patches", "pixels"], Query(description="The scores of patches, or the map of the pixels where a method has one.")]
OVERLAY_SIDE = 448
THUMBNAIL_SIDE = 160
EXCERPT = 120  # characters of a text in its summary
#: Where an explanation is looked at, by the kind of its input.
_PAGES = {"image": "/image", "clip": "/prompt", "text": "/text", "molecule": "/molecule"}


def _best_map(document: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """The map of a finished explanation that is shown where there is room for one: of its methods that which stands first in the run
    by which they are ranked, for the first target. None where it has no map but the control's.
    """
    ranking = ranking_for(kind, document["model"])
    maps = [entry for entry in document["maps"] if not is_control(entry["readout"])]
    return min(maps, key=lambda entry: (ranking and ranking.rank(entry["method"])) or len(document["maps"]) + 999, default=None)


def _scored_words(document: dict[str, Any], entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The first words of a text, each with its score over the largest magnitude of all: the sum over a word's pieces where scores are
    signed, else the largest.
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
        if length > EXCERPT:
            break
        taken.append({"text": word["text"], "score": round(word["score"] / largest, 3)})
    return taken


@router.get("/{id}/summary", response_model=ExplanationSummary)
def summary(explanation_id: ExplanationId, services: Use) -> DocumentResponse:
    """What a list of explanations shows of one: the question and the answer, without maps. ``page``: where it can be looked at.

    ``methods`` explained it, ``controls`` are the random maps beside them, and each may have several ``maps``. ``about`` is the same
    for all explanations of one picture or text. ``map`` is the address of the picture of one map, ``words`` are the first ones of a
    text with their scores.
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
        short["excerpt"] = textwrap.shorten(source["text"], EXCERPT, placeholder=" …")
        beside = stored_file(explanation_id, PICTURE, services) if "picture" in source else None
        short["about"] = _digest(source["text"].encode("utf-8", "replace") + (beside or b""))
        if best is not None:
            short["words"] = _scored_words(document, best)
    elif (picture := stored_file(explanation_id, PICTURE, services)) is not None:
        short["thumbnail"] = services.settings.address(f"/api/explanations/{explanation_id}/thumbnail.jpg")
        short["about"] = _digest(picture)
        if best is not None and stored_file(explanation_id, SEEN, services) is not None:
            which = f"target={quote(best['target'], safe='')}&size={THUMBNAIL_SIDE}"
            path = f"/api/explanations/{explanation_id}/maps/{quote(best['method'], safe='')}.png?{which}"
            short["map"] = services.settings.address(path)
    return DocumentResponse(short)


def _digest(data: bytes) -> str:
    """What tells one input from another, short."""
    return hashlib.sha256(data).hexdigest()[:16]


@router.get("/{id}/thumbnail.jpg", response_class=Response, responses=file_of("image/jpeg"))
def thumbnail(explanation_id: ExplanationId, services: Use, request: Request) -> Response:
    """The upload, upright and small."""
    data = _stored_file(explanation_id, PICTURE, services)
    with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
        image.draft("RGB", (THUMBNAIL_SIDE, THUMBNAIL_SIDE))
        return _cached(request, encode_image(image, "JPEG", THUMBNAIL_SIDE), "image/jpeg")


@router.get("/{id}/{name}.png", response_class=Response, responses=file_of("image/png"))
def model_input_png(explanation_id: ExplanationId, name: str, services: Use, request: Request) -> Response:
    """``input.png``: the pixels that the model saw, before they were normalised."""
    return _cached(request, _stored_file(explanation_id, f"{name}.png", services), "image/png")


@router.get("/{id}/{name}.jpg", response_class=Response, responses=file_of("image/jpeg"))
def original(explanation_id: ExplanationId, name: str, services: Use, request: Request) -> Response:
    """``original.jpg``: the upload, upright."""
    return _cached(request, _stored_file(explanation_id, f"{name}.jpg", services), "image/jpeg")


@router.get("/{id}/tensors.safetensors", response_class=Response, responses=file_of("application/octet-stream"))
def tensors(explanation_id: ExplanationId, services: Use, request: Request) -> Response:
    """What the model was given, to the last bit: ``explainers.explain`` takes it."""
    return _cached(request, _stored_file(explanation_id, TENSORS_FILE, services), "application/octet-stream")


def _cached(request: Request, data: bytes, media: str) -> Response:
    """A file that a browser may keep, if it asks each time whether it is there still: one that is deleted is not shown again."""
    headers = {"Cache-Control": "private, no-cache", "ETag": f'"{_digest(data)}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=media, headers=headers)


def _stored_file(explanation_id: str, name: str, services: Services) -> bytes:
    """A file that is kept beside an explanation; raises Problem 404."""
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
    """One map in colours over the input in grey; a text with its words coloured. ``target``: a label, the first one by default."""
    document, entry = find_map(explanation_id, spec, target, services)
    pixels = np.load(io.BytesIO(_pixels(explanation_id, entry, services))) if at == "pixels" else None
    data = bundle.picture(document, entry, stored_file(explanation_id, SEEN, services), size, pixels)
    return Response(data, media_type="image/png")


def _numbers(kind: MapFormat) -> Callable[..., Response]:
    """The call that answers with a map as a file of this format."""

    def map_numbers(explanation_id: ExplanationId, spec: str, services: Use, target: str | None = None, at: _At = "patches") -> Response:
        """The numbers of one map as a file, float32: (rows, columns) of patches, or one a token; of the pixels (height, width)."""
        _, entry = find_map(explanation_id, spec, target, services)
        values = np.load(io.BytesIO(_pixels(explanation_id, entry, services))) if at == "pixels" else scores_of(entry)
        return Response(kind.write(values), media_type=kind.media_type)

    return map_numbers


for _kind in MAP_FORMATS:
    router.get(f"/{{id}}/maps/{{spec:path}}.{_kind.ending}", response_class=Response, responses=file_of(_kind.media_type))(_numbers(_kind))


@router.get("/{id}/maps/{spec:path}.json", response_model=Map | PixelMap)
def map_json(explanation_id: ExplanationId, spec: str, services: Use, target: str | None = None, at: _At = "patches") -> JSONResponse:
    """One map as it stands in the explanation; with ``at=pixels`` its ``scores`` are rows of pixels in place of a list of patches."""
    _, entry = find_map(explanation_id, spec, target, services)
    if at == "pixels":
        values = np.load(io.BytesIO(_pixels(explanation_id, entry, services)))
        rest = {name: value for name, value in entry.items() if name != "grid"}
        of_pixels = {**rest, "scores": values.tolist(), "range": [float(values.min()), float(values.max())]}
        return JSONResponse(of_pixels)  # nobody has looked for a NaN in it, and this refuses one
    return DocumentResponse(entry)


def _pixels(explanation_id: str, entry: dict[str, Any], services: Services) -> bytes:
    """The map of the pixels as a NumPy file; raises Problem 404 for a method that has none: it is never made up from patches."""
    data = stored_file(explanation_id, pixels_name(entry["method"], entry["target"]), services) if "pixels" in entry else None
    if data is None:
        detail = f"{entry['method']} has one score a patch and no map of the pixels."
        raise Problem(404, "no-pixels", detail, send=f"Leave at out, or explain with a method that goes back to them: {with_pixels()}.")
    return data


@router.get("/{id}/code", response_model=ReproducingLines)
def code(explanation_id: ExplanationId, request: Request, services: Use) -> DocumentResponse:
    """``python`` and ``curl``: the lines that make the explanation again, of the input that this server keeps."""
    document = _finished(explanation_id, services)
    server = str(request.base_url).rstrip("/")
    address = f"{server}/api/explanations/{explanation_id}"
    exact = stored_file(explanation_id, TENSORS_FILE, services) is not None
    return DocumentResponse({"python": python_lines(document, address, exact=exact), "curl": curl_lines(document, server)})


@router.get("/{id}/bundle.zip", response_class=StreamingResponse, responses=file_of("application/zip"))
def zip_file(explanation_id: ExplanationId, request: Request, services: Use) -> StreamingResponse:
    """The input, the numbers and pictures of every map, versions, and the lines that make it again, as one zip file."""
    document = _finished(explanation_id, services)
    maps = [pixels_name(entry["method"], entry["target"]) for entry in document["maps"] if "pixels" in entry]
    stored = {
        name: data for name in (SEEN, PICTURE, TENSORS_FILE, *maps) if (data := stored_file(explanation_id, name, services)) is not None
    }
    upload = upload_of(explanation_id, services)
    if upload is not None and "frames" in document["input"]:
        stored[CLIP] = encode_clip(open_clip(upload, services.settings))
    elif upload is not None:
        window = document["input"].get("window")
        shown = to_rgb(open_picture(upload, services.settings), None if window is None else GreyWindow(**window))
        stored[WHOLE] = encode_image(shown, "PNG")
    entries = bundle.files(document, stored, str(request.base_url).rstrip("/"), services.settings.max_upload_bytes)
    stream = bundle.zipped(entries, datetime.fromisoformat(document["created"]))
    headers = {"Content-Disposition": f'attachment; filename="vitrine-{explanation_id}.zip"'}
    return StreamingResponse(stream, media_type="application/zip", headers=headers)


def _finished(explanation_id: str, services: Services) -> dict[str, Any]:
    """The explanation; raises Problem 409 unless it is done."""
    document = find_document(explanation_id, services)
    if document["state"] != "done":
        raise Problem(409, "not-done", f"The explanation is {document['state']}, not done.", send="Ask once its state is done.")
    return document
