"""HEIF files, told from others by their first bytes, and what is said of them where the extra is missing."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from explainers.models.inputs.heif import BRANDS_BYTES, needs_heif
from tests.conftest import PYTHONPATH


def file(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.effect_noise((48, 32), 90).convert("RGB").save(buffer, kind)
    return buffer.getvalue()


def box(major: bytes, *compatible: bytes) -> bytes:
    """The ``ftyp`` box of ISO/IEC 14496-12: length, name, major brand, minor version, compatible brands."""
    body = b"ftyp" + major + bytes(4) + b"".join(compatible)
    return (4 + len(body)).to_bytes(4, "big") + body + bytes(64)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (box(b"heic", b"mif1", b"heic"), True),  # of an iPhone
        (box(b"heix", b"mif1", b"heix"), True),
        (box(b"mif1", b"mif1", b"heic"), True),  # of other phones
        (box(b"msf1", b"hevc"), True),
        (box(b"mif1", b"miaf", b"avif"), False),  # Pillow reads AVIF
        (box(b"avif", b"mif1", b"miaf"), False),
        (box(b"isom", b"mp42"), False),  # a video
        (box(b"qt  "), False),
        (b"", False),
        (b"\0\0\0\x18ftyp", False),
        (b"\x89PNG\r\n\x1a\nftypheic", False),
    ],
)
def test_the_brands_say_whether_the_extra_is_needed(head: bytes, expected: bool) -> None:
    assert needs_heif(head) is expected


@pytest.mark.parametrize(("kind", "expected"), [("HEIF", True), ("AVIF", False), ("JPEG", False), ("WEBP", False)])
def test_files_as_they_are_written(kind: str, expected: bool) -> None:
    assert needs_heif(file(kind)[:BRANDS_BYTES]) is expected


# Runs in a fresh interpreter, in a folder with a picture of each kind: to Python a module that is None is one that is missing.
WITHOUT = r"""
import sys
from pathlib import Path

sys.modules["pillow_heif"] = None
from explainers.errors import ExplainerError
from explainers.models.inputs.images import FORMATS, is_picture_name, read_image
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import SEND_IMAGE, open_picture
from vitrine_server.settings import load_settings

settings = load_settings({}, {})
assert "HEIF" not in FORMATS and not is_picture_name("photo.heic")
assert "HEIF" not in SEND_IMAGE and SEND_IMAGE.endswith("TIFF or AVIF file."), SEND_IMAGE
for name in ("picture.jpg", "picture.avif", "picture.webp"):
    assert read_image(name).size == open_picture(Path(name).read_bytes(), settings).size == (48, 32)
for name in ("picture.heic", "renamed.jpg"):
    try:
        read_image(name)
    except ExplainerError as error:
        print(error)
    try:
        open_picture(Path(name).read_bytes(), settings)
    except Problem as problem:
        print(problem.status, problem.detail)
"""


def test_without_the_extra_one_sentence_names_it_and_other_formats_are_read(tmp_path: Path) -> None:
    names = {"picture.jpg": "JPEG", "picture.avif": "AVIF", "picture.webp": "WEBP", "picture.heic": "HEIF", "renamed.jpg": "HEIF"}
    for name, kind in names.items():
        (tmp_path / name).write_bytes(file(kind))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        cwd=tmp_path,
        env={"PYTHONPATH": PYTHONPATH, "PATH": "", "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rest = "is a HEIF file (.heic) and needs the package pillow-heif, which is not installed"
    install = "In the folder of Vitrine: pip install -e '.[heif]'"
    subjects = ("picture.heic", "415 The picture", "renamed.jpg", "415 The picture")
    assert [line.removesuffix(".") for line in done.stdout.splitlines()] == [f"{subject} {rest}. {install}" for subject in subjects]
