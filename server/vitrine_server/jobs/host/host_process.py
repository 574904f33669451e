"""A process that holds the models and can be killed: the side of the server, and the side of the process."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import psutil

from explainers.records.targets import TargetLike
from vitrine_server.http.problems import Problem
from vitrine_server.http.uploads import forbid_bombs
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.catalogue.model_source import TellStage
from vitrine_server.jobs.host.model_host import LoadRequest, ModelHost, TurnCalls
from vitrine_server.jobs.host.processes import START_METHOD
from vitrine_server.jobs.host.rpc import ConnectionLostError, Functions, RpcConnection
from vitrine_server.jobs.host.work import TellAnswers, Work, between_passes
from vitrine_server.log import set_up_log
from vitrine_server.schemas.question import Question

log = logging.getLogger(__name__)
#: From the seconds since the last message of a process to the Problem for which it is killed; None lets it go on.
Watch = Callable[[float], Problem | None]
_LOOK = 0.1  # seconds between two checks of a silent process
_POLL = 0.05  # seconds between two checks, by the process, whether to stop
_IDLE_LOOK = 5.0  # seconds after which an idle process counts the free cores again


class HostLostError(Exception):
    """Raised when the process of the models ended before it had answered a call.

    problem    the refusal to send to the visitor
    is_guilty  whether the process ended during this call itself, not during a call nested in it and not before it began
    """

    def __init__(self, problem: Problem, is_guilty: bool) -> None:
        super().__init__(problem.detail)
        self.problem, self.is_guilty = problem, is_guilty


class HostProcess:
    """A :class:`ModelHost` in another process, which is started at the first call. One thread calls it; any thread may read ``silence``,
    ``memory`` and ``pid``.

    models  names of the models in its memory
    """

    can_be_ended = True

    def __init__(self, make_host: Callable[[], ModelHost], logs: tuple[str, str], on_end: Callable[[str], None] = lambda _: None) -> None:
        """``make_host`` (picklable) makes the host inside the process; ``logs`` is the level and format of its log; ``on_end`` gets the
        slug of the problem for which a process ended.
        """
        self._make_host, self._logs, self._on_end = make_host, logs, on_end
        self.pid: int | None = None
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._rpc: RpcConnection | None = None
        self._heard = time.monotonic()
        self._watches: list[Watch] = []
        self._problem: Problem | None = None  # for which it is being killed
        self._last_problem: Problem | None = None  # for which the process before this one ended
        self.models: set[str] = set()

    def notice_end(self) -> None:
        """Detect a process that ended while it was idle; it has lost its models."""
        if self._process is not None and not self._watches and not self._process.is_alive():
            self._end()

    # --- calls -----------------------------------------------------------------------------------------------------------

    def load(self, request: LoadRequest, tell: TellStage, watch: Watch) -> ModelFacts:
        """Load a model in the process and return its facts, see :meth:`ModelHost.load`. Raises HostLostError if the process ends or
        ``watch`` has it killed; so do the other calls.
        """
        facts: ModelFacts = self._ask(watch, {"tell": tell}, "load", request)
        self.models.add(request.name)
        return facts

    def keep(self, names: Iterable[str], watch: Watch) -> None:
        """Have the process drop all models but these, see :meth:`ModelHost.keep`."""
        wanted = set(names)
        if self.models - wanted:
            self._ask(watch, {}, "keep", wanted)
            self.models &= wanted

    def explain(self, name: str, question: Question, targets: list[TargetLike] | None, calls: TurnCalls, watch: Watch) -> None:
        """Have the process make maps for a question until ``calls`` end the turn, see :meth:`ModelHost.explain`."""
        self._ask(watch, vars(calls), "explain", name, question, targets)

    def answer(self, name: str, work: Work, cancelled: Callable[[], bool], tell: TellAnswers, watch: Watch) -> dict[str, Any]:
        """Have the process run a study on a model and return its answer, see :meth:`ModelHost.answer`."""
        answer: dict[str, Any] = self._ask(watch, {"cancelled": cancelled, "tell": tell}, "answer", name, work)
        return answer

    def count_free_cores(self) -> None:
        """Do nothing: the process counts them itself while it is idle."""

    def _ask(self, watch: Watch, offered: Functions, name: str, *arguments: Any) -> Any:
        rpc = self._started()
        self._watches.append(watch)
        self._heard, before = time.monotonic(), rpc.received
        try:
            with rpc.offer(offered):
                return rpc.call(name, *arguments)
        except ConnectionLostError:
            if rpc is not self._rpc:  # a nested call has detected the end
                assert self._last_problem is not None
                raise HostLostError(self._last_problem, is_guilty=False) from None
            is_guilty = self._problem is not None or rpc.received > before  # else it may have been gone before
            raise HostLostError(self._end(), is_guilty) from None
        finally:
            self._watches.pop()
            self._heard = time.monotonic()

    # --- the process -----------------------------------------------------------------------------------------------------

    @property
    def silence(self) -> float:
        """Seconds since the last message of the process while a call is open; 0 while none is."""
        return time.monotonic() - self._heard if self._watches else 0.0

    @property
    def memory(self) -> int:
        """Resident memory of the process in bytes; 0 if none runs."""
        pid = self.pid
        try:
            return 0 if pid is None else int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return 0

    def _started(self) -> RpcConnection:
        if self._rpc is None:
            context = multiprocessing.get_context(START_METHOD)
            ours, theirs = context.Pipe()
            arguments = (theirs, self._make_host, self._logs)
            self._process = context.Process(target=_serve, args=arguments, name="vitrine models", daemon=True)  # type: ignore[attr-defined]
            self._process.start()
            self.pid = self._process.pid
            theirs.close()
            self._connection = ours
            self._rpc = RpcConnection(ours, {}, self._wait)
            self._problem = None
        return self._rpc

    def _wait(self, connection: Connection) -> None:
        """Block until the process sends a message. Raises ConnectionLostError if the watch of the innermost call wants it killed."""
        self._heard = time.monotonic()
        try:
            while not connection.poll(_LOOK):
                self._problem = self._watches[-1](time.monotonic() - self._heard)
                if self._problem is not None:
                    raise ConnectionLostError
        except OSError as error:
            raise ConnectionLostError from error

    def _end(self) -> Problem:
        """Kill the process if it still runs; return the Problem for which it ended."""
        reason, pid = "ended by the server", self.pid
        if self._problem is None:
            assert self._process is not None
            self._process.join(1)  # its connection has closed, so it is about to end
            reason = _ending(self._process.exitcode)
            send = "Ask again; where it ends again, ask for less, or choose another model."
            self._problem = Problem(503, "worker-ended", f"The process of the models {reason} while this was made.", send=send)
        log.warning("the process of the models (%s) %s: %s", pid, reason, self._problem.detail)
        self._on_end(self._problem.slug)
        self._last_problem = self._problem
        self.close()
        return self._last_problem

    def close(self) -> None:
        """Kill the process and drop its models. The next call starts another one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._connection is not None:
            self._connection.close()
        self._process = self._connection = self._rpc = self.pid = None
        self.models = set()


def _ending(code: int | None) -> str:
    if code is None:
        return "hung up"
    return f"was killed ({signal.Signals(-code).name})" if code < 0 else f"exited with {code}"


# --- in the process ------------------------------------------------------------------------------------------------------


def _serve(connection: Connection, make_host: Callable[[], ModelHost], logs: tuple[str, str]) -> None:
    """The main function of the process: serve calls to a host until the server closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, which then ends this process
    threading.Thread(target=_end_with_server, daemon=True).start()
    set_up_log(*logs)
    forbid_bombs()
    host = make_host()

    def wait(connection: Connection) -> None:
        while depth == 0 and not connection.poll(_IDLE_LOOK):
            host.count_free_cores()

    depth = 0

    def within(function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``function`` so that a nested call leaves the random numbers of the outer one unchanged, see :func:`between_passes`."""

        def run(*arguments: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                if depth == 1:
                    return function(*arguments)
                with between_passes():
                    return function(*arguments)
            finally:
                depth -= 1

        return run

    def explain(name: str, question: Question, targets: list[TargetLike] | None) -> None:
        left, next_method, cancelled, answered, mapped = (partial(rpc.call, part.name) for part in fields(TurnCalls))
        host.explain(name, question, targets, TurnCalls(left, next_method, _Throttled(cancelled), answered, mapped))

    def answer(name: str, work: Work) -> dict[str, Any]:
        return host.answer(name, work, _Throttled(partial(rpc.call, "cancelled")), partial(rpc.notify, "tell"))

    def load(request: LoadRequest) -> ModelFacts:
        return host.load(request, partial(rpc.notify, "tell"))

    functions: Functions = {"load": load, "keep": host.keep, "explain": explain, "answer": answer}
    rpc = RpcConnection(connection, {name: within(function) for name, function in functions.items()}, wait)
    rpc.serve()
    os._exit(0)  # whatever threads a model has left


class _Throttled:
    """A wrapper of ``cancelled`` that calls it at most every ``_POLL`` seconds and returns False in between: small models make many passes
    in that time.
    """

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled, self._asked = cancelled, float("-inf")

    def __call__(self) -> bool:
        if time.monotonic() - self._asked < _POLL:
            return False
        answer = self._cancelled()
        self._asked = time.monotonic()
        return answer


def _end_with_server() -> None:
    """Exit when the server has ended, even in the middle of a pass."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        sys.stderr.flush()
        os._exit(1)
