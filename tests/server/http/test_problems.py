"""What the server answers when something does not go as it should."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from tests.server.conftest import Site


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
