"""Uploads that cannot hurt: a byte limit while reading, a list of formats, a pixel limit before decoding, and a fresh encoding."""

from __future__ import annotations

import io
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from PIL import Image, ImageOps, UnidentifiedImageError
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.types import Message

from explainers.models.inputs.images import FORMATS, in_words, to_rgb
from server.http.limits import limits
from server.http.problems import Problem
from server.settings import Settings

_FORM_ROOM = 1_000_000  # bytes of a request beside its image: names, targets, a text, boundaries
_HEIF_HEADS = {b"ftyp" + brand for brand in (b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1", b"avif", b"avis")}
_DRAIN = 10  # a body this many times over the limit is read and dropped, so that the client gets to read the answer
SEND_IMAGE = f"Send a {in_words(FORMATS)} file; HEIF files are those named .heic."


def forbid_bombs() -> None:
    """Make Pillow's decompression-bomb warning an error, for the whole process."""
    warnings.simplefilter("error", Image.DecompressionBombWarning)


def _too_large(settings: Settings) -> Problem:
    return limits(settings)["upload"].problem()


@asynccontextmanager
async def read_form(request: Request, settings: Settings) -> AsyncIterator[FormData]:
    """The form of ``request``, its bytes counted as they arrive; its temporary files are gone afterwards.

    Raises Problem 413 where they pass the limit, 415 where the body is no form, 400 where it is a broken one.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {"multipart/form-data", "application/x-www-form-urlencoded"}:
        raise Problem(415, "not-a-form", f"The body is {kind or 'of no stated type'}.", send="Send a multipart/form-data form.")
    limit = settings.max_upload_bytes + _FORM_ROOM
    count = 0

    async def counted() -> Message:
        nonlocal count
        message = await request.receive()
        count += len(message.get("body", b""))
        if count > limit:
            while message.get("more_body") and count < limit * _DRAIN:
                message = await request.receive()
                count += len(message.get("body", b""))
            raise MultiPartException("too large")  # the one exception on which the parser drops its temporary files
        return message

    try:
        fields = 2 * (settings.max_methods + settings.max_targets) + 50  # who sends a little too many is told which
        form = await Request(request.scope, counted).form(max_files=4, max_fields=fields, max_part_size=limit)
    except HTTPException as error:
        if count > limit:
            raise _too_large(settings) from None
        raise Problem(400, "broken-form", f"The form cannot be read: {error.detail}", send="Send a multipart/form-data form.") from error
    try:
        yield form
    finally:
        await form.close()


def open_image(data: bytes, settings: Settings) -> Image.Image:
    """The first frame of an image file, upright, RGB, 8 bit; transparency on white.

    Raises Problem 413 over the byte or pixel limit, 415 for another format, 422 for a file that cannot be decoded.
    """
    if len(data) > settings.max_upload_bytes:
        raise _too_large(settings)
    if not data:
        raise Problem(422, "empty-file", "The image file is empty.", send=SEND_IMAGE)
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError as error:
        if data[4:12] in _HEIF_HEADS:  # no decoder takes up what is cut off within its header
            raise _broken(EOFError("it ends before its picture begins")) from error
        svg = b"<svg" in data[:4096].lower()
        detail = "SVG is not accepted." if svg else "The file is not an image of a known format."
        raise Problem(415, "unknown-image-format", detail, send=SEND_IMAGE) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_many_pixels(settings) from None
    except Exception as error:
        raise _broken(error) from error
    if image.width * image.height > settings.max_pixels:  # known from the header: nothing is decoded yet
        raise _too_many_pixels(settings)
    try:
        image.load()
        return to_rgb(ImageOps.exif_transpose(image))
    except Exception as error:  # decoders raise whatever they like on broken data
        raise _broken(error) from error


def _too_many_pixels(settings: Settings) -> Problem:
    return limits(settings)["pixels"].problem()


def _broken(error: Exception) -> Problem:
    detail = f"The image cannot be decoded: {error or type(error).__name__}."
    return Problem(422, "broken-image", detail, send="Send a complete image file; saving it again in an image editor helps.")


def encoded(image: Image.Image, kind: str, longest: int | None = None) -> bytes:
    """``image`` as a fresh ``PNG`` or ``JPEG`` file with no metadata, its longest side at most ``longest`` pixels."""
    plain = image.copy()
    if longest is not None:
        plain.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    plain.info.clear()
    buffer = io.BytesIO()
    plain.save(buffer, kind, **({"quality": 90} if kind == "JPEG" else {}))
    return buffer.getvalue()
