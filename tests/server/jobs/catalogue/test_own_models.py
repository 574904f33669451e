"""What counts of the files that somebody brings: what arrived and was taken, and nothing that was refused."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.own_models import OwnModels, Upload

MOST_BYTES = 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> OwnModels:
    return OwnModels(tmp_path, MOST_BYTES)


async def body(*chunks: bytes, error: Exception | None = None) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    if error is not None:
        raise error


def send(store: OwnModels, upload: Upload, name: str, chunks: AsyncIterator[bytes]) -> None:
    anyio.run(store.receive, upload, name, chunks)


def counted(upload: Upload) -> tuple[int, int, list[str]]:
    """Files, bytes and what lies there."""
    names = sorted(path.relative_to(upload.folder).as_posix() for path in upload.folder.rglob("*") if path.is_file())
    return upload.files, upload.size, names


def zipped(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def test_a_file_that_is_refused_or_cut_off_does_not_count(store: OwnModels) -> None:
    upload = store.begin(Visitor())
    send(store, upload, "a.json", body(b"{}"))
    with pytest.raises(Problem, match="larger than 1 MB"):
        send(store, upload, "a.json", body(bytes(700_000), bytes(700_000)))
    with pytest.raises(ConnectionError):
        send(store, upload, "b.json", body(bytes(700_000), error=ConnectionError()))
    with pytest.raises(Problem, match="is the name of both a file and a folder"):
        send(store, upload, "a.json/b.json", body(bytes(700_000)))
    assert counted(upload) == (1, 2, ["a.json"])
    assert (upload.folder / "a.json").read_bytes() == b"{}"
    send(store, upload, "w.pth", body(bytes(900_000)))
    assert counted(upload) == (2, 900_002, ["a.json", "w.pth"])


def test_a_file_that_is_sent_again_counts_once(store: OwnModels) -> None:
    upload = store.begin(Visitor())
    for size in (400_000, 500_000, 30):
        send(store, upload, "w.pth", body(bytes(size)))
        assert counted(upload) == (1, size, ["w.pth"])


def test_a_zip_that_is_refused_leaves_nothing_and_does_not_count(store: OwnModels) -> None:
    upload = store.begin(Visitor())
    send(store, upload, "a.json", body(b"{}"))
    cut = bytearray(zipped({"b.json": b"[]" * 30, "c.json": b"[1]" * 300}))
    cut[cut.index(b"c.json") + 6] ^= 0xFF  # the packed bytes of the second file, known to be damaged once the first is unpacked
    for data in (b"no zip", bytes(cut), zipped({f"{number}.json": bytes(700_000) for number in range(3)})):
        send(store, upload, "files.zip", body(data))
        with pytest.raises(Problem):
            store.unpack(upload)
        assert counted(upload) == (1, 2, ["a.json"])
    send(store, upload, "files.zip", body(zipped({"w.pth": bytes(900_000)})))
    store.unpack(upload)
    assert [path.name for path in upload.folder.rglob("w.pth")] == ["w.pth"]


def test_many_small_zips_may_not_expand_as_one_large_one_may_not(store: OwnModels) -> None:
    upload = store.begin(Visitor())
    store.most_bytes = 100 * MOST_BYTES
    for number in range(3):
        send(store, upload, f"{number}/a.zip", body(zipped({"w.pth": bytes(900_000)})))
    with pytest.raises(Problem, match="100 times"):
        store.unpack(upload)


def test_names_of_what_is_left_out_are_bounded(store: OwnModels) -> None:
    upload = store.begin(Visitor())
    for _ in range(10):
        upload.leave_out([f"{number}.py" for number in range(900)])
    assert len(upload.left_out) == 2000


def test_an_upload_that_is_removed_while_a_file_arrives_is_not_there(store: OwnModels) -> None:
    upload = store.begin(Visitor(is_alone=True))

    async def with_end() -> AsyncIterator[bytes]:
        yield b"{"
        store.forget(upload.id, Visitor(is_alone=True))
        yield b"}"

    with pytest.raises(Problem, match="no such upload"):
        send(store, upload, "a.json", with_end())
    assert not upload.folder.exists()
