"""Files that are larger than they look, and headers that lie: none is answered 5xx, and none takes more memory than it is worth."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from PIL import Image

from tests.server.conftest import png
from tests.server.support.alone import MODEL, Alone, alone
from tests.server.support.lying_zips import lying_zips

MAX_GROWTH_BYTES = 100_000_000
BRACKETS = b"[" * 100_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    with alone(tmp_path_factory.mktemp("alone") / "home") as one:
        send_picture(one, png())  # what is loaded with the first of each is not counted
        send_data(one, zipped({"a/1.png": png()}))
        send_model(one, {"a.safetensors": b"no weights"})
        one.client.post("/api/explanations/0/deletion-test", json={})
        yield one


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def send_picture(server: Alone, data: bytes) -> httpx.Response:
    form = {"model": MODEL, "methods": "rollout"}
    return server.client.post("/api/explanations?wait=1", data=form, files={"image": ("p", data)})


def send_data(server: Alone, data: bytes, name: str = "data.zip") -> httpx.Response:
    return server.client.post("/api/runs/data", params={"name": name}, content=data)


def send_model(server: Alone, files: dict[str, bytes]) -> httpx.Response:
    """The answer to the first that is refused, else to what is seen in them."""
    upload = server.client.post("/api/opening").json()["id"]
    try:
        for name, data in files.items():
            answer = server.client.put(f"/api/opening/{upload}/file", params={"name": name}, content=data)
            if answer.status_code != 200:
                return answer
        return server.client.post("/api/opening/look", json={"upload": upload})
    finally:
        server.client.delete(f"/api/opening/{upload}")


def send_model_zip(server: Alone, data: bytes) -> httpx.Response:
    return send_model(server, {"model.zip": data})


def check(server: Alone, what: str, send: Callable[[], httpx.Response], statuses: range | tuple[int, ...] = range(400, 500)) -> None:
    """Send it, and see what is answered and what it took."""
    before = server.forget_peak()
    answer = send()
    assert answer.status_code in statuses, (what, answer.status_code, answer.text[:500])
    grown = server.peak() - before
    assert grown < MAX_GROWTH_BYTES, (what, grown)


@pytest.mark.parametrize(
    ("send", "name"), [(send_picture, "p.png"), (send_data, "p.png"), (send_model_zip, "w.pth")], ids=["picture", "run data", "model"]
)
def test_zips_that_lie(server: Alone, send: Callable[[Alone, bytes], httpx.Response], name: str) -> None:
    before = server.forget_peak()
    for what, data in lying_zips(name):
        taken = range(200, 500) if what == "a zip in a zip" else range(400, 500)  # it may be a broken picture among many
        check(server, what, lambda data=data: send(server, data), taken)  # type: ignore[misc]
    server.forget_peak()
    assert server.peak() - before < MAX_GROWTH_BYTES  # nothing of them stays
    assert not list((server.log.parent / "home" / "own-models").glob("*/*"))
    assert send_picture(server, png()).status_code == 200


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_with(*chunks: bytes) -> bytes:
    plain = png()
    return plain[:33] + b"".join(chunks) + plain[33:]


def tiff(**said: int) -> bytes:
    """A small TIFF file, with what its directory says changed."""
    tags = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 273: 200, 277: 1, 278: 8, 279: 64} | {
        int(tag[1:]): value for tag, value in said.items()
    }
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(tags.items()))
    return (b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + entries + bytes(4)).ljust(200, b"\0") + bytes(64)


def pictures() -> Iterator[tuple[str, bytes]]:
    zeros = zlib.compress(bytes(200_000_000), 9)
    yield "text chunks", png_with(*[chunk(b"zTXt", b"a\0\0" + zeros)] * 20)
    yield "international text", png_with(*[chunk(b"iTXt", b"a\0\1\0\0\0" + zeros)] * 20)
    yield "a colour profile", png_with(chunk(b"iCCP", b"a\0\0" + zeros))
    yield "pixels", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zeros)
    yield "more pixel data than pixels", png()[:33] + chunk(b"IDAT", zeros) + chunk(b"IEND", b"")
    for said in (
        {"t322": 60_000, "t323": 60_000, "t324": 200},
        {"t278": 0xFFFFFFFF},
        {"t279": 0xFFFFFFFF},
        {"t277": 60_000},
        {"t256": 1 << 30},
    ):
        yield f"TIFF {said}", tiff(**said)
        yield f"packed TIFF {said}", tiff(**said, t259=8)
    whole = io.BytesIO()
    Image.new("P", (20, 20)).save(whole, "GIF", save_all=True, append_images=[Image.new("P", (20, 20), 1)] * 3)
    gif = bytearray(whole.getvalue())
    place = gif.index(b"\x2c\0\0\0\0")
    gif[place + 5 : place + 9] = struct.pack("<HH", 60_000, 60_000)
    yield "a frame larger than its GIF", bytes(gif)
    heif = b"\0\0\0\x18ftypheic\0\0\0\0heicmif1" + b"\0\0\0\x01mdat" + struct.pack(">Q", 1 << 62) + bytes(100)
    yield "HEIF", heif
    yield "AVIF", heif.replace(b"heic", b"avif")
    yield "DICOM, deflated", b"\0" * 128 + b"DICM" + dicom_head(b"1.2.840.10008.1.2.1.99") + zeros[2:]


def dicom_head(syntax: bytes) -> bytes:
    syntax = syntax.ljust(len(syntax) + len(syntax) % 2, b"\0")
    element = struct.pack("<HH2sH", 2, 0x10, b"UI", len(syntax)) + syntax
    return struct.pack("<HH2sHI", 2, 0, b"UL", 4, len(element)) + element


def test_pictures_that_are_larger_than_they_look(server: Alone) -> None:
    for what, data in pictures():
        check(server, what, lambda data=data: send_picture(server, data), (200, 413, 415, 422))  # type: ignore[misc]
        check(server, f"{what}, as data", lambda data=data: send_data(server, zipped({"a/1.png": data})), (201, 413, 415, 422))  # type: ignore[misc]


class Call:
    """Pickled, it is a call of this function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.called = function, arguments

    def __reduce__(self) -> Any:
        return self.called


def models(folder: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    torch.save({"state_dict": {"head.weight": torch.zeros(1, 1).expand(50_000, 50_000)}}, folder / "w.pth")
    yield "one number shown as many", {"w.pth": (folder / "w.pth").read_bytes()}
    torch.save({"head.weight": torch.zeros(1, 1, dtype=torch.float16).expand(50_000, 50_000)}, folder / "w.pth")
    yield "one short number shown as many", {"w.pth": (folder / "w.pth").read_bytes()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w/data.pkl", bytes(300_000_000))
        archive.writestr("w/version", b"3")
    yield "packed weights", {"w.pth": buffer.getvalue()}
    yield "a long header", {"w.safetensors": struct.pack("<Q", 90_000_000) + b"{" + b" " * 89_999_999 + b"}"}
    yield "a header of brackets", {"w.safetensors": struct.pack("<Q", 200_000) + b'{"a":' + BRACKETS.ljust(199_995)}
    yield "a header longer than its file", {"w.safetensors": struct.pack("<Q", (1 << 64) - 1) + b"{}"}
    head = json.dumps({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    yield "a tensor longer than its file", {"w.safetensors": struct.pack("<Q", len(head)) + head}
    for what, told in (
        ("a bytearray", Call(bytearray, 1 << 31)),
        ("lists", [[] for _ in range(4_000_000)]),
        ("a string", "a" * 50_000_000),
    ):
        yield what, {"w.pth": pickle.dumps({"a": told}, 2)}
        yield f"{what}, in a zip", {"w.pth": zipped({"w/data.pkl": pickle.dumps({"a": told}, 2), "w/version": b"3"})}
    yield "brackets", {"config.json": BRACKETS, "model.safetensors": b"x"}
    yield (
        "a large config",
        {"config.json": b'{"model_type": "vit", "x": "' + b"a" * 60_000_000 + b'"}', "model.safetensors.index.json": b"{}"},
    )
    for text in (BRACKETS, b"[]", b"null", b"{", b"\xff", b'{"base_model_name_or_path": []}', b""):
        yield f"adapter {text[:20]!r}", {"adapter_config.json": text}
        yield f"index {text[:20]!r}", {"config.json": b"{}", "pytorch_model.bin.index.json": text}
        yield (
            f"state {text[:20]!r}",
            {
                f"checkpoint-{n}/{name}": data
                for n in (1, 2)
                for name, data in (("config.json", b"{}"), ("model.safetensors", b"x"), ("trainer_state.json", text))
            },
        )
    yield "a file and a folder", {"a.json": b"{}", "a.json/b.json": b"{}"}
    yield "a folder and a file", {"a.json/b.json": b"{}", "a.json": b"{}"}
    yield "deep folders", {"a/" * 300 + "w.json": b"{}"}
    yield "a long name", {"ü" * 200 + ".json": b"{}"}
    yield "half a character", {"a\ufffd\udcff.json".encode("utf-8", "replace").decode(): b"{}"}


def test_models_that_are_larger_than_they_look(server: Alone, tmp_path: Path) -> None:
    for what, files in models(tmp_path):
        check(server, what, lambda files=files: send_model(server, files), range(200, 500))  # type: ignore[misc]


def test_data_and_bodies_that_are_larger_than_they_look(server: Alone) -> None:
    explanation = send_picture(server, png()).json()["id"]
    test = f"/api/explanations/{explanation}/deletion-test"
    kind = {"content-type": "application/json"}
    for what, body in (
        ("brackets", BRACKETS),
        ("many errors", b'{"remove": [' + b"[]," * 900_000 + b"1]}"),
        ("many empty objects", b'{"remove": [' + b"{}," * 300_000 + b"1]}"),
        ("many names", json.dumps({f"a{i}": i for i in range(60_000)}).encode()),
        ("a long number", b'{"remove": [' + b"9" * 900_000 + b"]}"),
    ):
        check(server, what, lambda body=body: server.client.post(test, content=body, headers=kind))  # type: ignore[misc]
    packed = gzip.compress(bytes(300_000_000))
    headers = kind | {"content-encoding": "gzip"}
    check(server, "a packed body", lambda: server.client.post(test, content=packed, headers=headers))
    form = {"content-type": "application/x-www-form-urlencoded"}
    check(server, "many fields", lambda: server.client.post("/api/explanations", content=b"a&" * 450_000, headers=form))
    check(server, "texts", lambda: send_data(server, b"text,label\n" + b"a,b\n" * 4_500_000, "d.csv"))
    check(server, "large texts", lambda: send_data(server, b"text\n" + b"a" * 60_000_000, "d.csv"))
    check(server, "lines of brackets", lambda: send_data(server, BRACKETS + b"\n" + BRACKETS, "d.jsonl"))
    check(server, "empty objects", lambda: send_data(server, b"{}\n" * 5_000_000, "d.jsonl"))
    check(server, "packed texts", lambda: send_data(server, packed, "d.csv"))
