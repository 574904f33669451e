"""HTTP/1.1 on the wire as uvicorn reads it, with a limit on what stands before a body: the line and the headers of a request."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES_OF_HEAD = 64_000


class HeadLimitProtocol(HttpToolsProtocol):
    """A connection that is closed with status 400 where a head does not end. The parser keeps a header until it is whole, and copies it
    with every part that arrives: tens of megabytes keep the event loop busy for seconds.
    """

    _is_in_head = True
    _head_bytes = 0  # of the head that has not ended yet
    _heads = 0  # that have ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As uvicorn has it."""
        super().connection_made(cast(asyncio.Transport, transport))

    def on_headers_complete(self) -> None:
        """What comes now is a body, of which as much may have arrived with its head as a socket holds."""
        self._is_in_head, self._head_bytes, self._heads = False, 0, self._heads + 1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """What comes now is the head of the next request."""
        self._is_in_head = True
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, and close where it and what came before is nothing but a head."""
        was_in_head, heads = self._is_in_head, self._heads
        super().data_received(data)
        if was_in_head and self._is_in_head and self._heads == heads and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MOST_BYTES_OF_HEAD:
                self.send_400_response(f"The head of the request is longer than {MOST_BYTES_OF_HEAD} bytes.")
