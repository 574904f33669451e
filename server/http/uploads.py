"""Pictures that cannot hurt: a byte limit, a list of formats, a pixel limit before decoding, and a fresh encoding."""

from __future__ import annotations

import io
import warnings

from PIL import Image, ImageOps, UnidentifiedImageError

from explainers.errors import ExplainerError
from explainers.models.inputs.depth import is_deep, is_dicom, read_dicom
from explainers.models.inputs.images import FORMATS, in_words, to_rgb
from server.http.limits import limits
from server.http.problems import Problem
from server.settings import Settings

_HEIF_HEADS = {b"ftyp" + brand for brand in (b"heic", b"heix", b"heim", b"heis", b"mif1", b"msf1", b"avif", b"avis")}
SEND_IMAGE = f"Send a {in_words(FORMATS)} file; HEIF files are those named .heic."


def forbid_bombs() -> None:
    """Make Pillow's decompression-bomb warning an error, for the whole process."""
    warnings.simplefilter("error", Image.DecompressionBombWarning)


def _too_large(settings: Settings) -> Problem:
    return limits(settings)["upload"].problem()


def open_picture(data: bytes, settings: Settings) -> Image.Image:
    """The first frame of an image file, or a slice of DICOM, upright; RGB, transparency on white, but for greys of more than 8 bits.

    Raises Problem 413 over the byte or pixel limit, 415 for another format, 422 for a file that cannot be decoded.
    """
    if len(data) > settings.max_upload_bytes:
        raise _too_large(settings)
    if not data:
        raise Problem(422, "empty-file", "The image file is empty.", send=SEND_IMAGE)
    if is_dicom(data[:132]):
        return _slice(data, settings)
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
    except MemoryError:  # the picture is not broken
        raise
    except Exception as error:
        raise _broken(error) from error
    if image.width * image.height > settings.max_pixels:  # known from the header: nothing is decoded yet
        raise _too_many_pixels(settings)
    try:
        image.load()
        upright = ImageOps.exif_transpose(image)
        return upright if is_deep(upright) else to_rgb(upright)
    except MemoryError:
        raise
    except Exception as error:  # decoders raise whatever they like on broken data
        raise _broken(error) from error


def _slice(data: bytes, settings: Settings) -> Image.Image:
    try:
        return read_dicom(io.BytesIO(data), "the file", settings.max_pixels)
    except ExplainerError as error:
        raise Problem(422, "broken-image", f"{error}.", send="Send one uncompressed grey slice, or save it as a PNG of 16 bits.") from None


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
