"""What can be asked of a host of models, the messages that it sends while it works, and how a thread of the server follows them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from explainers.records.targets import TargetLike
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.catalogue.model_facts import DeviceBudget, ModelFacts, ResidentModel
from vitrine_server.jobs.host.work import Work
from vitrine_server.schemas.question import Question

#: What a request is answered with at its end.
Result = TypeVar("Result")
#: From the seconds since the last message of a host to the Problem for which it is killed; None lets it go on.
Watch = Callable[[float], Problem | None]

# --- requests ----------------------------------------------------------------------------------------------------------------


class HostRequest(Generic[Result]):
    """A request to a host, as plain data: it may go to another process."""


@dataclass(frozen=True)
class LoadRequest(HostRequest[ModelFacts]):
    """A request to load a model by name, or from the ``place`` of an upload; ``open_options`` are arguments of ``explainers.open``. The
    result is the facts of the model.
    """

    name: str
    place: Path | None = None
    open_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DropRequest(HostRequest[None]):
    """A request to drop the models in ``names`` from memory; names that are not there are no error."""

    names: frozenset[str]


@dataclass(frozen=True)
class ExplainRequest(HostRequest[None]):
    """A request to make maps of ``specs`` with the model ``name`` for ``question`` and ``targets``, until the answer to
    :class:`ChooseMethod` is None.
    """

    name: str
    question: Question
    targets: list[TargetLike] | None
    specs: list[str]


@dataclass(frozen=True)
class StudyRequest(HostRequest[dict[str, Any]]):
    """A request to run a study, ``work``, on the model ``name``. The result is the study's answer as JSON."""

    name: str
    work: Work


# --- messages ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Begun:
    """The first message of every request: the host has begun to work on it."""


@dataclass(frozen=True)
class Residents:
    """A message after models were loaded, moved or dropped, or their room has changed.

    models     name -> where the model is, for all models that the host holds now
    budget     how the memory of its device is shared out; None: not known
    shortages  outcome -> how often memory was too short since the host began
    """

    models: dict[str, ResidentModel]
    budget: DeviceBudget | None = None
    shortages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadStage:
    """A message with the name of the stage of opening an uploaded model that has begun."""

    stage: str


@dataclass(frozen=True)
class Pause:
    """A message that the host is between two forward passes and can stop there. The reply is whether to stop."""


@dataclass(frozen=True)
class ChooseMethod:
    """A message with the specs that lack a map (``left``). The reply is the next of them, or None to end the turn."""

    left: list[str]


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of a model to one input, before any map is made.

    document  the explanation as JSON, without maps
    tokens    number of tokens of a text; 0: no text
    files     name -> content of the files to store with it
    """

    document: dict[str, Any]
    tokens: int
    files: dict[str, bytes]


@dataclass(frozen=True)
class MadeMap:
    """A finished map.

    document  the map as JSON
    pixels    its values by pixel as a NumPy file; None if it has none
    tokens    number of tokens of a text; 0: no text
    """

    document: dict[str, Any]
    pixels: bytes | None
    tokens: int


@dataclass(frozen=True)
class Progress:
    """A message that the model has answered ``done`` of ``total`` inputs of a study."""

    done: int
    total: int


Message = Begun | Residents | LoadStage | Pause | ChooseMethod | ModelAnswer | MadeMap | Progress
#: A reply to a message: whether to stop, a spec, or None.
Reply = bool | str | None
#: The messages of a request, and at its end the result. What the host raises is raised where the next message is asked for.
Stream = Generator[Message, Reply, Result]


# --- hosts -------------------------------------------------------------------------------------------------------------------


class Host(Protocol):
    """The loaded models of one thread or process, on which one thread of the server requests work.

    Requests are independent of each other: while one waits for a reply, others may be asked and answered. Only one computes at a time.

    can_be_ended  whether a pass that hangs can be ended
    has_lost_device  whether its device can be used by no process that it could start: whoever watches the server has to start it again
    models        the models that it holds, by name, as :class:`Residents` last said; whoever follows its requests keeps them up to date
    budget        how it shares out the memory of its device, as :class:`Residents` last said; None: not known
    pid           the number of its process; None if none runs
    memory        resident memory of its process in bytes; 0 if none runs
    silence       seconds for which the server has waited for its next message; 0 while the server does not wait. Any thread may read it.
    """

    can_be_ended: bool
    has_lost_device: bool
    models: dict[str, ResidentModel]
    budget: DeviceBudget | None

    @property
    def pid(self) -> int | None: ...  # noqa: D102

    @property
    def memory(self) -> int: ...  # noqa: D102

    @property
    def silence(self) -> float: ...  # noqa: D102

    def ask(self, request: HostRequest[Result], watch: Watch) -> Stream[Result]:
        """Begin a request and yield its messages. Raises HostLostError if the process ends, or ``watch`` has it killed."""

    def look_after(self) -> None:
        """Do the regular chores of a host that has no request, such as noticing that its process has ended."""

    def close(self) -> None:
        """End its threads or its process, and drop its models. The next request starts another one."""


class HostLostError(Exception):
    """Raised when the process of the models ended before it had answered a request.

    problem    the refusal to send to the visitor
    is_guilty  whether the process ended while it worked at this request, not at another one in between, nor before it began
    """

    def __init__(self, problem: Problem, is_guilty: bool) -> None:
        super().__init__(problem.detail)
        self.problem, self.is_guilty = problem, is_guilty


def follow(stream: Stream[Result], handle: Callable[[Message], Reply]) -> Result:
    """Follow ``stream``, the messages of a request, to its end: reply to each message with what ``handle(message)`` returns, and return the
    request's result. If ``handle`` raises, the host stops at this message.
    """
    reply = None
    with closing(stream):
        try:
            while True:
                reply = handle(stream.send(reply))
        except StopIteration as end:
            result: Result = end.value
            return result
