"""HTTP/1.1 on the wire as uvicorn reads it, with limits on what stands before a body (the line and the headers) and on silence."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES_OF_HEAD = 64_000
#: Seconds that a connection may take to say what it wants; a request in which nothing arrives for so long is given up, too.
HEAD_SECONDS, BODY_SECONDS = 15.0, 60.0


class _QuietTransport:
    """A transport that ignores writes once it is closed. Without it uvloop raises RuntimeError in the middle of an answer to a client that
    disconnected.
    """

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def write(self, data: bytes) -> None:
        """Write ``data``, unless the transport is closed."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def resume_reading(self) -> None:
        """Resume reading, unless the transport is closed."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def pause_reading(self) -> None:
        """Pause reading, unless the transport is closed."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedProtocol(HttpToolsProtocol):
    """An HTTP connection that is closed with status 400 when the head of a request is too long, and closed when awaited data does not
    arrive.

    The parser keeps a header until it is complete, and copies it with every part that arrives: tens of megabytes keep the event loop busy
    for seconds. Silent connections would take the place of others.
    """

    head_seconds, body_seconds = HEAD_SECONDS, BODY_SECONDS
    _is_in_head = True
    _head_bytes = 0  # of the head that has not ended yet
    _heads = 0  # that have ended
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection ``transport`` as uvicorn does, and start the time limit for its first head."""
        super().connection_made(cast(asyncio.Transport, _QuietTransport(transport)))
        self._await(self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection, which was lost for the reason ``exc``, as uvicorn does, and cancel the time limit."""
        self._await(None)
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Start the time limit for the body; its beginning may have arrived with the head."""
        self._is_in_head, self._head_bytes, self._heads = False, 0, self._heads + 1
        self._await(self.body_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Restart the time limit, as a part of the ``body`` arrived."""
        self._await(self.body_seconds)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Cancel the time limit of the body: the head of the next request is awaited, for as long as uvicorn keeps a connection."""
        self._is_in_head = True
        self._await(None)
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Parse the data that arrived, and answer 400 if it continues a head that is too long."""
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
        """Close the connection unless data arrives within ``seconds``; None cancels the time limit."""
        if self._patience is not None:
            self._patience.cancel()
        self._patience = None if seconds is None else self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if not self._is_in_head and self.flow.read_paused:  # the application has not taken yet what is there
            self._await(self.body_seconds)
        elif not self.transport.is_closing():
            self.transport.close()
