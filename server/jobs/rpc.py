"""Two processes that call functions of each other over one connection: one call at a time, and calls within calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

Functions = Mapping[str, Callable[..., Any]]


class ConnectionLostError(Exception):
    """The other side is gone."""


class RpcConnection:
    """One end of a connection.

    A side that waits for the answer to a call does meanwhile what the other side asks of it, which may be a call of its own. Answers
    come in the reverse order of calls, so no message needs a number. ``received`` counts messages.
    """

    def __init__(self, connection: Connection, functions: Functions, wait: Callable[[Connection], None] = lambda _: None) -> None:
        """``functions`` are what the other side may call; ``wait`` returns once there is a message, or raises."""
        self._connection, self._offered, self._wait = connection, [functions], wait
        self.received = 0

    @contextmanager
    def offer(self, functions: Functions) -> Iterator[None]:
        """Within it the other side may call these ``functions`` alone."""
        self._offered.append(functions)
        try:
            yield
        finally:
            self._offered.pop()

    def call(self, name: str, *arguments: Any) -> Any:
        """What the function ``name`` of the other side returns. Raises what it raises, and ConnectionLostError where nobody is there."""
        self._send(("call", name, arguments))
        while True:
            kind, *message = self._receive()
            if kind == "return":
                return message[0]
            if kind == "raise":
                raise message[0]
            self._serve(kind, *message)

    def tell(self, name: str, *arguments: Any) -> None:
        """Have the other side call its function ``name``; nobody waits for it."""
        self._send(("tell", name, arguments))

    def serve(self) -> None:
        """Do what the other side asks, until it is gone."""
        with suppress(ConnectionLostError):
            while True:
                self._serve(*self._receive())

    def _serve(self, kind: str, name: str, arguments: tuple[Any, ...]) -> None:
        function = self._offered[-1][name]
        if kind == "tell":
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
