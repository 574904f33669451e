"""Measuring methods on a data set from the page: runs take turns behind people's questions, and their rows are kept where they stop."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.engine_digest import engine_digest
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.jobs.queue.study import BACKGROUND, Study, Task
from vitrine_server.jobs.queue.worker_interface import WorkerInterface
from vitrine_server.jobs.runs.data_sources import DataSource
from vitrine_server.jobs.runs.measurable import RunInputs
from vitrine_server.jobs.runs.measuring import check, evaluate
from vitrine_server.jobs.runs.run_kind import Request, RunKind
from vitrine_server.jobs.runs.run_state import RunState, run_from_record
from vitrine_server.jobs.runs.sent_data import source_in
from vitrine_server.schemas.runs import RunRequest

log = logging.getLogger(__name__)
FOLDER = "runs"  # of the runs that were begun here, in the server's home
TURN_SECONDS = 30.0  # after which a run lets another one go on
INPUTS = ".inputs"  # the suffix of the folder of the data that was sent for a run, where that is kept


def folder_name(request: Request, *measured_with: str) -> str:
    """Return a folder name made of the request and of what it is ``measured_with`` (engine, weights, owner): the same request again
    continues the same run.
    """
    digest = hashlib.sha256(json.dumps([request.model_dump(), *measured_with], sort_keys=True).encode()).hexdigest()
    name = f"{request.model}-on-{request.dataset}".replace("/", "-").lower()
    return f"{re.sub(r'[^a-z0-9-]+', '-', name).strip('-')[:80]}-{digest[:8]}"


def _measure(
    wanted: Mapping[str, Any],
    folder: Path,
    model: Any,
    cancelled: Callable[[], bool],
    tell: TellAnswers,
) -> dict[str, Any]:
    """Measure the request ``wanted`` of a run with ``model``, in the model's process, into ``folder``, until ``cancelled()`` is true;
    ``tell`` is called with the inputs done and in total; return ``{"finished": whether it reached its end}``.
    """
    return {"finished": evaluate(model, wanted, folder, tell, cancelled)}


def _check(wanted: Mapping[str, Any], model: Any, cancelled: Callable[[], bool], tell: TellAnswers) -> dict[str, Any]:
    """Check the request ``wanted`` of a run for ``model``, in the model's process, and return the plan of the run as JSON. Raises
    ExplainerError for a run that is refused.
    """
    return check(model, wanted)


#: Measuring methods on a data set, as `vitrine evaluate` does.
MEASURING = RunKind("run", FOLDER, RunRequest, _measure, _check)


#: What the runs of a controller are about.
Inputs = TypeVar("Inputs", bound=RunInputs)


@dataclass
class RunController(Generic[Inputs]):
    """The runs of a server: begins, follows, stops and removes them. Any thread may call.

    measurable   the models, and the data sets or collections, that runs can be about
    worker       runs studies on the models
    home         the folder of the runs' files
    forget_data  called with the name of a data set that a visitor sent, once no run needs it
    kind         what is done
    keep_data    called with the name of a data set that a visitor sent, and the folder in which a run keeps it too
    """

    measurable: Inputs
    worker: WorkerInterface
    home: Path
    forget_data: Callable[[str], None]
    kind: RunKind = MEASURING
    keep_data: Callable[[str, Path], None] = lambda name, place: None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _runs: dict[str, RunState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place in sorted(self.folder.glob("*.json")):
            try:
                self._runs[place.stem] = run_from_record(place, json.loads(place.read_text("utf-8")), self.kind.request)
            except (OSError, ValueError, KeyError, TypeError) as problem:
                log.warning("the record %s of a run cannot be read: %s", place, problem)

    @property
    def folder(self) -> Path:
        """The folder in which the runs are kept."""
        return self.home / self.kind.folder

    def all(self, visitor: Visitor) -> list[RunState]:
        """Return the runs that ``visitor`` began here, the latest first."""
        with self._lock:
            theirs = [run for run in self._runs.values() if visitor.owns(run.visitor.owner)]
        return sorted(theirs, key=lambda run: run.created, reverse=True)

    def is_for(self, run_id: str, visitor: Visitor) -> bool:
        """Return whether a run of this id belongs to a visitor; a run without a recorded owner belongs to nobody."""
        run = self._runs.get(run_id)
        return visitor.owns("" if run is None else run.visitor.owner)

    def find(self, run_id: str, visitor: Visitor) -> RunState:
        """Return the run with this id. Raises Problem 404 if ``visitor`` has none."""
        with self._lock:
            if run_id in self._runs and self.is_for(run_id, visitor):
                return self._runs[run_id]
        send = f"GET /api/{self.kind.folder} lists what was begun here."
        raise Problem(404, "no-run", f"There is no {self.kind.noun} {run_id[:100]!r}.", send=send)

    def states_on(self, dataset: str) -> set[str]:
        """Return the states of all runs on the data set with the id ``dataset``."""
        with self._lock:
            return {run.state for run in self._runs.values() if run.request.dataset == dataset}

    def begin(self, request: Request, visitor: Visitor, expected_seconds: float | None = None) -> RunState:
        """Queue the run that ``request`` describes for ``visitor`` and return it; the same request again continues it.

        ``expected_seconds`` is the estimate of its time. Raises Problem 404 for an unknown model or data set, 409 if another run of the
        visitor is not over, 422 for what cannot be measured, 429 if too many studies wait or runs are kept.
        """
        entry, facts = self.measurable.model(request.model, visitor)
        source = self.measurable.source(request.dataset, facts, visitor)
        if request.limit > (most := self.measurable.most):
            raise Problem(422, "too-many-inputs", f"A run here has at most {most} inputs.", send="Larger ones: vitrine evaluate.")
        self._refuse_second(visitor)
        checking = Study(entry, Task(partial(self.kind.check, self._wanted(request, source)), visitor=visitor))
        self.worker.study(checking)
        checking.future.result()  # which raises what it is refused for
        run_id = folder_name(request, engine_digest(), facts.weights_digest, visitor.owner)
        with self._lock:
            if (run := self._runs.get(run_id)) is None:
                self._check_room(visitor)
                self.folder.mkdir(parents=True, exist_ok=True)
                created = datetime.now(UTC).isoformat(timespec="milliseconds")
                run = RunState(run_id, request, source.title, visitor, created, self.folder / f"{run_id}.json")
            run.expected_seconds = expected_seconds
        return self._queue(run, entry, self._kept(run, source))

    def _check_room(self, visitor: Visitor) -> None:
        """Raise Problem 429 if no further run is kept, of this visitor or of all."""
        for stored, most in ((len(self._runs), self.kind.most_kept), (len(self.all(visitor)), self.kind.most_of_one)):
            if stored >= most:
                detail = f"{stored} {self.kind.noun}s are stored here, which is the maximum."
                raise Problem(429, "too-many-runs", detail, send="Delete one first.")

    def _kept(self, run: RunState, source: DataSource) -> DataSource:
        """Keep the data that was sent for ``run`` with it, if its kind does so, and return the source there; else ``source`` itself."""
        if not (self.kind.keeps_data and source.is_sent):
            return source
        self.keep_data(source.name, run.place.with_suffix(INPUTS))
        return source_in(run.place.with_suffix(INPUTS), source.name) or source

    def go_on(self, run_id: str, visitor: Visitor) -> RunState:
        """Queue the ``visitor``'s stopped or failed run ``run_id`` again, to continue after its last input, and return its state. Raises
        Problem as :meth:`begin`, and 409 if the weights or the engine have changed since.
        """
        run = self.find(run_id, visitor)
        registry = self.measurable.registry
        entry = registry.ask(registry.find(run.request.model, visitor).name, self.worker.load, visitor=visitor)
        if (facts := entry.facts) is None:
            raise Problem(409, "model-loading", f"The model “{entry.name_to_show}” is still loading.", send="Ask again in a moment.")
        kept = source_in(run.place.with_suffix(INPUTS), run.request.dataset)
        source = kept or self.measurable.source(run.request.dataset, facts, visitor)
        if folder_name(run.request, engine_digest(), facts.weights_digest, run.visitor.owner) != run_id:
            detail = (
                "The model's weights or Vitrine have changed since this run was begun, so its other inputs would not be measured alike."
            )
            raise Problem(409, "run-outdated", detail, send=f"Begin it again with POST /api/{self.kind.folder}, and delete this one.")
        self._refuse_second(visitor)
        run.visitor = visitor
        return self._queue(run, entry, source)

    def _refuse_second(self, visitor: Visitor) -> None:
        for run in self.all(visitor):
            if run.ended is None:
                send = f"Wait for it, or stop it with POST /api/{self.kind.folder}/{run.id}/stop."
                raise Problem(409, "run-going", f"Your {self.kind.noun} {run.id} is still running; you can have one at a time.", send=send)

    def stop(self, run_id: str, visitor: Visitor) -> None:
        """Stop the ``visitor``'s waiting or running run ``run_id``; what it measured is kept. Raises Problem 409 if it is over."""
        run = self.find(run_id, visitor)
        with self._lock:
            if run.ended is not None or run.study is None:
                raise Problem(
                    409,
                    "run-over",
                    f"The {self.kind.noun} {run_id} is {run.ended}.",
                    send=f"GET /api/{self.kind.folder} shows the state of each.",
                )
            run.is_stopped = True
            study = run.study
        study.cancel()

    def remove(self, run_id: str, visitor: Visitor) -> None:
        """Remove the ``visitor``'s run ``run_id``, its figures and its data; a run that is not over is stopped first, and removed at its
        end.
        """
        run = self.find(run_id, visitor)
        with self._lock:
            run.is_unwanted = True
            is_over = run.ended is not None
        if is_over:
            self._remove(run)
        else:
            self.stop(run_id, visitor)

    def _remove(self, run: RunState) -> None:
        with self._lock:
            self._runs.pop(run.id, None)
            run.place.unlink(missing_ok=True)
            for folder in (run.folder, run.place.with_suffix(INPUTS)):
                shutil.rmtree(folder, ignore_errors=True)
        self._drop_data(run.request.dataset)

    def _drop_data(self, dataset: str) -> None:
        if not self.states_on(dataset) - {"done"}:
            self.forget_data(dataset)

    def _wanted(self, request: Request, source: DataSource) -> dict[str, Any]:
        """Return the request as JSON for the process of the model, with the source of its data and whether examples are shown."""
        wanted = {**request.model_dump(), "source": source.to_json()}
        if isinstance(request, RunRequest) and request.examples is None:
            wanted["examples"] = source.folder is None
        return wanted

    def _queue(self, run: RunState, entry: ModelEntry, source: DataSource) -> RunState:
        with self._lock:
            if run.id in self._runs and run.ended is None:
                raise Problem(
                    409, "run-going", f"The {self.kind.noun} {run.id} goes on.", send=f"GET /api/{self.kind.folder} tells how far it is."
                )
            run.begin()
            self._runs[run.id] = run
            try:
                self._take_turn(run, entry, self._wanted(run.request, source))
            except Problem:
                run.end("stopped")
                raise
        return run

    def _take_turn(self, run: RunState, entry: ModelEntry, wanted: Mapping[str, Any]) -> None:
        """Queue one turn of ``run``, whose request is ``wanted``, on the model of ``entry``, in which it continues after its last input;
        the turn ends early if others wait.
        """
        study = Study(entry, Task(partial(self.kind.work, wanted, run.folder), BACKGROUND, visitor=run.visitor))

        def tell(done: int, total: int) -> None:
            run.tell(done, total)
            if self.kind.in_turns and run.turn_seconds > TURN_SECONDS and run.loses_nothing and self._others_wait(run):
                study.cancelled.set()

        study.on_progress = tell
        run.study = study
        self.worker.study(study)
        study.future.add_done_callback(partial(self._end_turn, run, entry, wanted))

    def _others_wait(self, run: RunState) -> bool:
        with self._lock:
            return any(other.state == "waiting" for other in self._runs.values() if other is not run)

    def _end_turn(self, run: RunState, entry: ModelEntry, wanted: Mapping[str, Any], future: Future[dict[str, Any]]) -> None:
        with self._lock:
            run.end_turn()
            problem = None if future.cancelled() else future.exception()
            if problem is None and not future.cancelled() and future.result()["finished"]:
                run.ended = "done"
                self._drop_data(run.request.dataset)  # whoever is told of the end finds it gone
                run.end("done")
            elif isinstance(problem, Problem) and problem.slug != "interrupted" and not run.is_stopped:
                run.end("failed", problem)
            elif run.is_stopped or problem is not None or self.worker.stopping:
                run.end("stopped")
            else:  # it has let another one go on
                try:
                    self._take_turn(run, entry, wanted)
                except Problem:
                    run.end("stopped")
        if run.is_unwanted:
            self._remove(run)
