"""Measuring methods on a data set from the page: one run at a time, behind people's questions, its rows kept where it is stopped."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from server.http.problems import Problem, suggestion
from server.jobs.feed import Feed, event
from server.jobs.fingerprint import fingerprint
from server.jobs.measuring import evaluate, measurable
from server.jobs.model_registry import ModelRegistry
from server.jobs.tasks import BACKGROUND, Study, TellAnswers
from server.jobs.worker import Worker
from server.schemas.leaderboard import RunRequest

FOLDER = "runs"  # of the runs that were begun here, in the server's home
_SEND_STOP = "Wait for it, or stop it with DELETE /api/runs/current."


def folder_name(request: RunRequest, *measured_with: str) -> str:
    """The same for the same wishes and what they are ``measured_with``: who asks again for a run that was stopped goes on with it."""
    digest = hashlib.sha256(json.dumps([request.model_dump(), *measured_with], sort_keys=True).encode()).hexdigest()
    return f"{request.model}-on-{request.dataset}-{digest[:8]}"


@dataclass
class RunState:
    """A run: what is measured, and how far it is. ``feed`` has the events ``progress`` and, once, ``ended``, each with :meth:`to_json`."""

    id: str
    request: RunRequest
    study: Study
    done: int = 0
    total: int = 0
    began: float | None = None  # when the first input was begun, and how many were done then
    done_before: int = 0
    feed: Feed = field(default_factory=Feed)

    @property
    def state(self) -> str:
        """One of waiting, running, done, stopped, failed."""
        future = self.study.future
        if not future.done():
            return "waiting" if self.began is None else "running"
        if future.cancelled():
            return "stopped"
        if future.exception() is not None:
            return "failed"
        return "done" if future.result()["finished"] else "stopped"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.study.future.done()

    def tell(self, done: int, total: int) -> None:
        """So many inputs of so many are measured."""
        if self.began is None:
            self.began, self.done_before = time.monotonic(), done
        self.done, self.total = done, total
        self.feed.publish(event(done, "progress", self.to_json()))

    def end(self) -> None:
        """Tell the followers, once the study is over."""
        self.feed.publish(event(self.total + 1, "ended", self.to_json()))
        self.feed.close()

    def seconds_left(self) -> float | None:
        """About how long it will take still; None where that is not known."""
        measured = self.done - self.done_before
        if self.is_over or self.began is None or measured == 0:
            return None
        return (time.monotonic() - self.began) / measured * (self.total - self.done)

    def to_json(self) -> dict[str, Any]:
        """As the page reads it."""
        left, state = self.seconds_left(), self.state
        document = {
            "id": self.id,
            **self.request.model_dump(),
            "state": state,
            "done": self.done,
            "total": self.total,
            "seconds_left": None if left is None else round(left, 1),
        }
        if state == "failed":
            problem = self.study.future.exception()
            assert isinstance(problem, Problem)  # a study ends with none other
            document["problem"] = problem.to_json()
        return document


def _measure(
    wanted: Mapping[str, Any],
    folder: Path,
    model: Any,
    cancelled: Callable[[], bool],
    tell: TellAnswers,
) -> dict[str, Any]:
    """What a run does where the model is."""
    return {"finished": evaluate(model, wanted, folder, tell, cancelled)}


@dataclass
class RunController:
    """Begins, follows and stops runs. Any thread may call."""

    registry: ModelRegistry
    worker: Worker
    home: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _current: RunState | None = None

    @property
    def folder(self) -> Path:
        """Where the runs are kept."""
        return self.home / FOLDER

    def current(self) -> RunState | None:
        """The run that goes on, or the one that ended last."""
        with self._lock:
            return self._current

    def choices(self) -> list[dict[str, Any]]:
        """For each embedded model its data sets that need no download, each with the metrics that can be measured on it."""
        embedded = [entry for entry in self.registry.all() if entry.embedded]
        return [{"name": entry.name, "title": entry.title, "datasets": measurable(entry.kind)} for entry in embedded if entry.kind]

    def begin(self, request: RunRequest) -> RunState:
        """Queue a run. Raises Problem 409 where one goes on, 404 for an unknown model, 422 for what cannot be measured, 429 where too
        many studies wait.
        """
        self._check(request)
        entry = self.registry.ask(request.model, self.worker.load)
        weights = entry.facts.weights_digest if entry.facts is not None else ""
        folder = self.folder / folder_name(request, fingerprint(), weights)

        work = partial(_measure, request.model_dump(), folder)
        with self._lock:
            if self._current is not None and not self._current.is_over:
                raise Problem(409, "run-going", f"The run {self._current.id} goes on, and there is one at a time.", send=_SEND_STOP)
            study = Study(entry, work, is_long=True, weight=BACKGROUND)
            run = RunState(folder.name, request, study)
            study.on_progress = run.tell
            self.worker.study(study)
            self._current = run
        study.future.add_done_callback(lambda _: run.end())
        return run

    def stop(self) -> RunState | None:
        """Stop the run that goes on; what it measured is kept. None where none does."""
        run = self.current()
        if run is None or run.is_over:
            return None
        run.study.cancel()
        return run

    def _check(self, request: RunRequest) -> None:
        models = {choice["name"]: choice for choice in self.choices()}
        if request.model not in models:
            send = f"{suggestion(request.model, models)}Embedded models: {', '.join(models)}. Others are measured with vitrine evaluate."
            raise Problem(404, "unknown-model", f"There is no embedded model {request.model!r}.", send=send)
        datasets: Mapping[str, Any] = {dataset["name"]: dataset for dataset in models[request.model]["datasets"]}
        if request.dataset not in datasets:
            here = f"For {request.model}: {', '.join(datasets)}. Others are measured with vitrine evaluate."
            send = f"{suggestion(request.dataset, datasets)}{here}"
            raise Problem(422, "unknown-dataset", f"{request.model} is not measured on {request.dataset!r} here.", send=send)
        known = [metric["name"] for metric in datasets[request.dataset]["metrics"]]
        for name in request.metrics:
            if name not in known:
                send = f"{suggestion(name, known)}On {request.dataset}: {', '.join(known)}."
                raise Problem(422, "unknown-metric", f"{name!r} cannot be measured on {request.dataset}.", send=send)
