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
from typing import Any

from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.engine_digest import engine_digest
from vitrine_server.jobs.host.work import TellAnswers
from vitrine_server.jobs.queue.study import BACKGROUND, Study, Task
from vitrine_server.jobs.queue.worker_interface import WorkerInterface
from vitrine_server.jobs.runs.data_sources import DataSource
from vitrine_server.jobs.runs.measurable import Measurable
from vitrine_server.jobs.runs.measuring import check, evaluate
from vitrine_server.jobs.runs.run_state import RunState, run_from_record
from vitrine_server.schemas.runs import RunRequest

log = logging.getLogger(__name__)
FOLDER = "runs"  # of the runs that were begun here, in the server's home
TURN_SECONDS = 30.0  # after which a run lets another one go on
_MOST_KEPT = 200


def folder_name(request: RunRequest, *measured_with: str) -> str:
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


@dataclass
class RunController:
    """The runs of a server: begins, follows, stops and removes them. Any thread may call.

    measurable   the models and data sets that can be measured
    worker       runs studies on the models
    home         the folder of the runs' files
    forget_data  called with the name of a data set that a visitor sent, once no run needs it
    """

    measurable: Measurable
    worker: WorkerInterface
    home: Path
    forget_data: Callable[[str], None]
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _runs: dict[str, RunState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place in sorted(self.folder.glob("*.json")):
            try:
                self._runs[place.stem] = run_from_record(place, json.loads(place.read_text("utf-8")))
            except (OSError, ValueError, KeyError, TypeError) as problem:
                log.warning("the record %s of a run cannot be read: %s", place, problem)

    @property
    def folder(self) -> Path:
        """The folder in which the runs are kept."""
        return self.home / FOLDER

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
        raise Problem(404, "no-run", f"There is no run {run_id[:100]!r}.", send="GET /api/runs lists the runs that were begun here.")

    def states_on(self, dataset: str) -> set[str]:
        """Return the states of all runs on the data set with the id ``dataset``."""
        with self._lock:
            return {run.state for run in self._runs.values() if run.request.dataset == dataset}

    def begin(self, request: RunRequest, visitor: Visitor, expected_seconds: float | None = None) -> RunState:
        """Queue the run that ``request`` describes for ``visitor`` and return it; the same request again continues it.

        ``expected_seconds`` is the estimate of its time. Raises Problem 404 for an unknown model or data set, 409 if another run of the
        visitor is not over, 422 for what cannot be measured, 429 if too many studies wait or runs are kept.
        """
        entry, facts = self.measurable.model(request.model, visitor)
        source = self.measurable.source(request.dataset, facts)
        if request.limit > (most := self.measurable.most):
            raise Problem(422, "too-many-inputs", f"A run here has at most {most} inputs.", send="Larger ones: vitrine evaluate.")
        self._refuse_second(visitor)
        checking = Study(entry, Task(partial(_check, self._wanted(request, source)), visitor=visitor))
        self.worker.study(checking)
        checking.future.result()  # which raises what it is refused for
        run_id = folder_name(request, engine_digest(), facts.weights_digest, visitor.owner)
        with self._lock:
            if (run := self._runs.get(run_id)) is None:
                if len(self._runs) >= _MOST_KEPT:
                    raise Problem(
                        429, "too-many-runs", f"{len(self._runs)} runs are stored here, which is the maximum.", send="Delete one first."
                    )
                self.folder.mkdir(parents=True, exist_ok=True)
                created = datetime.now(UTC).isoformat(timespec="milliseconds")
                run = RunState(run_id, request, source.title, visitor, created, self.folder / f"{run_id}.json")
            run.expected_seconds = expected_seconds
        return self._queue(run, entry, source)

    def go_on(self, run_id: str, visitor: Visitor) -> RunState:
        """Queue the ``visitor``'s stopped or failed run ``run_id`` again, to continue after its last input, and return its state. Raises
        Problem as :meth:`begin`, and 409 if the weights or the engine have changed since.
        """
        run = self.find(run_id, visitor)
        registry = self.measurable.registry
        entry = registry.ask(registry.find(run.request.model, visitor).name, self.worker.load, visitor=visitor)
        if (facts := entry.facts) is None:
            raise Problem(409, "model-loading", f"The model {entry.name} is still loading.", send="Ask again in a moment.")
        source = self.measurable.source(run.request.dataset, facts)
        if folder_name(run.request, engine_digest(), facts.weights_digest, run.visitor.owner) != run_id:
            detail = (
                "The model's weights or Vitrine have changed since this run was begun, so its other inputs would not be measured alike."
            )
            raise Problem(409, "run-outdated", detail, send="Begin it again with POST /api/runs, and delete this one.")
        self._refuse_second(visitor)
        run.visitor = visitor
        return self._queue(run, entry, source)

    def _refuse_second(self, visitor: Visitor) -> None:
        for run in self.all(visitor):
            if run.ended is None:
                send = f"Wait for it, or stop it with POST /api/runs/{run.id}/stop."
                raise Problem(409, "run-going", f"Your run {run.id} is still running; you can have one at a time.", send=send)

    def stop(self, run_id: str, visitor: Visitor) -> None:
        """Stop the ``visitor``'s waiting or running run ``run_id``; what it measured is kept. Raises Problem 409 if it is over."""
        run = self.find(run_id, visitor)
        with self._lock:
            if run.ended is not None or run.study is None:
                raise Problem(409, "run-over", f"The run {run_id} is {run.ended}.", send="GET /api/runs shows the state of each run.")
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
            shutil.rmtree(run.folder, ignore_errors=True)
        self._drop_data(run.request.dataset)

    def _drop_data(self, dataset: str) -> None:
        if not self.states_on(dataset) - {"done"}:
            self.forget_data(dataset)

    def _wanted(self, request: RunRequest, source: DataSource) -> dict[str, Any]:
        """Return the request as JSON for the process of the model, with the source of its data and whether examples are shown."""
        shows = source.folder is None if request.examples is None else request.examples
        return {**request.model_dump(), "examples": shows, "source": source.to_json()}

    def _queue(self, run: RunState, entry: ModelEntry, source: DataSource) -> RunState:
        with self._lock:
            if run.id in self._runs and run.ended is None:
                raise Problem(409, "run-going", f"The run {run.id} goes on.", send=f"GET /api/runs/{run.id} tells how far it is.")
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
        study = Study(entry, Task(partial(_measure, wanted, run.folder), BACKGROUND, visitor=run.visitor))

        def tell(done: int, total: int) -> None:
            run.tell(done, total)
            if run.turn_seconds > TURN_SECONDS and run.loses_nothing and self._others_wait(run):
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
