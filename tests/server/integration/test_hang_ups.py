"""A client that goes away, at any point of any exchange: the log has a line of it and no traceback, and others are answered."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import png
from tests.server.support.alone import MODEL, Alone, alone
from tests.server.support.hostile import until

FORM = "multipart/form-data; boundary=x"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    with alone(tmp_path_factory.mktemp("alone") / "home") as one:
        yield one


def fields(**values: bytes) -> bytes:
    parts = [b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (n.encode(), b'; filename="p"' * (n == "image"), v)
             for n, v in values.items()]  # fmt: skip
    return b"".join(parts) + b"--x--\r\n"


def ask(server: Alone, seed: int) -> Any:
    form = {"model": MODEL, "methods": ["rollout"]}
    return server.client.post("/api/explanations?wait=1", data=form, files={"image": png(seed)}).raise_for_status().json()


def exchanges(server: Alone) -> Iterator[tuple[bytes, bytes]]:
    """Requests of every kind, each as its head and its body."""
    made = server.client.post("/api/explanations?wait=1", data={"model": MODEL, "methods": ["rollout"]}, files={"image": png(3)}).json()[
        "id"
    ]
    upload = server.client.post("/api/opening").json()["id"]

    def request(verb: str, path: str, body: bytes = b"", kind: str = "application/json") -> tuple[bytes, bytes]:
        head = f"{verb} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode(), body

    for number, query in enumerate(("", "?wait=1", "?wait=1")):
        question = fields(model=MODEL.encode(), methods=b"fullgrad_plus:libra", image=png(10 + number, (300, 300)))
        yield request("POST", f"/api/explanations{query}", question, FORM)
    yield request("POST", "/api/explanations", b"model=x&text=" + b"a" * 200_000, "application/x-www-form-urlencoded")
    yield request("POST", "/login", b"token=" + b"a" * 100_000, "application/x-www-form-urlencoded")
    yield request("POST", f"/api/explanations/{made}/deletion-test", b"{" + b" " * 300_000 + b"}")
    yield request("POST", f"/api/explanations/{made}/layers", b"{" + b" " * 300_000 + b"}")
    yield request("PUT", f"/api/opening/{upload}/file?name=w.pth", bytes(500_000), "application/octet-stream")
    yield request("PUT", f"/api/opening/{upload}/file?name=code.py", bytes(500_000), "application/octet-stream")
    yield request("POST", "/api/runs/data?name=d.zip", bytes(500_000), "application/octet-stream")
    yield request("POST", "/api/runs/data?name=d.csv", b"text\n" + b"a\n" * 200_000, "text/csv")
    for path in ("/api/methods", "/", "/api/leaderboard/table", f"/api/models/events?name={MODEL}", f"/api/explanations/{made}/events"):
        yield request("GET", path)
    for path in ("bundle.zip", "maps/rollout.png", "image", "code"):
        yield request("GET", f"/api/explanations/{made}/{path}")


def hang_up(port: int, *parts: bytes, read: int = 0, is_rude: bool = True) -> None:
    """Send the parts, read so many bytes, and go away; rudely: with a reset."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with suppress(ConnectionError):  # it may be refused before all of it is sent
            for part in parts:
                connection.sendall(part)
        if read:
            with suppress(ConnectionError):
                connection.recv(read)
        if is_rude:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def in_chunks(head: bytes, body: bytes) -> list[bytes]:
    """The same request with a body of no stated length."""
    parts = [body[start : start + 5000] for start in range(0, len(body), 5000)]
    head = head.replace(b"Content-Length: %d" % len(body), b"Transfer-Encoding: chunked")
    return [head, *(b"%x\r\n%s\r\n" % (len(part), part) for part in parts), b"0\r\n\r\n"]


def test_who_goes_away_leaves_no_traceback(server: Alone) -> None:
    for head, body in exchanges(server):
        for is_rude in (True, False):
            hang_up(server.port, head[: len(head) // 2], is_rude=is_rude)
            hang_up(server.port, head, body, is_rude=is_rude)
            hang_up(server.port, head, body, read=1, is_rude=is_rude)
            hang_up(server.port, (head + body) * 3, is_rude=is_rude)  # several, of which the first is answered to nobody
            hang_up(server.port, (head + body) * 20, read=100, is_rude=is_rude)
            hang_up(server.port, *in_chunks(head, body)[:2], is_rude=is_rude)
            if body:
                for end in (0, 1, 70, len(body) // 2, len(body) - 1):
                    hang_up(server.port, head, body[:end], is_rude=is_rude)
    services_answer = server.client.post(
        "/api/explanations?wait=1", data={"model": MODEL, "methods": ["rollout"]}, files={"image": png(99)}
    )
    assert services_answer.status_code == 200
    until(lambda: server.client.get("/metrics").text.count("vitrine_queue_depth 0.0") == 1, "the queue is empty", patience=120)
    assert_no_traceback(server.log)


def assert_no_traceback(log: Path) -> None:
    text = log.read_text("utf-8")
    assert text.count("Traceback") == 0, text[text.index("Traceback") - 500 :][:5000]
    assert " 500 " not in text
    assert "ERROR" not in text, text[text.index("ERROR") - 500 :][:5000]
