from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from PIL import Image

from explainers.models.inputs.images import to_rgb
from tests.server.conftest import picture
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import encode_image, forbid_bombs, open_picture
from vitrine_server.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def _bombs() -> None:
    forbid_bombs()


@pytest.fixture
def settings() -> Settings:
    return load_settings({"max_megapixels": 1.0}, {})


def file(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def giant_png(width: int, height: int) -> bytes:
    """A PNG file of a few hundred bytes that says it has ``width`` x ``height`` pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def smooth() -> Image.Image:
    """Left to right from dark to light; what a lossy format keeps."""
    return Image.fromarray(np.tile(np.linspace(0, 255, 64, dtype=np.uint8), (48, 1))).convert("RGB")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF"])
def test_every_format_is_read(kind: str, settings: Settings) -> None:
    image = open_picture(file(smooth(), kind), settings)
    assert (image.mode, image.size) == ("RGB", (64, 48))
    difference = np.abs(np.asarray(image, float) - np.asarray(smooth(), float))
    assert difference.max() < 12


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "HEIF"])
def test_a_photo_is_turned_upright(kind: str, settings: Settings) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter to the right
    image = open_picture(file(smooth(), kind, exif=exif if kind == "TIFF" else exif.tobytes()), settings)
    assert image.size == (48, 64)
    values = np.asarray(image.convert("L"), float)
    assert values[0].mean() < 20
    assert values[-1].mean() > 235


def test_cmyk_is_read(settings: Settings) -> None:
    image = open_picture(file(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG"), settings)
    red, green, blue = image.getpixel((4, 4))  # type: ignore[misc]
    assert red > 200
    assert max(green, blue) < 60


def test_sixteen_bits_are_scaled_not_clipped(settings: Settings) -> None:
    values = np.linspace(0, 65535, 64, dtype=np.uint16).reshape(8, 8)
    image = to_rgb(open_picture(file(Image.fromarray(values), "PNG"), settings))
    assert np.abs(np.asarray(image)[..., 0] - values / 257).max() <= 1


def test_transparency_is_white(settings: Settings) -> None:
    image = open_picture(file(Image.new("RGBA", (4, 4), (0, 0, 0, 0)), "PNG"), settings)
    assert image.getpixel((0, 0)) == (255, 255, 255)


def test_an_animation_gives_its_first_frame(settings: Settings) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    image = open_picture(file(frames[0], "GIF", save_all=True, append_images=frames[1:]), settings)
    assert image.getpixel((0, 0)) == (255, 0, 0)


@cache
def photo(kind: str) -> bytes:
    return file(picture(0, (200, 200)), kind)


def half_a_photo(kind: str) -> bytes:
    return photo(kind)[: len(photo(kind)) // 2]


SETTINGS = {"usual": {"max_megapixels": 1.0}, "few bytes": {"max_upload_mb": 0.001}}
#: what cannot be taken -> what makes it (when it is asked for: AVIF and HEIF take long), the settings, and how it is refused
REFUSED: dict[str, tuple[Callable[[], bytes], str, int, str]] = {
    **{f"half a {kind}": (partial(half_a_photo, kind), "usual", 422, "broken-image") for kind in ("JPEG", "AVIF", "HEIF")},
    **{f"too many bytes of {kind}": (partial(photo, kind), "few bytes", 413, "upload-too-large") for kind in ("JPEG", "AVIF", "HEIF")},
    **{
        f"large {kind}": (partial(file, Image.new("RGB", (1010, 1000)), kind), "usual", 413, "too-many-pixels") for kind in ("AVIF", "HEIF")
    },
    "PNG with too few pixels": (partial(giant_png, 100, 100), "usual", 422, "broken-image"),
    "empty": (lambda: b"", "usual", 422, "empty-file"),
    "words": (lambda: b"plain words", "usual", 415, "unknown-image-format"),
    "SVG": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "usual", 415, "unknown-image-format"),
    "the head of a HEIC file": (lambda: b"\0\0\0\x1cftypheic" + bytes(300), "usual", 422, "broken-image"),
    "another format": (lambda: file(picture(), "PPM"), "usual", 415, "unknown-image-format"),
    "just over the limit": (partial(giant_png, 1001, 1000), "usual", 413, "too-many-pixels"),
    "Pillow warns": (partial(giant_png, 10_000, 10_000), "usual", 413, "too-many-pixels"),
    "Pillow refuses": (partial(giant_png, 100_000, 100_000), "usual", 413, "too-many-pixels"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_taken_is_refused(what: str) -> None:
    made, chosen, status, kind = REFUSED[what]
    data, settings = made(), load_settings(SETTINGS[chosen], {})
    with pytest.raises(Problem) as caught:
        open_picture(data, settings)
    assert (caught.value.status, caught.value.slug) == (status, kind)
    assert caught.value.send
    if status == 413:
        limit = "1 megapixels" if kind == "too-many-pixels" else "0.001 MB"
        assert limit in caught.value.detail


def test_pixels_are_counted_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    def load(image: Image.Image) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
    with pytest.raises(Problem, match="megapixels"):
        open_picture(giant_png(1001, 1000), settings)


def test_a_fresh_encoding_carries_nothing_along() -> None:
    exif = Image.Exif()
    exif[0x010E] = "where I live"
    image = Image.open(io.BytesIO(file(picture(0, (300, 200)), "JPEG", exif=exif.tobytes(), comment=b"secret")))
    for kind in ("PNG", "JPEG"):
        data = encode_image(image, kind, 150)
        again = Image.open(io.BytesIO(data))
        assert (again.size, again.format) == ((150, 100), kind)
        assert b"where I live" not in data
        assert b"secret" not in data
        assert not again.getexif()
