"""A host of models in the server's own process: for models that a program already has in memory."""

from __future__ import annotations

import logging
import math
import time
from typing import cast

from vitrine_server.jobs.catalogue.model_facts import DeviceBudget, ResidentModel
from vitrine_server.jobs.host.interface import HostRequest, Reply, Result, Stream, Watch
from vitrine_server.jobs.host.lost_device import DeviceLostError
from vitrine_server.jobs.host.model_host import ModelHost

log = logging.getLogger(__name__)


class HostThread:
    """A :class:`vitrine_server.jobs.host.interface.Host` in this process. It cannot be killed: a pass that hangs ends only with the
    server.
    """

    can_be_ended = False
    pid, memory = None, 0  # it is no process

    def __init__(self, host: ModelHost) -> None:
        self._host = host
        self._waits_since: float | None = None
        self.has_lost_device = False
        self.models: dict[str, ResidentModel] = {}
        self.budget: DeviceBudget | None = None

    @property
    def silence(self) -> float:
        """Return the seconds for which the server has waited for the next message: 0 while it does not wait, infinity once the device is
        lost.
        """
        if self.has_lost_device:
            return math.inf
        since = self._waits_since
        return 0.0 if since is None else time.monotonic() - since

    def ask(self, request: HostRequest[Result], watch: Watch) -> Stream[Result]:
        """Begin a request and yield its messages; ``watch`` is ignored."""
        stream, reply = self._host.ask(request), cast("Reply", None)
        try:
            while True:
                self._waits_since = time.monotonic()
                message = stream.send(reply)
                self._waits_since = None
                reply = yield message
        except StopIteration as end:
            result: Result = end.value
            return result
        except DeviceLostError:  # whatever is asked next fails, and no other process takes its place: the server has to be restarted
            self.has_lost_device = True
            raise
        finally:
            self._waits_since = None
            stream.close()

    def look_after(self) -> None:
        """Do the chores of an idle host, see :meth:`ModelHost.rest`."""
        try:
            self._host.rest()
        except DeviceLostError as error:
            log.error("the server has to be started again: %s", error)
            self.has_lost_device = True

    def close(self) -> None:
        """End the threads that wait for requests."""
        self._host.close()
