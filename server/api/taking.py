"""Take an explanation away: its pictures, its maps as pictures and as numbers, the whole as a bundle, the lines that make it again."""

from __future__ import annotations

import io
import textwrap
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from PIL import Image

from server import bundle
from server.again import PICTURE, SEEN, curl_lines, python_lines
from server.lookup import find_document, find_map, stored_file
from server.problems import Problem
from server.services import Services, Use
from server.store import TENSORS
from server.uploads import encoded

router = APIRouter(prefix="/api/explanations", tags=["taking away"])
OVERLAY_SIDE = 448
THUMBNAIL_SIDE = 160
EXCERPT = 120  # characters of a text in its summary


@router.get("/{one}/summary")
def summary(one: str, services: Use) -> JSONResponse:
    """What a list of explanations shows of one: the question and the answer, without maps. ``page``: where it can be looked at."""
    document = find_document(one, services)
    told = document.get("input", {"kind": None})
    shown = ("id", "state", "created", "model", "targets", "problem", "seconds")
    short = {name: document[name] for name in shown if name in document}
    text = told["kind"] == "text"
    prompted = any(one.get("prompt") is not None for one in document.get("top", ()))
    short |= {"page": "/text" if text else "/prompt" if prompted else "/image", "maps": len(document["maps"])}
    if text:
        short["excerpt"] = textwrap.shorten(told["text"], EXCERPT, placeholder=" …")
    elif stored_file(one, PICTURE, services) is not None:
        short["thumbnail"] = f"/api/explanations/{one}/thumbnail.jpg"
    return JSONResponse(short)


@router.get("/{one}/thumbnail.jpg", response_class=Response)
def thumbnail(one: str, services: Use) -> Response:
    """The upload, upright and small."""
    data = _kept(one, PICTURE, services)
    with Image.open(io.BytesIO(data), formats=("JPEG",)) as image:
        image.draft("RGB", (THUMBNAIL_SIDE, THUMBNAIL_SIDE))
        return _cached(encoded(image, "JPEG", THUMBNAIL_SIDE), "image/jpeg")


@router.get("/{one}/{name}.png", response_class=Response)
def seen(one: str, name: str, services: Use) -> Response:
    """``input.png``: the part of the image that the model saw, upright."""
    return _cached(_kept(one, f"{name}.png", services), "image/png")


@router.get("/{one}/{name}.jpg", response_class=Response)
def original(one: str, name: str, services: Use) -> Response:
    """``original.jpg``: the upload, upright."""
    return _cached(_kept(one, f"{name}.jpg", services), "image/jpeg")


@router.get("/{one}/tensors.safetensors", response_class=Response)
def tensors(one: str, services: Use) -> Response:
    """What the model was given, to the last bit: ``explainers.explain`` takes it."""
    return _cached(_kept(one, TENSORS, services), "application/octet-stream")


def _cached(data: bytes, media: str) -> Response:
    return Response(data, media_type=media, headers={"Cache-Control": "private, max-age=3600"})


def _kept(one: str, name: str, services: Services) -> bytes:
    """A file that is kept beside an explanation; raises Problem 404."""
    document = find_document(one, services)
    data = stored_file(one, name, services)
    if data is None:
        send = f"Read it once the state is done; it is {document['state']} now. Texts have no pictures of their input."
        raise Problem(404, "no-such-picture", f"The explanation has no {name}.", send=send)
    return data


@router.get("/{one}/maps/{spec:path}.png", response_class=Response)
def map_picture(
    one: str, spec: str, services: Use, target: str | None = None, size: Annotated[int, Query(ge=64, le=2048)] = OVERLAY_SIDE
) -> Response:
    """One map in colours over the input in grey; a text with its words coloured. ``target``: a label, the first one by default."""
    document, found = find_map(one, spec, target, services)
    data = bundle.picture(document, found, stored_file(one, SEEN, services), services.engine, size)
    return Response(data, media_type="image/png")


@router.get("/{one}/maps/{spec:path}.npy", response_class=Response)
def map_numbers(one: str, spec: str, services: Use, target: str | None = None) -> Response:
    """The numbers of one map as a NumPy file, float32: (rows, columns) of patches, or one a token."""
    _, found = find_map(one, spec, target, services)
    return Response(bundle.numbers(found), media_type="application/octet-stream")


@router.get("/{one}/code")
def code(one: str, request: Request, services: Use) -> JSONResponse:
    """``python`` and ``curl``: the lines that make the explanation again, fetching a picture from this server."""
    document = _finished(one, services)
    server = str(request.base_url).rstrip("/")
    address = f"{server}/api/explanations/{one}"
    exact = stored_file(one, TENSORS, services) is not None
    return JSONResponse({"python": python_lines(document, address, exact=exact), "curl": curl_lines(document, server, address)})


@router.get("/{one}/bundle.zip", response_class=StreamingResponse)
def zip_file(one: str, request: Request, services: Use) -> StreamingResponse:
    """The input, the numbers and pictures of every map, versions, and the lines that make it again, as one zip file."""
    document = _finished(one, services)
    kept = {name: data for name in (SEEN, PICTURE, TENSORS) if (data := stored_file(one, name, services)) is not None}
    entries = bundle.files(document, kept, services.engine, str(request.base_url).rstrip("/"))
    stream = bundle.zipped(entries, datetime.fromisoformat(document["created"]))
    headers = {"Content-Disposition": f'attachment; filename="vitrine-{one}.zip"'}
    return StreamingResponse(stream, media_type="application/zip", headers=headers)


def _finished(one: str, services: Services) -> dict[str, Any]:
    """The explanation ``one``; raises Problem 409 unless it is done."""
    document = find_document(one, services)
    if document["state"] != "done":
        raise Problem(409, "not-done", f"The explanation is {document['state']}, not done.", send="Ask once its state is done.")
    return document
