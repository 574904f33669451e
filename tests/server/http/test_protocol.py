from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from vitrine_server.commands.serving.serve import make_server
from vitrine_server.http.protocol import MOST_BYTES_OF_HEAD, BoundedProtocol
from vitrine_server.settings import load_settings

BIG = b"a" * (4 * MOST_BYTES_OF_HEAD)


async def length(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of what it was sent."""
    count, is_whole = 0, False
    while not is_whole:
        message = await receive()
        count, is_whole = count + len(message["body"]), not message["more_body"]
    body = str(count).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(protocol: type[BoundedProtocol], app: Any = length) -> Iterator[int]:
    """The port of a server."""
    server = uvicorn.Server(uvicorn.Config(app, http=protocol, lifespan="off", log_config=None, ws="none", timeout_keep_alive=1))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(BoundedProtocol) as one:
        yield one


def answers(port: int, *parts: bytes) -> bytes:
    """All that the server sends until it closes; what it does not want to read any more is not sent."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        received = b""
        try:
            for part in parts:
                connection.sendall(part)
            while data := connection.recv(65536):
                received += data
        except (ConnectionResetError, BrokenPipeError):
            pass
        return received


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nX: ", b"GET /", b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * MOST_BYTES_OF_HEAD])
def test_a_head_without_end_is_cut_off(port: int, head: bytes) -> None:
    received = answers(port, head, *[b"a" * 100_000] * 200)
    assert received.startswith(b"HTTP/1.1 400 ") or not received  # it may be lost with the connection
    assert b" 200 " not in received
    assert b" 200 " in answers(port, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")  # others are answered


def test_bodies_and_what_follows_them_are_no_heads(port: int) -> None:
    """Three requests on one connection, with bodies longer than a head may be, in parts that begin and end anywhere."""
    one = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(BIG), BIG)
    last = one.replace(b"Host: a", b"Host: a\r\nConnection: close")
    whole = one + one + last
    for size in (len(whole), 100_001, 1_000_003):
        parts = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert answers(port, *parts).count(b"\r\n\r\n%d" % len(BIG)) == 3


@pytest.mark.parametrize("size", [MOST_BYTES_OF_HEAD, 100_000, 200_000])
def test_a_whole_request_that_arrives_at_once_is_no_head(port: int, size: int) -> None:
    """A photo of 100 kB from the same machine: head and body are in one read."""
    request = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (size, b"a" * size)
    for _ in range(20):
        assert answers(port, request).endswith(b"\r\n\r\n%d" % size)


def test_a_long_head_that_ends_is_taken(port: int) -> None:
    head = b"GET / HTTP/1.1\r\nConnection: close\r\nX: " + b"a" * (MOST_BYTES_OF_HEAD - 100) + b"\r\n\r\n"
    assert b" 200 " in answers(port, head)


class Impatient(BoundedProtocol):
    head_seconds = body_seconds = 0.1


POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n"


@pytest.mark.parametrize(
    "sent", [b"", b"G", b"GET / HTTP/1.1\r\nX: a", POST, POST + b"ab", POST + b"abc\r\n", POST + b"abc" + POST + b"ab"]
)
def test_who_says_nothing_more_is_let_go(sent: bytes) -> None:
    """At once, in a head, in a body, and after an answer that was waited for."""
    with served(Impatient) as port:
        received = answers(port, *([sent] if sent else []))  # until the server closes
        assert received.count(b" 200 ") == sent.count(b"abc")


def test_who_is_not_answered_yet_is_not_let_go() -> None:
    """Nor whose body the application has not taken: it answers once others were let go who came later."""
    released = threading.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.to_thread(released.wait, 30)
        await length(scope, receive, send)

    body = b"a" * 10_000_000
    with served(Impatient, slow) as port, ThreadPoolExecutor() as pool:
        head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
        asked = [pool.submit(answers, port, head, body), pool.submit(answers, port, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")]
        for _ in range(3):
            assert answers(port) == b""
        released.set()
        assert [answer.result().partition(b"\r\n\r\n")[2] for answer in asked] == [b"10000000", b"0"]


def test_the_server_uses_it(tmp_path: Any) -> None:
    server = make_server(load_settings({"home": tmp_path, "device": "cpu"}))
    assert server.config.http is BoundedProtocol
