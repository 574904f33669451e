"""Take an explanation away: its pictures, its maps as pictures and as numbers."""

from __future__ import annotations

import io
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response
from PIL import Image

from server.lookup import find_document, find_map, stored_file
from server.problems import Problem
from server.services import Services, Use

router = APIRouter(prefix="/api/explanations", tags=["taking away"])
OVERLAY_SIDE = 448


@router.get("/{one}/{name}.png", response_class=Response)
def seen(one: str, name: str, services: Use) -> Response:
    """``input.png``: the part of the image that the model saw, upright."""
    return _picture(one, f"{name}.png", "image/png", services)


@router.get("/{one}/{name}.jpg", response_class=Response)
def original(one: str, name: str, services: Use) -> Response:
    """``original.jpg``: the upload, upright."""
    return _picture(one, f"{name}.jpg", "image/jpeg", services)


def _picture(one: str, name: str, media: str, services: Services) -> Response:
    document = find_document(one, services)
    data = stored_file(one, name, services)
    if data is None:
        send = f"Read it once the state is done; it is {document['state']} now. Texts have no pictures of their input."
        raise Problem(404, "no-such-picture", f"The explanation has no {name}.", send=send)
    return Response(data, media_type=media, headers={"Cache-Control": "private, max-age=3600"})


@router.get("/{one}/maps/{spec:path}.png", response_class=Response)
def map_picture(
    one: str, spec: str, services: Use, target: str | None = None, size: Annotated[int, Query(ge=64, le=2048)] = OVERLAY_SIDE
) -> Response:
    """One map in colours over the input in grey; a text with its words coloured. ``target``: a label, the first one by default."""
    document, found = find_map(one, spec, target, services)
    stored = stored_file(one, "input.png", services)
    base = None if stored is None else Image.open(io.BytesIO(stored), formats=("PNG",))
    buffer = io.BytesIO()
    services.engine.overlay(document, found, base, size).save(buffer, "PNG")
    return Response(buffer.getvalue(), media_type="image/png")


@router.get("/{one}/maps/{spec:path}.npy", response_class=Response)
def map_numbers(one: str, spec: str, services: Use, target: str | None = None) -> Response:
    """The numbers of one map as a NumPy file, float32: (rows, columns) of patches, or one a token."""
    _, found = find_map(one, spec, target, services)
    scores = np.asarray(found["scores"], dtype=np.float32)
    buffer = io.BytesIO()
    np.save(buffer, scores.reshape(found["grid"]) if found.get("grid") else scores)
    return Response(buffer.getvalue(), media_type="application/octet-stream")
