"""Pictures and clips that cannot hurt: a byte limit, a list of formats, a pixel limit before decoding, and a fresh encoding."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

from explainers.errors import ExplainerError
from explainers.models.inputs.depth import is_deep, is_dicom, read_dicom
from explainers.models.inputs.heif import BRANDS_BYTES, can_read_heif, heif_not_installed, is_heif_or_avif, needs_heif
from explainers.models.inputs.images import FORMATS, join_with_or, to_rgb
from explainers.models.inputs.sounds import draw_wave, is_sound_file, read_sound
from explainers.models.inputs.types import Clip, Sound
from vitrine_server.http.archives import ZipBounds, unpack_zip
from vitrine_server.http.limits import Limit, limits
from vitrine_server.http.problems import Problem
from vitrine_server.settings import Settings

_VIDEO_HEADS = (b"ftyp", b"moov", b"AVI ")  # MP4, MOV, AVI, behind the first bytes; Matroska and WebM begin with those below
_MATROSKA_HEAD = b"\x1a\x45\xdf\xa3"
_ZIP_HEAD = b"PK\x03\x04"
SEND_IMAGE = f"Send a {join_with_or(FORMATS)} file{'; HEIF files are those named .heic' if 'HEIF' in FORMATS else ''}."
SEND_SOUND = "Send a .wav file."
SEND_CLIP = "Send an animated GIF, WebP or PNG, or the field image once for each frame: a picture file each, in the order of time."


def forbid_bombs() -> None:
    """Turn Pillow's decompression-bomb warning into an error, for the whole process."""
    warnings.simplefilter("error", Image.DecompressionBombWarning)


def _too_large(settings: Settings) -> Problem:
    return limits(settings)["upload"].problem()


def open_picture(data: bytes, settings: Settings) -> Image.Image:
    """Decode the first frame of an image file, or a slice of DICOM, the bytes ``data``, upright: as RGB with transparency on white, or as
    greys of more than 8 bits. Of a .wav file its wave is drawn.

    Raises Problem 413 over the byte or pixel limit, 415 for another format, 422 for a file that cannot be decoded.
    """
    if is_packed(data):
        return open_picture(_unpack(data, settings)[0], settings)
    if is_sound_file(data[:12]):
        return draw_wave(open_sound(data, settings))
    if is_dicom(data[:132]) and len(data) <= settings.max_upload_bytes:
        return _slice(data, settings)
    image = _open_upload(data, settings)
    try:
        image.load()
        upright = ImageOps.exif_transpose(image)
        return upright if is_deep(upright) else to_rgb(upright)
    except MemoryError:
        raise
    except Exception as error:  # decoders raise whatever they like on broken data
        raise _broken(error) from error


def open_sound(data: bytes, settings: Settings) -> Sound:
    """Decode a .wav file, the bytes ``data``, as one channel. Raises Problem 413 over the byte limit, 415 for another format, 422 for a
    file that cannot be decoded.
    """
    if len(data) > settings.max_upload_bytes:
        raise _too_large(settings)
    if not is_sound_file(data[:12]):
        raise Problem(415, "unknown-sound-format", "The model takes sounds, and the file is none of a known format.", send=SEND_SOUND)
    try:
        return read_sound(data)
    except ExplainerError as error:
        raise Problem(422, "broken-sound", f"The sound cannot be decoded: {error}.", send=SEND_SOUND) from None


def open_pictures(data: bytes, settings: Settings) -> list[Image.Image]:
    """Decode the pictures of a prompt, one or several packed in the file ``data``, in their order, each as :func:`open_picture` does.

    Raises Problem 422 if they are too many, 413 if all together exceed the pixel limit, and the Problems of :func:`open_picture`.
    """
    files, known = unpack_files(data, settings), limits(settings)
    if len(files) > known["pictures"].most:
        raise known["pictures"].problem(len(files))
    return _open_all(files, settings, known["pixels_of_pictures"])


def _open_all(files: Sequence[bytes], settings: Settings, most: Limit) -> list[Image.Image]:
    """Decode ``files``, each as :func:`open_picture` does. Raises Problem 413 as soon as they exceed a limit of pixels, ``most``, together,
    and the Problems of :func:`open_picture`.
    """
    pictures: list[Image.Image] = []
    for file in files:
        pictures.append(open_picture(file, settings))
        if sum(picture.width * picture.height for picture in pictures) > most.most:
            raise most.problem()
    return pictures


def open_alone(data: bytes, settings: Settings, details: Mapping[str, Any]) -> Image.Image | Clip | Sound:
    """Decode the file ``data``, which is sent without a text, as what the model with these ``details`` reads: a picture, a clip or a sound.
    Raises the Problems of :func:`open_picture`, :func:`open_clip` and :func:`open_sound`.
    """
    if details.get("frames") is not None:
        return Clip(open_clip(data, settings))
    return open_picture(data, settings) if details.get("sound_rate") is None else open_sound(data, settings)


def open_video(data: bytes, settings: Settings) -> list[Image.Image]:
    """Decode the frames of a video in a prompt as :func:`open_clip` does. Raises Problem 422 if they are more than a model may read."""
    frames, most = open_clip(data, settings), limits(settings)["frames_of_video"]
    if len(frames) > most.most:
        raise most.problem(len(frames))
    return frames


def open_clip(data: bytes, settings: Settings) -> list[Image.Image]:
    """Decode the frames of an animation, or of several packed pictures, the bytes ``data``, as RGB images of one size.

    Raises Problem 422 for a single picture and for frames of several sizes, 413 if all frames together exceed the pixel limit, and the
    Problems of :func:`open_picture`.
    """
    frames = _of_files(data, settings) if is_packed(data) else _of_animation(data, settings)
    sizes = sorted({frame.size for frame in frames})
    if len(sizes) > 1:
        shown = ", ".join(f"{width} x {height}" for width, height in sizes[:4])
        raise Problem(422, "frames-of-sizes", f"The frames have several sizes: {shown}.", send="Send frames of one size.")
    if len(frames) < 2:
        raise Problem(422, "no-clip", "One picture was sent, and the model takes clips of several.", send=SEND_CLIP)
    return frames


def _of_files(data: bytes, settings: Settings) -> list[Image.Image]:
    return [to_rgb(picture) for picture in _open_all(_unpack(data, settings), settings, limits(settings)["pixels_of_clip"])]


def _of_animation(data: bytes, settings: Settings) -> list[Image.Image]:
    image = _open_upload(data, settings)
    try:
        count = getattr(image, "n_frames", 1)  # which reads the headers of all frames
    except Exception as error:
        raise _broken(error) from error
    if count > (most := limits(settings)["frames"]).most:
        raise most.problem(count)
    _check_pixels_of_clip(image.width * image.height * count, settings)
    frames, pixels = list[Image.Image](), 0
    try:
        for frame in ImageSequence.Iterator(image):
            pixels += frame.width * frame.height  # a frame of a GIF may be larger than the first
            _check_pixels_of_clip(pixels, settings)
            frames.append(to_rgb(ImageOps.exif_transpose(frame.copy())))
        return frames
    except (MemoryError, Problem):
        raise
    except Exception as error:  # decoders raise whatever they like on broken data
        raise _broken(error) from error


def _check_pixels_of_clip(count: int, settings: Settings) -> None:
    if count > settings.max_pixels:
        raise limits(settings)["pixels_of_clip"].problem()


def is_packed(data: bytes) -> bool:
    """Return whether the upload ``data`` is several pictures packed in one file by :func:`pack_files`."""
    return data.startswith(_ZIP_HEAD)


def pack_files(files: Sequence[bytes]) -> bytes:
    """Pack several ``files`` into one uncompressed zip, and return its bytes, since an explanation keeps one upload; equal files give equal
    zips.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for place, file in enumerate(files):
            archive.writestr(zipfile.ZipInfo(f"{place:06}"), file)
    return buffer.getvalue()


def unpack_files(data: bytes, settings: Settings) -> list[bytes]:
    """Return the files that :func:`pack_files` packed to ``data``, or ``data`` itself if it is one picture. Raises the Problems of a zip
    that cannot be read.
    """
    return _unpack(data, settings) if is_packed(data) else [data]


def _unpack(data: bytes, settings: Settings) -> list[bytes]:
    """Return the files of the zip ``data`` in the order of their names. Raises Problem 413 over the limits in ``settings``, 422 for a zip
    that cannot be read or holds no pictures.
    """
    frames = limits(settings)["frames"]
    bounds = ZipBounds(frames.most, settings.max_upload_bytes, frames.problem, lambda: _too_large(settings), SEND_CLIP)
    packed, _ = unpack_zip(data, bounds, lambda place: True)
    files = [b"".join(pieces) for _, pieces in packed]
    if not files or any(is_packed(file) for file in files):
        raise Problem(422, "no-clip", "The zip holds no pictures.", send=SEND_CLIP)
    return files


def _open_upload(data: bytes, settings: Settings) -> Image.Image:
    """Open the image file ``data`` and return it with only its header read; ``settings`` hold its largest size. Raises the Problems of
    :func:`open_picture`.
    """
    if len(data) > settings.max_upload_bytes:
        raise _too_large(settings)
    if not data:
        raise Problem(422, "empty-file", "The image file is empty.", send=SEND_IMAGE)
    if needs_heif(data[:BRANDS_BYTES]) and not can_read_heif():
        raise Problem(415, "unknown-image-format", f"{heif_not_installed('The picture')}.", send=SEND_IMAGE)
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError as error:
        if is_heif_or_avif(data):  # no decoder takes up what is cut off within its header
            raise _broken(EOFError("it ends before its picture begins")) from error
        if data[4:8] in _VIDEO_HEADS or data[8:12] in _VIDEO_HEADS or data.startswith(_MATROSKA_HEAD):
            raise Problem(415, "unknown-image-format", "The file is a video, which is not decoded here.", send=SEND_CLIP) from None
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
    return image


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


def encode_image(image: Image.Image, kind: str, longest: int | None = None) -> bytes:
    """Encode ``image`` as the bytes of a ``PNG`` or ``JPEG`` file (``kind``) without metadata, its longest side at most ``longest``
    pixels.
    """
    plain = image.copy()
    if longest is not None:
        plain.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    plain.info.clear()
    buffer = io.BytesIO()
    plain.save(buffer, kind, **({"quality": 90} if kind == "JPEG" else {}))
    return buffer.getvalue()


def encode_clip(frames: Sequence[Image.Image]) -> bytes:
    """Encode ``frames`` as the bytes of a TIFF file with a page for each; animations would merge equal frames."""
    buffer = io.BytesIO()
    plain = [frame.copy() for frame in frames]
    for frame in plain:
        frame.info.clear()
    plain[0].save(buffer, "TIFF", save_all=True, append_images=plain[1:], compression="tiff_adobe_deflate")
    return buffer.getvalue()
