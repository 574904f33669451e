"""A model host in the server's own process, with the interface of a host process: for models that a program already has in memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from explainers.records.targets import TargetLike
from vitrine_server.jobs.catalogue.model_facts import ModelFacts
from vitrine_server.jobs.catalogue.model_source import TellStage
from vitrine_server.jobs.host.host_process import Watch
from vitrine_server.jobs.host.model_host import LoadRequest, ModelHost, TurnCalls
from vitrine_server.jobs.host.work import TellAnswers, Work
from vitrine_server.schemas.question import Question


class HostThread:
    """A model host in the calling thread, with the methods of :class:`HostProcess`. It cannot be killed: a pass that hangs ends only with
    the server.
    """

    can_be_ended = False

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._heard: float | None = None  # when the open call last gave a sign of life; None while none is open
        self.models: set[str] = set()
        self.memory, self.pid = 0, None  # it is no process

    @property
    def silence(self) -> float:
        """Seconds since the open call last called back; 0 while no call is open."""
        heard = self._heard
        return 0.0 if heard is None else time.monotonic() - heard

    def load(self, request: LoadRequest, tell: TellStage, watch: Watch) -> ModelFacts:
        """Load a model in this process and return its facts, see :meth:`ModelHost.load`; ``watch`` is ignored, here and
        in the other calls.
        """
        facts: ModelFacts = self._ask(lambda: self._host.load(request, self._hearing(tell)))
        self.models.add(request.name)
        return facts

    def keep(self, names: Iterable[str], watch: Watch) -> None:
        """Drop all models but these, see :meth:`ModelHost.keep`."""
        self._host.keep(names)
        self.models &= set(names)

    def explain(self, name: str, question: Question, targets: list[TargetLike] | None, calls: TurnCalls, watch: Watch) -> None:
        """Make maps for a question until ``calls`` end the turn, see :meth:`ModelHost.explain`."""
        heard = TurnCalls(**{part: self._hearing(call) for part, call in vars(calls).items()})
        self._ask(lambda: self._host.explain(name, question, targets, heard))

    def answer(self, name: str, work: Work, cancelled: Callable[[], bool], tell: TellAnswers, watch: Watch) -> dict[str, Any]:
        """Run a study on a model and return its answer, see :meth:`ModelHost.answer`."""
        answer: dict[str, Any] = self._ask(lambda: self._host.answer(name, work, self._hearing(cancelled), tell))
        return answer

    def notice_end(self) -> None:
        """Do nothing: a thread of the server ends only with it."""

    def count_free_cores(self) -> None:
        """Choose the number of CPU threads by the cores that other processes leave, see :meth:`ModelHost.count_free_cores`."""
        self._host.count_free_cores()

    def close(self) -> None:
        """Do nothing: the thread ends with the server."""

    def _ask(self, ask: Callable[[], Any]) -> Any:
        before, self._heard = self._heard, time.monotonic()
        try:
            return ask()
        finally:
            self._heard = None if before is None else time.monotonic()

    def _hearing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def heard(*arguments: Any) -> Any:
            self._heard = time.monotonic()
            answer = call(*arguments)
            self._heard = time.monotonic()
            return answer

        return heard
