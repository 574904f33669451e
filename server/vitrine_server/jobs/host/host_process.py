"""A host of models in a process that can be killed: the side of the server, and the side of the process."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn, cast

import psutil

from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import forbid_bombs
from vitrine_server.jobs.catalogue.model_facts import DeviceBudget, ResidentModel
from vitrine_server.jobs.host.interface import DropRequest, HostLostError, HostRequest, Message, Reply, Result, Stream, Watch
from vitrine_server.jobs.host.lost_device import DeviceGoneError, DeviceLostError
from vitrine_server.jobs.host.model_host import ModelHost
from vitrine_server.jobs.host.processes import START_METHOD
from vitrine_server.log import set_up_log

log = logging.getLogger(__name__)
_LOOK = 0.1  # seconds between two checks of a silent process
_PAUSE = 0.05  # seconds between two checks, by the process, whether to stop
_DEVICE_LOST = 75  # exit code of a process whose GPU answers nothing more: EX_TEMPFAIL of sysexits.h
_DEVICE_GONE = 69  # of one that could not use its GPU from the start: EX_UNAVAILABLE
_IDLE_LOOK = 5.0  # seconds after which an idle process does its chores again, see ModelHost.rest
_KILL_SECONDS = 10.0  # after which a process that was killed is left alone: the kernel does not end one that waits for a GPU that hangs
_MAX_LOSSES = 3  # processes in a row that lost their device before one request was answered: then the next is not expected to fare better
_STOP_SECONDS = 15.0  # for which a process goes on that was told to stop: as long as a service may take to stop

# The server sends (number of the request, "ask", the request), then (number, "reply", a reply) for each message, or (number, "close", None)
# to stop it. The process answers each of these once: with ("message", a message), ("result", the result) or ("error", what was raised).


class HostProcess:
    """A :class:`vitrine_server.jobs.host.interface.Host` in another process, which is started at the first request."""

    can_be_ended = True

    def __init__(self, make_host: Callable[[], ModelHost], logs: tuple[str, str], on_end: Callable[[str], None] = lambda _: None) -> None:
        """``make_host`` (picklable) makes the host inside the process; ``logs`` is the level and format of its log; ``on_end`` gets the
        slug of the problem for which a process ended, or "device-lost" where its GPU answered nothing more.
        """
        self._make_host, self._logs, self._on_end = make_host, logs, on_end
        self.pid: int | None = None
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._numbers = itertools.count()
        self._waits_since: float | None = None
        self.has_lost_device = False
        self._losses = 0  # processes that lost their device since the last request was answered
        self._last_problem: Problem | None = None  # for which the last process ended
        self.models: dict[str, ResidentModel] = {}
        self.budget: DeviceBudget | None = None

    def look_after(self) -> None:
        """Detect a process that ended while it was idle; it has lost its models."""
        if self._process is not None and not self._process.is_alive():
            self._end(None)

    # --- requests --------------------------------------------------------------------------------------------------------

    def ask(self, request: HostRequest[Result], watch: Watch) -> Stream[Result]:
        """Begin a request in the process and yield its messages. Raises HostLostError if the process ends or ``watch`` has it killed."""
        connection, number, has_begun = self._started(), next(self._numbers), False
        kind, value = self._exchange(connection, (number, "ask", request), watch, has_begun)
        while kind == "message":
            has_begun = True
            try:
                reply: Reply = yield cast("Message", value)
            except GeneratorExit:
                self._exchange(connection, (number, "close", None), watch, has_begun)
                raise
            kind, value = self._exchange(connection, (number, "reply", reply), watch, has_begun)
        if kind == "error":
            raise value
        if not isinstance(request, DropRequest):  # which needs no device that works
            self.has_lost_device, self._losses = False, 0
        return cast("Result", value)

    def _exchange(self, connection: Connection, step: tuple[int, str, Any], watch: Watch, has_begun: bool) -> tuple[str, Any]:
        """Send a step of a request (its number, "ask", "reply" or "close", and a value) through ``connection`` and return the answer of the
        process. Raises HostLostError if the process has ended, or if ``watch``, called with the seconds of silence, returns a Problem: then
        the process is killed. ``has_begun`` says whether this request may be why it has ended.
        """
        if connection is not self._connection:  # another request has detected the end
            assert self._last_problem is not None
            raise HostLostError(self._last_problem, is_guilty=False)
        data = ForkingPickler.dumps(step)  # what cannot be pickled raises before any of it is sent
        since = self._waits_since = time.monotonic()
        try:
            connection.send_bytes(data)
            while not connection.poll(_LOOK):
                if (problem := watch(time.monotonic() - since)) is not None:
                    raise HostLostError(self._end(problem), is_guilty=True)
            answer: tuple[str, Any] = connection.recv()
        except (EOFError, OSError):
            raise HostLostError(self._end(None), has_begun) from None
        finally:
            self._waits_since = None
        return answer

    # --- the process -----------------------------------------------------------------------------------------------------

    @property
    def silence(self) -> float:
        """Return the seconds for which the server has waited for the next message of the process; 0 while it does not wait."""
        since = self._waits_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def memory(self) -> int:
        """Return the resident memory of the process in bytes; 0 if none runs."""
        pid = self.pid
        try:
            return 0 if pid is None else int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return 0

    def _started(self) -> Connection:
        if self._connection is None:
            context = multiprocessing.get_context(START_METHOD)
            self._connection, theirs = context.Pipe()
            arguments = (theirs, self._make_host, self._logs)
            self._process = context.Process(target=_serve, args=arguments, name="vitrine models", daemon=True)  # type: ignore[attr-defined]
            self._process.start()
            self.pid = self._process.pid
            theirs.close()
        return self._connection

    def _end(self, problem: Problem | None) -> Problem:
        """Kill the process, for a ``problem`` or because it has ended by itself (None); return the Problem for which it ended."""
        reason, pid, code = "ended by the server", self.pid, None
        if problem is None:
            assert self._process is not None
            self._process.join(1)  # its connection has closed, so it is about to end
            code = self._process.exitcode
            reason = _ending(code)
            send = "Ask again; where it ends again, ask for less, or choose another model."
            problem = Problem(503, "worker-ended", f"The process of the models {reason} while this was made.", send=send)
        log.warning("the process of the models (%s) %s: %s", pid, reason, problem.detail)
        self._losses += code == _DEVICE_LOST
        self.has_lost_device = code == _DEVICE_GONE or self._losses >= _MAX_LOSSES
        self._on_end("device-lost" if code in (_DEVICE_LOST, _DEVICE_GONE) else problem.slug)
        self._last_problem = problem
        self.close()
        return problem

    def close(self) -> None:
        """Kill the process and drop its models. The next request starts another one. A process that does not end by it holds the device:
        that counts as lost.
        """
        if self._process is not None:
            self._process.kill()
            self._process.join(_KILL_SECONDS)
            if self._process.exitcode is None:
                log.error("the process of the models (%s) cannot be killed, so its device hangs: restart the machine", self.pid)
                self.has_lost_device = True
            else:
                self._process.close()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = self.pid = None
        self.models = {}


def _ending(code: int | None) -> str:
    if code is None:
        return "hung up"
    if code == _DEVICE_LOST:
        return "lost its device"
    if code == _DEVICE_GONE:
        return "found no device that it can use"
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else f"exited with {code}"


# --- in the process ------------------------------------------------------------------------------------------------------


def _serve(connection: Connection, make_host: Callable[[], ModelHost], logs: tuple[str, str]) -> None:
    """Make a host and answer the server's requests to it until the connection is closed: the main function of a process of models. ``logs``
    is the level and format of its log.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, which then ends this process
    signal.signal(signal.SIGTERM, _end_later)
    threading.Thread(target=_end_with_server, daemon=True).start()
    set_up_log(*logs)
    forbid_bombs()
    host = make_host()
    host.pause_seconds = _PAUSE
    streams: dict[int, Stream[Any]] = {}
    with suppress(EOFError, OSError):
        while True:
            while not streams and not connection.poll(_IDLE_LOOK):
                _rest(host)
            connection.send_bytes(_step(host, streams, *connection.recv()))
    os._exit(0)  # whatever threads a model has left


def _step(host: ModelHost, streams: dict[int, Stream[Any]], number: int, kind: str, value: Any) -> bytes:
    """Carry out one step of the request ``number`` on ``host``, with ``value``: begin it ("ask"), pass it a reply, or end it ("close");
    ``streams`` holds the requests that are open. Return the pickled answer to the server: the request's next message, its result, or its
    error.
    """
    try:
        if kind == "close":
            streams.pop(number).close()
            return bytes(ForkingPickler.dumps(("result", None)))
        if kind == "ask":
            streams[number] = host.ask(value)
        return bytes(ForkingPickler.dumps(("message", streams[number].send(value if kind == "reply" else None))))
    except StopIteration as end:
        del streams[number]
        return bytes(ForkingPickler.dumps(("result", end.value)))
    except DeviceLostError as error:
        _end_without_device(error)
    except Exception as error:
        streams.pop(number, None)
        return bytes(ForkingPickler.dumps(("error", error)))


def _rest(host: ModelHost) -> None:
    """Have an idle ``host`` do its chores; if its GPU has gone meanwhile, the process ends before anybody asks it."""
    try:
        host.rest()
    except DeviceLostError as error:
        _end_without_device(error)


def _end_without_device(error: DeviceLostError) -> NoReturn:
    log.error("this process ends, and its models are loaded by the next one: %s", error)
    sys.stderr.flush()
    os._exit(_DEVICE_GONE if isinstance(error, DeviceGoneError) else _DEVICE_LOST)


def _end_later(*_: object) -> None:
    """Exit some seconds from now, on a signal to stop. Service managers send it to all processes of a service at once: the server stops
    first, keeps the explanations under way for its next start, and ends this process itself.
    """
    timer = threading.Timer(_STOP_SECONDS, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _end_with_server() -> None:
    """Exit when the server has ended, even in the middle of a pass."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        sys.stderr.flush()
        os._exit(1)
