"""Pictures and texts that are nearly what they should be: files of every format with bytes changed, texts of odd characters. A seed gives
the same ones again.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF")
#: What texts are made of, by their code points: letters, controls, marks that join what is before them, right to left, beyond 16 bits.
RANGES = ((0x20, 0x7E), (0, 0x1F), (0x300, 0x36F), (0x590, 0x6FF), (0x200B, 0x202E), (0x4E00, 0x4E50), (0x1F300, 0x1F9FF), (0xE000, 0xE010))
WORDS = ("good", "bad", "a film", "\n", " ", "'", "-", "\u0000", "ﬁ", "e\u0301", "\u200d", "👩‍👩‍👧‍👦")


@cache
def files() -> list[bytes]:
    """A small picture in every format, and such with more to read: metadata, a palette, greys of 16 bits, frames, no colours."""
    values = np.random.default_rng(0).integers(0, 256, (18, 24, 3), dtype=np.uint8)
    picture = Image.fromarray(values)
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "turned"
    deep = Image.fromarray(values[..., 0].astype(np.uint16) * 251)
    of_formats = [(picture, kind, {}) for kind in FORMATS]
    others = [
        (picture, "JPEG", {"exif": exif, "progressive": True}),
        (picture.convert("P"), "PNG", {}),
        (deep, "PNG", {}),
        (deep, "TIFF", {"compression": "tiff_lzw"}),
        (picture.convert("P"), "GIF", {"save_all": True, "append_images": [picture.convert("P")]}),
        (picture.convert("RGBA"), "WEBP", {"lossless": True}),
        (picture.convert("CMYK"), "TIFF", {"compression": "tiff_deflate"}),
        (picture.convert("1"), "TIFF", {"compression": "group4"}),
    ]
    made = []
    for image, kind, options in (*of_formats, *others):
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)  # type: ignore[arg-type]
        made.append(buffer.getvalue())
    return made


def _flipped(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 4, 40))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _numbered(data: bytearray, chance: random.Random) -> None:
    """A length or a count is another one."""
    place = chance.randrange(max(1, min(len(data), 200) - 4))
    data[place : place + 4] = chance.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\xff\xff"))


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def _left_out(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    del data[start : start + chance.randrange(1, 60)]


def _repeated(data: bytearray, chance: random.Random) -> None:
    start = chance.randrange(len(data))
    data[start:start] = data[start : start + chance.randrange(1, 400)] * chance.choice((1, 3, 50))


def _spliced(data: bytearray, chance: random.Random) -> None:
    other = chance.choice(files())
    data[chance.randrange(len(data)) :] = other[chance.randrange(len(other)) :]


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (_flipped, _numbered, _cut, _left_out, _repeated, _spliced)


def pictures(count: int, seed: int = 0) -> Iterator[bytes]:
    """Files of pictures, each changed in one to three ways."""
    chance = random.Random(seed)
    for _ in range(count):
        data = bytearray(chance.choice(files()))
        for mutation in chance.choices(MUTATIONS, k=chance.randrange(1, 4)):
            if data:
                mutation(data, chance)
        yield bytes(data)


def texts(count: int, seed: int = 0) -> Iterator[bytes]:
    """Texts as they are sent, of which some are no UTF-8."""
    chance = random.Random(seed)
    for _ in range(count):
        parts = []
        for _ in range(chance.choice((0, 1, 5, 30))):
            first, last = chance.choice(RANGES)
            parts.append(chance.choice(WORDS) if chance.random() < 0.3 else chr(chance.randint(first, last)))
        data = bytearray("".join(parts).encode())
        if data and chance.random() < 0.2:
            _flipped(data, chance)
        yield bytes(data)
