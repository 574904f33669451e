"""How far a zip may expand: each member, and all together."""

from __future__ import annotations

import io
import zipfile
from pathlib import PurePosixPath

import pytest

from vitrine_server.http.archives import MAX_RATIO, RATIO_FROM_BYTES, ZipBounds, unpack_zip
from vitrine_server.http.problems import Problem

SIZE = 900_000


def bounds(free_bytes: int = RATIO_FROM_BYTES) -> ZipBounds:
    def refuse(_: int = 0) -> Problem:
        return Problem(413, "too-large", "It is too large.", send="Send less.")

    return ZipBounds(100, 1_000_000_000, refuse, refuse, "Send another.", free_bytes)


def zipped(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def unpacked(data: bytes, limits: ZipBounds) -> dict[PurePosixPath, bytes]:
    files, _ = unpack_zip(data, limits, lambda _: True)
    return {place: b"".join(pieces) for place, pieces in files}


def test_many_small_members_may_not_expand_as_one_large_one_may_not() -> None:
    assert list(unpacked(zipped({"one": bytes(SIZE)}), bounds()).values()) == [bytes(SIZE)]
    for count in (2, 50):
        with pytest.raises(Problem, match="100 times") as refused:
            unpacked(zipped({f"file-{number}": bytes(SIZE) for number in range(count)}), bounds())
        assert refused.value.slug == "broken-zip"


def test_what_packs_less_is_taken_whatever_its_size() -> None:
    varied = b"".join(number.to_bytes(4, "big") for number in range(500_000))
    data = zipped({f"file-{number}": varied for number in range(4)})
    assert len(data) * MAX_RATIO > 4 * len(varied) > RATIO_FROM_BYTES
    assert list(unpacked(data, bounds()).values()) == [varied] * 4


def test_what_was_unpacked_before_counts_too() -> None:
    with pytest.raises(Problem, match="100 times"):
        unpacked(zipped({"one": bytes(SIZE)}), bounds(free_bytes=SIZE - 1))
