"""Models in a process of their own, which can be ended: its two ends, and what is said where it was ended."""

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
from server.http.problems import Problem
from server.http.uploads import forbid_bombs
from server.jobs.model_facts import ModelFacts
from server.jobs.model_host import LoadRequest, ModelHost, TurnCalls
from server.jobs.processes import START_METHOD
from server.jobs.rpc import ConnectionLostError, Functions, RpcConnection
from server.jobs.work import TellAnswers, Work, between_passes
from server.log import set_up_log
from server.schemas.question import Question

log = logging.getLogger(__name__)
#: Says what a process is ended for that has said nothing for so many seconds; None: it goes on.
Watch = Callable[[float], Problem | None]
_LOOK = 0.1  # seconds between two looks at a process that says nothing
_POLL = 0.05  # seconds between two questions of a process whether to stop
_IDLE_LOOK = 5.0  # seconds between two looks of an idle process at the cores that are free


class HostLostError(Exception):
    """The process has ended before it had done what it was asked.

    problem    what to tell whoever asked
    is_guilty  whether it was this task that it worked at: not one within whose passes that was done, and not one that it never began
    """

    def __init__(self, problem: Problem, is_guilty: bool) -> None:
        super().__init__(problem.detail)
        self.problem, self.is_guilty = problem, is_guilty


class HostProcess:
    """A :class:`ModelHost` in another process, which is started when it is needed. One thread asks; any may read
    ``silence``, ``memory`` and ``pid``.

    models  what it has in memory
    """

    can_be_ended = True

    def __init__(self, make_host: Callable[[], ModelHost], logs: tuple[str, str], on_end: Callable[[str], None] = lambda _: None) -> None:
        """``make_host``, which can be pickled, makes the host there, whose log has the level and format of ``logs``; ``on_end`` is told why
        a process ended.
        """
        self._make_host, self._logs, self._on_end = make_host, logs, on_end
        self.pid: int | None = None
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._rpc: RpcConnection | None = None
        self._heard = time.monotonic()
        self._watches: list[Watch] = []
        self._problem: Problem | None = None  # for which it is ended
        self._last_problem: Problem | None = None  # for which the one before was ended
        self.models: set[str] = set()

    def notice_end(self) -> None:
        """Find out where it has ended with nothing to do: it has no models then."""
        if self._process is not None and not self._watches and not self._process.is_alive():
            self._end()

    # --- what it is asked ------------------------------------------------------------------------------------------------

    def load(self, request: LoadRequest, watch: Watch) -> ModelFacts:
        """As :meth:`ModelHost.load`; raises HostLostError, as do the others."""
        facts: ModelFacts = self._ask(watch, {}, "load", request)
        self.models.add(request.name)
        return facts

    def keep(self, names: Iterable[str], watch: Watch) -> None:
        """As :meth:`ModelHost.keep`."""
        wanted = set(names)
        if self.models - wanted:
            self._ask(watch, {}, "keep", wanted)
            self.models &= wanted

    def explain(self, name: str, question: Question, targets: list[TargetLike] | None, calls: TurnCalls, watch: Watch) -> None:
        """As :meth:`ModelHost.explain`."""
        self._ask(watch, vars(calls), "explain", name, question, targets)

    def answer(self, name: str, work: Work, cancelled: Callable[[], bool], tell: TellAnswers, watch: Watch) -> dict[str, Any]:
        """As :meth:`ModelHost.answer`."""
        answer: dict[str, Any] = self._ask(watch, {"cancelled": cancelled, "tell": tell}, "answer", name, work)
        return answer

    def count_free_cores(self) -> None:
        """It does so by itself."""

    def _ask(self, watch: Watch, offered: Functions, name: str, *arguments: Any) -> Any:
        rpc = self._started()
        self._watches.append(watch)
        self._heard, before = time.monotonic(), rpc.received
        try:
            with rpc.offer(offered):
                return rpc.call(name, *arguments)
        except ConnectionLostError:
            if rpc is not self._rpc:  # what was asked within this has found it out
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
        """Seconds since it was heard of; 0 where nothing is asked of it."""
        return time.monotonic() - self._heard if self._watches else 0.0

    @property
    def memory(self) -> int:
        """Bytes that it holds; 0 where it does not run."""
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
        """Until the process says something. Ends it where it is silent for too long for what it was asked last."""
        self._heard = time.monotonic()
        try:
            while not connection.poll(_LOOK):
                self._problem = self._watches[-1](time.monotonic() - self._heard)
                if self._problem is not None:
                    raise ConnectionLostError
        except OSError as error:
            raise ConnectionLostError from error

    def _end(self) -> Problem:
        """End the process, if it has not, and say why it ended."""
        reason, pid = "ended by the server", self.pid
        if self._problem is None:
            assert self._process is not None
            self._process.join(1)  # it is at its end: so is its connection
            reason = _ending(self._process.exitcode)
            send = "Ask again; where it ends again, ask for less, or choose another model."
            self._problem = Problem(503, "worker-ended", f"The process of the models {reason} while this was made.", send=send)
        log.warning("the process of the models (%s) %s: %s", pid, reason, self._problem.detail)
        self._on_end(self._problem.slug)
        self._last_problem = self._problem
        self.close()
        return self._last_problem

    def close(self) -> None:
        """End the process at once, with all that it holds. The next question starts another one."""
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
    """Have a host do what comes over the connection, until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the server, which ends this one
    threading.Thread(target=_end_with_server, daemon=True).start()
    set_up_log(*logs)
    forbid_bombs()
    host = make_host()

    def wait(connection: Connection) -> None:
        while depth == 0 and not connection.poll(_IDLE_LOOK):
            host.count_free_cores()

    depth = 0

    def within(function: Callable[..., Any]) -> Callable[..., Any]:
        """What is done between two passes of something else leaves that its random numbers."""

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
        host.explain(name, question, targets, TurnCalls(left, next_method, _Rarely(cancelled), answered, mapped))

    def answer(name: str, work: Work) -> dict[str, Any]:
        return host.answer(name, work, _Rarely(partial(rpc.call, "cancelled")), partial(rpc.tell, "tell"))

    functions: Functions = {"load": host.load, "keep": host.keep, "explain": explain, "answer": answer}
    rpc = RpcConnection(connection, {name: within(function) for name, function in functions.items()}, wait)
    rpc.serve()
    os._exit(0)  # whatever threads a model has left


class _Rarely:
    """Whether to stop, asked of the server at most every ``_POLL`` seconds: passes of small models are over sooner."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled, self._asked = cancelled, float("-inf")

    def __call__(self) -> bool:
        if time.monotonic() - self._asked < _POLL:
            return False
        answer = self._cancelled()
        self._asked = time.monotonic()
        return answer


def _end_with_server() -> None:
    """Whatever a model is at: nobody is left to end it later."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        sys.stderr.flush()
        os._exit(1)
