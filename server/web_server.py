"""uvicorn as Vitrine runs it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from server.http.protocol import BoundedProtocol
from server.settings import Settings

_GRACE = 4  # seconds: an open event stream would keep the server from stopping


class WebServer(uvicorn.Server):
    """An application behind sockets. ``on_start`` is told the first of them once it answers; ``ready`` is set then, or where it will not.

    The application logs its calls itself, and knows itself which proxies it believes.
    """

    def __init__(self, app: FastAPI, settings: Settings, on_start: Callable[[socket.socket], None] = lambda _: None) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            log_config=None,  # see server.log
            timeout_graceful_shutdown=_GRACE,
            access_log=False,
            proxy_headers=False,
        )
        super().__init__(config)
        self.ready, self._on_start = threading.Event(), on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn has it."""
        try:
            await super().startup(sockets)
        finally:
            self.ready.set()
        if self.started and sockets:
            self._on_start(sockets[0])
