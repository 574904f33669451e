"""Remote procedure calls between two processes over one connection, in both directions; calls may be nested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

Functions = Mapping[str, Callable[..., Any]]


class ConnectionLostError(Exception):
    """Raised when the other process has closed the connection or ended."""


class RpcConnection:
    """One end of a connection over which two processes call each other's functions.

    While one side waits for the result of a call, it serves the calls of the other side. Nested calls return in reverse order, so messages
    need no number. ``received`` counts the messages that arrived.
    """

    def __init__(self, connection: Connection, functions: Functions, wait: Callable[[Connection], None] = lambda _: None) -> None:
        """Wrap a connection; ``functions`` are the functions that the other side may call; ``wait`` blocks until a message is there, or
        raises.
        """
        self._connection, self._offered, self._wait = connection, [functions], wait
        self.received = 0

    @contextmanager
    def offer(self, functions: Functions) -> Iterator[None]:
        """Let the other side call ``functions`` inside this context, in place of those offered before."""
        self._offered.append(functions)
        try:
            yield
        finally:
            self._offered.pop()

    def call(self, name: str, *arguments: Any) -> Any:
        """Call the function ``name`` of the other side and return its result. Raises what it raises, and ConnectionLostError."""
        self._send(("call", name, arguments))
        while True:
            kind, *message = self._receive()
            if kind == "return":
                return message[0]
            if kind == "raise":
                raise message[0]
            self._serve(kind, *message)

    def notify(self, name: str, *arguments: Any) -> None:
        """Have the other side call its function ``name``, without waiting for a result."""
        self._send(("notify", name, arguments))

    def serve(self) -> None:
        """Serve the calls of the other side until it closes the connection."""
        with suppress(ConnectionLostError):
            while True:
                self._serve(*self._receive())

    def _serve(self, kind: str, name: str, arguments: tuple[Any, ...]) -> None:
        function = self._offered[-1][name]
        if kind == "notify":
            function(*arguments)
            return
        try:
            answer = ("return", function(*arguments))
        except ConnectionLostError:
            raise
        except Exception as error:
            answer = ("raise", error)
        self._send(answer)

    def _receive(self) -> Any:
        self._wait(self._connection)
        try:
            message = self._connection.recv()
        except (EOFError, OSError) as error:
            raise ConnectionLostError from error
        self.received += 1
        return message

    def _send(self, message: Any) -> None:
        data = ForkingPickler.dumps(message)  # what cannot be pickled raises before any of it is sent
        try:
            self._connection.send_bytes(data)
        except OSError as error:
            raise ConnectionLostError from error
