"""The model host: it holds the loaded models, makes explanations with them and answers studies, in one thread or process."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from explainers import explain
from explainers.errors import (
    ExplainerError,
    MemoryShortageError,
    chain_of,
    is_memory_shortage,
    may_lack_memory,
    ran_out_of_host_memory,
    ran_out_of_memory,
)
from explainers.models.loading import device_named
from explainers.models.memory import bytes_of_weights, indexed, limit_memory, on_device, release_memory
from explainers.models.passes import (
    Outcome,
    Ran,
    Shortages,
    attempt,
    bytes_needed,
    count_shortage,
    settle_shortages,
)
from explainers.models.registers.moving import view_of
from explainers.models.threads import Threads
from explainers.pipeline.memory_steps import run_in_steps
from explainers.pipeline.places import ask_at, runnable_specs, with_chat_template
from explainers.records.session import Cancelled
from vitrine_server.jobs.catalogue.model_facts import ModelFacts, facts_of
from vitrine_server.jobs.catalogue.model_source import BytesOf, bytes_not_known, dtype_of
from vitrine_server.jobs.failures import load_problem, problem_of
from vitrine_server.jobs.host.answers import AnswerSender, reference_of, source_of
from vitrine_server.jobs.host.interface import (
    Begun,
    ChooseMethod,
    DropRequest,
    ExplainRequest,
    HostRequest,
    LoadRequest,
    LoadStage,
    Pause,
    Progress,
    Residents,
    Result,
    Stream,
    StudyRequest,
)
from vitrine_server.jobs.host.lost_device import DeviceGoneError, check_device
from vitrine_server.jobs.host.residency import Residency
from vitrine_server.jobs.host.streams import Tell, WorkThreads
from vitrine_server.jobs.host.warm_up import warm_up
from vitrine_server.jobs.host.work import MakeRoom, run_with_memory_retry
from vitrine_server.json_text import json_text
from vitrine_server.schemas.question import ExplainOptions
from vitrine_server.settings import Settings

_REST_SECONDS = 5.0  # after an answer: whoever asks again soon finds the memory of the last question
NEWS_SHARE = 0.01  # of a device: by so much its budget must change to be told again
CHOOSE_SMALLER = "Choose another model, or try again later."
SEND_LESS = "Ask for fewer methods at once, for fewer targets, or for a shorter text."


@dataclass
class ModelHost:
    """The loaded models by name, and the work on them. Only one thread uses it.

    pause_seconds  least time between two pauses of a request: small models make many passes in that time
    bytes_of       returns the bytes that a model will take once it is loaded, by its name or path; None where they are not known
    warm_up        runs a model once before it is said to be loaded
    """

    load_model: Callable[..., Any]
    settings: Settings
    pause_seconds: float = 0.0
    bytes_of: BytesOf = bytes_not_known
    warm_up: Callable[[Any], None] = warm_up
    _models: Residency = field(init=False)
    _device: torch.device = field(init=False)
    _told: Residents = field(init=False)  # what the server knows
    _shortages_before: Counter[Outcome] = field(init=False)  # in this process, before this host
    _cores: Threads = field(default_factory=Threads)
    _threads: WorkThreads = field(default_factory=WorkThreads)
    _has_begun: bool = False
    _answered_at: float | None = None  # by time.monotonic(); None: memory was returned since

    def __post_init__(self) -> None:
        name = self.settings.devices[0]
        self._device = indexed(device_named(None) if name is None else torch.device(name))
        self._models = Residency(
            self.settings.model_memory, pinned=self.settings.pinned_models, part=partial(part_of_device, self.settings)
        )
        self._shortages_before = Shortages.outcomes.copy()
        self._told = Residents({})

    def _begin(self) -> None:
        """Set, at the first request, how much of a device's memory this host and its models may take: the hosts on it share it out. Raises
        DeviceGoneError if the device cannot be used at all, and torch's error if it has no memory left: the next request may find some.
        """
        if self._has_begun:
            return
        try:
            device_named(self._device)
            limit_memory(self._device, part_of_device(self.settings, self._device))
            self._told = self._residents()
        except (RuntimeError, ExplainerError) as error:
            if ran_out_of_memory(error):
                raise
            raise DeviceGoneError(f"{self._device} cannot be used: {error}") from error
        self._has_begun = True

    def ask(self, request: HostRequest[Result]) -> Stream[Result]:
        """Begin ``request`` and yield its messages, as :meth:`vitrine_server.jobs.host.interface.Host.ask`."""
        return self._threads.stream(partial(self._answer, request))

    def _answer(self, request: HostRequest[Any], tell: Tell) -> Any:
        tell(Begun())
        try:
            self._begin()
            with on_device(self._device), self._counting_shortages(tell):
                return self._answer_begun(request, tell)
        except (Cancelled, DeviceGoneError):
            raise
        except Exception:
            check_device(self._device)
            raise
        finally:
            self._answered_at = time.monotonic()

    @contextmanager
    def _counting_shortages(self, tell: Tell) -> Iterator[None]:
        """Settle, at the end of a request, what became of the shortages that no smaller pass has mended; and tell the server."""
        outcome: Outcome = "failed"
        try:
            yield
            outcome = "made-room"  # others left, or one that had to leave found no room in host memory and was dropped
        finally:
            settle_shortages(outcome, since=0)
            self._tell_residents(tell)

    def _answer_begun(self, request: HostRequest[Any], tell: Tell) -> Any:
        match request:
            case LoadRequest():
                return self._load(request, tell)
            case DropRequest():
                self._models.drop(request.names)
            case ExplainRequest():
                return self._explain(request, tell)
            case StudyRequest():
                return self._study(request, tell)
        return None

    def _load(self, request: LoadRequest, tell: Tell) -> ModelFacts:
        """Load the model that ``request`` names and return its facts; ``tell`` reports stages. Raises a Problem if it cannot load."""
        name, place = request.name, request.place
        options: dict[str, Any] = {} if place is None else {"on_stage": lambda stage: tell(LoadStage(stage))}
        if (dtype := dtype_of(name, self.settings)) != torch.float32:
            options["dtype"] = dtype
        named = name if place is None else place
        wanted = self.bytes_of(named, dtype)
        open_model = partial(self.load_model, named, self.settings.devices[0], **options, **request.open_options)
        with self._models.loading(self._device):
            tried: Ran[tuple[Any, ModelFacts]] | Exception | None = None
            while not isinstance(tried, Ran):
                if tried is not None and not self._make_room_after(tried, wanted):
                    raise load_problem(name, tried, place)
                self._make_room_for(request, wanted, tell)
                problem = None
                try:
                    tried = attempt(partial(self._open, name, open_model))
                except Exception as error:
                    problem = load_problem(name, error, place)
                if problem is not None:
                    release_memory()  # of one that could not be warmed up nothing stays on the device
                    raise problem
            model, facts = tried.result
            check_device(self._device)  # checks and the first pass report an error as the model's own, also one that ends the device
            self._models.add(name, model)
        return facts

    def _open(self, name: str, open_model: Callable[[], Any]) -> tuple[Any, ModelFacts]:
        """Return the model called ``name`` that ``open_model`` returns, after its first pass, and its facts. Other models leave where
        memory is too short for the pass, if with them gone there is room for it and for these weights.
        """
        with _exits_as_errors():
            model = open_model()
            facts = facts_of(model)
            weights = bytes_of_weights(model.module)

            def make_room(needed: int | None) -> bool:
                return self._models.make_room(model.device, None if needed is None else weights + needed)

            run_with_memory_retry(partial(self.warm_up, model), name, str(model.device), CHOOSE_SMALLER, make_room)
        return model, facts

    def _make_room_after(self, error: Exception, wanted: int | None) -> bool:
        """Have models leave the memory that was too short for a model of ``wanted`` bytes, whose load ended in ``error``: that of the
        device, or host memory. Returns False, and none leaves, if that would not help.
        """
        if may_lack_memory(error):
            return False
        needed = bytes_needed(error)
        if ran_out_of_host_memory(error):
            return self._models.make_room(torch.device("cpu"), needed)
        if needed is not None and any(isinstance(each, MemoryShortageError) for each in chain_of(error)):
            needed += wanted or 0  # an estimate says what is needed next to the weights, which are gone by now
        return self._models.make_room(self._device, needed)

    def _make_room_for(self, request: LoadRequest, wanted: int | None, tell: Tell) -> None:
        """Have models leave for the one that ``request`` names, which takes ``wanted`` bytes. Raises a Problem if those that stay leave too
        little: then no more have to leave.
        """
        try:
            self._models.make_room_for(request.name, wanted, self._device)
        except MemoryShortageError as error:
            count_shortage(error)
            raise load_problem(request.name, error, request.place) from None
        finally:
            self._tell_residents(tell)

    def _tell_residents(self, tell: Tell) -> None:
        """Tell the server where models are held, how the device is shared out and how often memory was short, if that has changed."""
        if not _say_the_same(residents := self._residents(), self._told):
            tell(residents)
            self._told = residents

    def _residents(self) -> Residents:
        shortages = {str(outcome): count for outcome, count in (Shortages.outcomes - self._shortages_before).items()}
        return Residents(self._models.resident(), self._models.budget(self._device), shortages)

    @contextmanager
    def _using(self, name: str, tell: Tell) -> Iterator[Any]:
        """Return the loaded model ``name`` inside this context, on its device; other models may be moved away to make room for it, and
        ``tell`` reports where models are.
        """
        try:
            with self._models.using(name) as model:
                self._tell_residents(tell)
                yield model
        except Exception as error:
            if is_memory_shortage(error):
                count_shortage(error)
            raise

    def rest(self) -> None:
        """Choose the number of CPU threads by the cores that other processes leave, and some seconds after the last answer return to a GPU
        what torch's allocator keeps for later, so that other processes find it. Called now and then while the host is idle.

        Raises DeviceLostError if the GPU has gone meanwhile, so that the next question does not have to find that out.
        """
        self._cores.fit(None)
        if not self._has_begun or self._device.type == "cpu":
            return
        check_device(self._device)
        if self._answered_at is not None and time.monotonic() - self._answered_at >= _REST_SECONDS:
            self._answered_at = None
            release_memory()

    def close(self) -> None:
        """End the threads that wait for requests."""
        self._threads.close()

    def _explain(self, request: ExplainRequest, tell: Tell) -> None:
        """Make the maps that ``request`` asks for and send each by ``tell``, until the turn ends. Raises Problem, or Cancelled if a pause
        is answered by a stop.
        """
        with _problems("explanation", "cannot-explain"), self._using(request.name, tell) as model:
            self._explain_with(model, request, tell)

    def _explain_with(self, model: Any, request: ExplainRequest, tell: Tell) -> None:
        question, left = request.question, request.specs

        def next_method(specs: list[str]) -> str | None:
            nonlocal left
            left = specs
            chosen: str | None = tell(ChooseMethod(specs))
            return chosen

        def work() -> None:
            place_model, specs, note = model, left, None
            source: Any = source_of(question, self.settings, model)
            how: dict[str, Any] = {option: getattr(question, option) for option in ExplainOptions.model_fields}
            how["reference"] = reference_of(question, self.settings)
            if model.task is not None and not question.methods:  # the place is looked for once, for what can run there and for its maps
                view = view_of(model, how.pop("outlier_tokens"))
                source = with_chat_template(view, source) if how.pop("chat") else source
                place_model, source = ask_at(view, source, how.pop("at"), how.pop("reference"))
                specs, note = runnable_specs(specs, place_model, source)
            explain(
                place_model,
                source,
                request.targets,
                specs,
                observer=AnswerSender(tell, note),
                cancelled=self._pauses(model, tell),
                next_method=next_method,
                side=question.side,
                **how,
            )

        run_with_memory_retry(work, request.name, str(model.device), SEND_LESS, self._room_next_to(model))

    def _study(self, request: StudyRequest, tell: Tell) -> dict[str, Any]:
        """Run the study of ``request`` and return its answer as JSON; ``tell`` reports the progress. Raises Problem, or Cancelled if a
        pause is answered by a stop.
        """
        answers: list[dict[str, Any]] = []
        with _problems("study", "cannot-answer"), self._using(request.name, tell) as model:
            cancelled = self._pauses(model, tell)

            def work() -> None:
                tell_progress = lambda done, total: tell(Progress(done, total))  # noqa: E731
                answers.append(run_in_steps(lambda: model, lambda: request.work(model, cancelled, tell_progress)))

            send = "Ask for less at once, or explain a shorter text."
            run_with_memory_retry(work, request.name, str(model.device), send, self._room_next_to(model))
            json_text(answers[-1])  # it can be sent
        return answers[-1]

    def _room_next_to(self, model: Any) -> MakeRoom:
        """Return a function that moves another model off the GPU of ``model``, see :meth:`Residency.make_room`. For a model on a CPU the
        function moves none and returns False: the others would have to be read from disk again, because one question was too large.
        """
        return (lambda needed: False) if model.device.type == "cpu" else partial(self._models.make_room, model.device)

    def _pauses(self, model: Any, tell: Tell) -> Callable[[], bool]:
        """Return a function to be called between passes. It sends a :class:`Pause` by ``tell`` and returns the reply, whether to stop; and
        it chooses the number of CPU threads for the next pass of ``model``.
        """
        paused = float("-inf")

        def cancelled() -> bool:
            nonlocal paused
            self._cores.fit(model)
            if time.monotonic() - paused < self.pause_seconds:
                return False
            is_stopped: bool = tell(Pause())
            paused = time.monotonic()
            return is_stopped

        return cancelled


def _say_the_same(residents: Residents, last: Residents) -> bool:
    """Return whether ``residents`` says nothing new after ``last``. What other processes hold of a machine changes all the time: a budget
    is new where it is another by over a hundredth of the device.
    """
    now, before = residents.budget, last.budget
    if now is None or before is None or residents != replace(last, budget=now):
        return residents == last
    changing = ("others", "headroom", "room", "start_room", "cached")
    is_alike = now == replace(before, **{name: getattr(now, name) for name in changing})
    return is_alike and max(abs(getattr(now, name) - getattr(before, name)) for name in changing) <= now.total * NEWS_SHARE


def part_of_device(settings: Settings, device: torch.device) -> float:
    """Return the share of the memory of a device, or of the machine (a CPU), that one host may take: the hosts there share it out.

    On one machine ``settings.workers`` is the number of hosts, and each has a GPU of its own, or all have the CPU.
    """
    if settings.engine == "local":
        return 1 / settings.workers if device.type == "cpu" else 1.0
    if device.type != "cpu":
        return settings.replica_gpus if 0 < settings.replica_gpus < 1 else 1.0
    return 1 / max(1, min(settings.max_replicas, (os.cpu_count() or 1) // settings.replica_threads))


@contextmanager
def _exits_as_errors() -> Iterator[None]:
    """Turn a SystemExit inside this context into a RuntimeError: a model's code must not end the server."""
    try:
        yield
    except SystemExit as error:
        raise RuntimeError("the model's code asked Python to exit") from error


@contextmanager
def _problems(kind: str, refusal: str) -> Iterator[None]:
    """Convert any error inside this context except Cancelled to a Problem, see :func:`problem_of`; ``kind`` is the kind of work,
    ``refusal`` the slug for errors that the library explains.
    """
    try:
        with _exits_as_errors():
            yield
    except Cancelled:
        raise
    except Exception as error:
        raise problem_of(error, kind, refusal) from None
