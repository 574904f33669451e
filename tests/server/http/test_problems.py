"""What the server answers when something does not go as it should."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.server.conftest import Check, Site, png


def test_who_hangs_up_while_sending_leaves_no_error(site: Site, logged: list[logging.LogRecord]) -> None:
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/explanations",
        "query_string": b"",
        "headers": [(b"content-type", b"multipart/form-data; boundary=x"), (b"content-length", b"500")],
    }
    messages = iter([{"type": "http.request", "body": b"--x\r\n", "more_body": True}, {"type": "http.disconnect"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(site.client.app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] == 499
    assert logged
    assert not [record for record in logged if record.levelno >= logging.WARNING]


def get(site: Site, path: str) -> list[Any]:
    """What the application sends for a GET, as a server of HTTP sees it; raises what it raises."""
    sent: list[Any] = []
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(site.client.app(scope, receive, send))  # type: ignore[arg-type]
    return sent


def test_after_a_bug_the_connection_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord]) -> None:
    """A server of HTTP cuts the connection where an application raises, which the headers then do not say."""
    monkeypatch.setattr("vitrine_server.api.models.DocumentResponse", lambda *_: 1 / 0)  # the worker calls the registry as well
    start, body = get(site, "/api/quantities")
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert start["status"] == 500
    assert "frame-ancestors" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert headers["x-request-id"] in body["body"].decode()
    (record,) = [record for record in logged if record.exc_info]
    assert headers["x-request-id"] in record.getMessage()


def test_half_an_answer_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """There an honest end is not possible any more."""

    async def fails(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    monkeypatch.setattr("starlette.responses.Response.__call__", fails)
    with pytest.raises(ZeroDivisionError):
        get(site, "/api/models")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_memory_that_runs_out_while_a_picture_is_read_is_said(
    site: Site, refused: Check, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def load(self: Any) -> None:
        raise error

    monkeypatch.setattr("vitrine_server.api.explanations.encode_image", lambda *_: load(None))
    refused(site.ask(png()), 503, "out-of-memory")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
    if isinstance(error, MemoryError):  # a decoder knows no other
        refused(site.ask(png(1)), 503, "out-of-memory")


def test_an_address_makes_one_line_of_the_log(site: Site, logged: list[logging.LogRecord]) -> None:
    site.client.get("/a%0aGET /healthz 200")
    assert not [record for record in logged if "\n" in record.getMessage()]
