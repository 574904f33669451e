"""Work that sends messages from the depth of its calls, as a stream that stops at each of them until it is asked for the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from queue import SimpleQueue
from typing import Any, cast

from explainers.records.session import Cancelled
from vitrine_server.jobs.host.interface import Message, Reply, Result, Stream
from vitrine_server.jobs.host.work import between_passes

#: Sends a message and returns the reply to it. Raises Cancelled if nobody follows the stream any more.
Tell = Callable[[Message], Any]


class _WorkThread(threading.Thread):
    """A thread that runs one piece of work after another, each given by ``begin``; None ends it."""

    def __init__(self) -> None:
        super().__init__(name="models", daemon=True)
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.begin = self._works.put
        self.start()

    def run(self) -> None:
        while (work := self._works.get()) is not None:
            work()
            del work  # which may hold a model


class WorkThreads:
    """The threads in which streams run, one for each open stream. Those of ended streams are used again, as torch and CUDA keep buffers for
    each thread.
    """

    def __init__(self) -> None:
        self._idle: list[_WorkThread] = []
        self._open = 0

    def stream(self, work: Callable[[Tell], Result]) -> Stream[Result]:
        """Run ``work`` in a thread and yield the messages that it tells; only one of the two threads runs at a time. If the stream is
        closed, the work is ended where it stands, by Cancelled.
        """
        replies: SimpleQueue[tuple[bool, Reply]] = SimpleQueue()  # whether somebody follows, and the reply
        steps: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        surroundings = between_passes if self._open else nullcontext  # others stand between two of their passes

        def tell(message: Message) -> Reply:
            steps.put(("message", message))
            is_followed, reply = replies.get()
            if not is_followed:
                replies.put((False, None))  # whatever it tells on its way out
                raise Cancelled
            return reply

        def run() -> None:
            try:
                with surroundings():
                    result = work(tell)
            except BaseException as error:  # it is raised again in the thread that follows
                steps.put(("error", error))
            else:
                steps.put(("result", result))

        self._open += 1
        thread = self._idle.pop() if self._idle else _WorkThread()
        thread.begin(run)
        try:
            while (step := steps.get())[0] == "message":
                try:
                    reply = yield step[1]
                except GeneratorExit:
                    replies.put((False, None))
                    while steps.get()[0] == "message":
                        pass
                    raise
                replies.put((True, reply))
        finally:
            self._open -= 1
            self._idle.append(thread)
        kind, outcome = step
        del step
        if kind == "result":
            return cast("Result", outcome)
        try:
            raise outcome
        finally:
            del outcome  # else the frames of its traceback, and so tensors, would hold each other

    def close(self) -> None:
        """End the idle threads."""
        while self._idle:
            self._idle.pop().begin(None)
