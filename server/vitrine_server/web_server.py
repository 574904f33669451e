"""uvicorn as Vitrine runs it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from vitrine_server.http.protocol import BoundedProtocol
from vitrine_server.settings import Settings

_GRACE_SECONDS = 4  # seconds: an open event stream would keep the server from stopping


class WebServer(uvicorn.Server):
    """A uvicorn server of an application. ``on_start`` is called with the first socket once it answers; ``ready`` is set then, or when the
    start failed.

    Uvicorn's access log and proxy headers are off, as the application handles both itself.
    """

    def __init__(self, app: FastAPI, settings: Settings, on_start: Callable[[socket.socket], None] = lambda _: None) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            log_config=None,  # see vitrine_server.log
            timeout_graceful_shutdown=_GRACE_SECONDS,
            access_log=False,
            proxy_headers=False,
        )
        super().__init__(config)
        self.ready, self._on_start = threading.Event(), on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start on ``sockets`` as uvicorn does, then set ``ready`` and call ``on_start``."""
        try:
            await super().startup(sockets)
        finally:
            self.ready.set()
        if self.started and sockets:
            self._on_start(sockets[0])
