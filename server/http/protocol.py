"""HTTP/1.1 on the wire as uvicorn reads it, with limits on what stands before a body (the line and the headers) and on silence."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES_OF_HEAD = 64_000
#: Seconds that a connection may take to say what it wants; a request in which nothing arrives for so long is given up, too.
HEAD_SECONDS, BODY_SECONDS = 15.0, 60.0


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed where a head does not end, with status 400 once it is too long, and where nothing comes that is awaited.

    The parser keeps a header until it is whole, and copies it with every part that arrives: tens of megabytes keep the event loop busy
    for seconds. Connections that ask for nothing take the place of those that do.
    """

    head_seconds, body_seconds = HEAD_SECONDS, BODY_SECONDS
    _is_in_head = True
    _head_bytes = 0  # of the head that has not ended yet
    _heads = 0  # that have ended
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As uvicorn has it; the first head is awaited."""
        super().connection_made(cast(asyncio.Transport, transport))
        self._await(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn has it; nothing is awaited any more."""
        self._await(None)
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Wait for the body from now on; its beginning may have arrived with the head."""
        self._is_in_head, self._head_bytes, self._heads = False, 0, self._heads + 1
        self._await(self.body_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note that a part of the body arrived."""
        self._await(self.body_seconds)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the head of the next request from now on; uvicorn limits how long a connection is kept."""
        self._is_in_head = True
        self._await(None)
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and close where it and what came before is nothing but a head."""
        was_in_head, heads = self._is_in_head, self._heads
        super().data_received(data)
        is_answered = self.cycle is None or self.cycle.response_complete
        if self._is_in_head and self._patience is None and is_answered:
            self._await(self.head_seconds)
        if was_in_head and self._is_in_head and self._heads == heads and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MOST_BYTES_OF_HEAD:
                self.send_400_response(f"The head of the request is longer than {MOST_BYTES_OF_HEAD} bytes.")

    def _await(self, seconds: float | None) -> None:
        """Close the connection unless something comes in time; None awaits nothing."""
        if self._patience is not None:
            self._patience.cancel()
        self._patience = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if not self._is_in_head and self.flow.read_paused:  # the application has not taken yet what is there
            self._await(self.body_seconds)
        elif not self.transport.is_closing():
            self.transport.close()
