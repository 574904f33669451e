"""One thread that owns the device: it loads models, explains and answers studies, one thing at a time, behind bounded queues.

A long study (the deletion test asks a model hundreds of times) lets every other question pass: between two of its forward passes the
thread does what has come in meanwhile, and then goes on with the study.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from PIL import Image
from safetensors.torch import save

from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models.base import Crop, TextPair
from server.engine import Engine
from server.http.metrics import Metrics
from server.http.problems import Problem, out_of_memory, unforeseen
from server.http.uploads import encoded, open_image
from server.jobs.feed import event
from server.jobs.intake import plan
from server.jobs.job import Job
from server.jobs.map_files import npy, pixels_name
from server.jobs.model_registry import ModelEntry, ModelFacts, ModelRegistry, check_facts
from server.jobs.store import TENSORS, Store
from server.jobs.tasks import Study, free_memory, interrupted, problem_of, run_with_memory_retry
from server.json_text import json_text
from server.settings import Settings

log = logging.getLogger(__name__)
_IDLE_BEAT = 5.0  # seconds between heart-beats with nothing to do
_MOST_SECONDS_OF_A_PASS = 120.0  # between two polls of the token; longer without one means that the worker hangs


class Worker(threading.Thread):
    """The owner of one device. Web threads call ``submit``, ``study``, ``load``, ``cancel``, ``find``; nothing else touches a model."""

    def __init__(self, engine: Engine, registry: ModelRegistry, store: Store, settings: Settings, metrics: Metrics) -> None:
        super().__init__(name="worker", daemon=True)
        self._engine, self._registry, self._store, self._settings, self._metrics = engine, registry, store, settings, metrics
        self._device = None if settings.device == "auto" else settings.device
        self._change = threading.Condition(threading.RLock())
        self._loads: list[ModelEntry] = []
        self._studies: list[Study] = []
        self._queue: list[Job] = []
        self._live: dict[str, Job] = {}  # queued, running, and those that the store would not take
        self._running: Job | None = None
        self._stopping = False
        self._beat = time.monotonic()

    # --- for the web threads ---------------------------------------------------------------------------------------------

    def submit(self, job: Job) -> None:
        """Queue a job; raises Problem 429 where the queue is full."""
        with self._change:
            if self._stopping:
                raise interrupted()
            self._check_room(len(self._queue), "explanations")
            self._store.add(job.document(), job.images, job.question.image)
            self._live[job.id] = job
            self._queue.append(job)
            self._tell_position(job, len(self._queue) - 1)
            self._change.notify_all()

    def study(self, study: Study) -> None:
        """Queue a study, before the explanations that wait, a long one behind them; raises Problem 429 where too many studies wait."""
        with self._change:
            if self._stopping:
                raise interrupted()
            self._studies = [study for study in self._studies if not study.cancelled.is_set()]
            self._check_room(len(self._studies), "studies")
            self._studies.append(study)
            self._change.notify_all()

    def _check_room(self, waiting: int, what: str) -> None:
        if waiting >= self._settings.queue_size:
            raise Problem(
                429,
                "queue-full",
                f"{waiting} {what} are waiting already.",
                send="Send the same request again in a moment.",
                headers={"Retry-After": str(self._retry_after())},
            )

    def load(self, entry: ModelEntry) -> None:
        """Fetch the files of ``entry`` in a thread of their own (embedded ones are there), then load it in this thread."""
        if entry.embedded:
            self._load_soon(entry)
        else:
            threading.Thread(target=self._fetch, args=(entry,), name=f"fetch {entry.name}", daemon=True).start()

    def find(self, explanation_id: str) -> Job | None:
        """The job with this id, unless it has gone to the store."""
        with self._change:
            return self._live.get(explanation_id)

    def cancel(self, explanation_id: str) -> bool:
        """Drop a waiting job, or ask a running one to stop at the next pass; False where neither is there."""
        with self._change:
            job = self._live.get(explanation_id)
            if job is None or job.final:
                return False
            job.cancelled.set()
            is_waiting = job in self._queue
            if is_waiting:
                self._queue.remove(job)
            self._tell_positions()
        if is_waiting:
            self._finish(job, "cancelled")
        return True

    def forget(self, explanation_id: str) -> bool:
        """Drop a finished job that the store would not take."""
        with self._change:
            return self._live.pop(explanation_id, None) is not None

    @property
    def depth(self) -> int:
        """How many explanations wait."""
        with self._change:
            return len(self._queue)

    @property
    def healthy(self) -> bool:
        """Whether the thread is alive and has been heard of lately."""
        return self.is_alive() and time.monotonic() - self._beat < _MOST_SECONDS_OF_A_PASS

    def stop(self) -> None:
        """End after the current pass; what is unfinished is marked as interrupted."""
        with self._change:
            self._stopping = True
            self._change.notify_all()
        self.join()

    # --- the thread ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Load, answer and explain until stopped."""
        while (task := self._take()) is not None:
            self._do(task)
        with self._change:
            left, self._queue = self._queue, []
            unanswered, self._studies = self._studies, []
        for study in unanswered:
            study.refuse(interrupted())
        for job in left:
            self._finish(job, "failed", interrupted())

    def _do(self, task: ModelEntry | Study | Job) -> None:
        if isinstance(task, ModelEntry):
            self._load(task)
        elif isinstance(task, Study):
            self._answer(task)
        else:
            self._explain(task)

    def _take(self) -> ModelEntry | Study | Job | None:
        """Wait for something to do; None when the server stops."""
        with self._change:
            while True:
                self._beat = time.monotonic()
                self._engine.fit_threads(None)
                if self._stopping:
                    return None
                if (task := self._next_question() or self._next_study(is_long=True)) is not None:
                    return task
                self._change.wait(_IDLE_BEAT)

    def _next_study(self, is_long: bool) -> Study | None:
        """The first study of this length whose model is not on its way."""
        for study in self._studies:
            if study.is_long == is_long and self._ready(study.entry):
                self._studies.remove(study)
                return study
        return None

    def _next_question(self) -> ModelEntry | Study | Job | None:
        """Loads first, then the first short study, then the first job, whose model is not on its way."""
        if self._loads:
            return self._loads.pop(0)
        if (study := self._next_study(is_long=False)) is not None:
            return study
        for job in self._queue:
            if self._ready(job.entry):
                self._queue.remove(job)
                self._running = job
                self._tell_positions()
                return job
        return None

    def _ready(self, entry: ModelEntry) -> bool:
        """Whether the model is loaded, or has failed to; it is loaded again where another took its room meanwhile."""
        if entry.state == "available":
            self.load(self._registry.begin_loading(entry))
        return entry.state in ("loaded", "failed")

    def _fetch(self, entry: ModelEntry) -> None:
        def progress(text: str, fraction: float | None = None) -> None:
            self._registry.tell(entry, "progress", {"text": text} if fraction is None else {"text": text, "fraction": fraction})

        try:
            self._engine.fetch(entry.name, progress)
        except Exception as error:
            self._load_failed(entry, error)
        else:
            self._load_soon(entry)

    def _load_soon(self, entry: ModelEntry) -> None:
        self._registry.tell(entry, "progress", {"text": f"Loading {entry.name}"})
        with self._change:
            self._loads.append(entry)
            self._change.notify_all()

    def _load(self, entry: ModelEntry) -> None:
        try:
            model = self._engine.load(entry.name, self._device)
            facts = self._facts(model)
            if model.kind == "clip":
                with suppress(ExplainerError):  # one whose text tower cannot be told has an image side alone
                    facts = replace(facts, text_side=self._facts(model.seen_from("text")))
            check_facts(facts)
            self._registry.loaded(entry, model, facts)
        except Exception as error:
            self._load_failed(entry, error)
        else:
            log.info("loaded %s on %s", entry.name, facts.device)

    def _facts(self, model: Any) -> ModelFacts:
        return ModelFacts(
            kind=model.kind,
            device=str(model.device),
            labels=tuple(model.labels),
            details={"blocks": len(model.blocks), **{k: v for k, v in model.details.items() if k != "missing_requirements"}},
            weights_digest=model.weights_digest,
            blocks=len(model.blocks),
            methods=tuple(self._engine.methods(model)),
            variants=tuple(self._engine.variants(model)),
            default_methods=tuple(self._engine.default_methods(model)),
            classes=tuple(model.classes),
            groups=model.groups,
            synonyms=model.synonyms,
            calibration=model.calibration,
        )

    def _load_failed(self, entry: ModelEntry, error: Exception) -> None:
        if ran_out_of_memory(error):
            log.warning("no memory to load %s", entry.name, exc_info=error)
            problem = out_of_memory(f"{entry.name} needs more memory than there is.", "Choose a smaller model, or try again later.")
        elif isinstance(error, ExplainerError):
            log.warning("%s could not be loaded: %s", entry.name, error)
            problem = Problem(422, "model-failed", str(error), send="Choose another model, or try again.")
        else:
            problem = unforeseen(error, f"Loading {entry.name}", "model-failed", send="Choose another model, or try again.")
        self._registry.failed(entry, problem)
        free_memory()
        with self._change:
            self._change.notify_all()  # the jobs that wait for it fail now

    def _polled(self, stop: threading.Event, model: Any) -> Callable[[], bool]:
        """Says between two passes whether to stop, and that the thread lives; chooses the number of CPU threads for the next pass."""

        def cancelled() -> bool:
            self._beat = time.monotonic()
            self._engine.fit_threads(model)
            return stop.is_set() or self._stopping

        return cancelled

    def _letting_pass(self, study: Study, model: Any) -> Callable[[], bool]:
        """As :meth:`_polled` for a study; between two passes of a long one the thread first does all that has come in meanwhile."""
        cancelled = self._polled(study.cancelled, model)
        if not study.is_long:
            return cancelled

        def others_first() -> bool:
            while not cancelled():
                with self._change:
                    task = self._next_question()
                if task is None:
                    return False
                self._do(task)
            return True

        return others_first

    def _answer(self, study: Study) -> None:
        if not study.future.set_running_or_notify_cancel():
            return
        answers: list[dict[str, Any]] = []
        try:
            model, facts = self._loaded(study.entry)
            cancelled = self._letting_pass(study, model)
            send = "Ask for less at once, or explain a shorter text."
            run_with_memory_retry(lambda: answers.append(study.work(model, cancelled, study.tell)), study.entry.name, facts.device, send)
            json_text(answers[-1])  # it can be sent
        except self._engine.cancelled:
            study.future.set_exception(interrupted())
        except Exception as error:
            study.future.set_exception(problem_of(error, "study", "cannot-answer"))
        else:
            study.future.set_result(answers[-1])

    def _loaded(self, entry: ModelEntry) -> tuple[Any, ModelFacts]:
        """The model and what is known of it; raises the Problem with which it failed to load."""
        if entry.state == "failed" and entry.problem is not None:
            raise entry.problem
        return self._registry.take(entry)

    def _explain(self, job: Job) -> None:
        began = time.monotonic()
        try:
            self._run(job)
        except self._engine.cancelled:
            outcome: tuple[str, Problem | None] = ("failed", interrupted()) if self._stopping else ("cancelled", None)
        except Exception as error:
            outcome = ("failed", problem_of(error, "explanation", "cannot-explain"))
        else:
            outcome = ("done", None)
        self._metrics.job(outcome[0], time.monotonic() - began)
        self._finish(job, *outcome, seconds=time.monotonic() - began)

    def _run(self, job: Job) -> None:
        model, facts = self._loaded(job.entry)
        wanted = plan(job.question, facts, self._engine, self._settings)
        job.key = wanted.key
        self._store.save(job.running(facts, wanted), key=job.key)
        source: Image.Image | Crop | TextPair | str = job.question.text or ""
        if job.question.text is not None and job.question.text_pair is not None:
            source = TextPair(job.question.text, job.question.text_pair)
        if job.question.image is not None:
            whole = open_image(job.question.image, self._settings)
            source = whole if job.question.crop is None else Crop(whole, job.question.crop)

        def on_prediction(explanation: Any) -> None:
            document = explanation.to_json()
            if job.question.image is not None:
                document["input"]["sha256"] = hashlib.sha256(job.question.image).hexdigest()  # tells whether two are of the same picture
            pixels = getattr(explanation.input, "pixels", None)  # a text has none
            if pixels is not None:
                job.images["input.png"] = encoded(pixels, "PNG")
            job.images[TENSORS] = save({name: tensor.detach().cpu().contiguous() for name, tensor in explanation.tensors.items()})
            job.predicted(document)

        def on_map(explanation: Any, attribution: Any) -> None:
            if attribution.pixels is not None:
                job.images[pixels_name(attribution.method, attribution.target)] = npy(attribution.pixels.numpy())
            job.mapped(attribution.to_json())

        cancelled = self._polled(job.cancelled, model)
        observer = Calls(on_prediction, on_map)

        def explain() -> None:
            how = {"side": job.question.side, "long_texts": job.question.long_texts, "precision": job.question.precision}
            self._engine.explain(model, source, wanted.targets, wanted.methods, observer=observer, cancelled=cancelled, **how)

        send = "Ask for fewer methods at once, for fewer targets, or for a shorter text."
        run_with_memory_retry(explain, job.entry.name, facts.device, send)

    def _finish(self, job: Job, state: str, problem: Problem | None = None, seconds: float | None = None) -> None:
        document = job.finished(state, problem, seconds)
        is_stored = True
        try:
            self._store.save(document, job.images, job.key)
            if (title := job.document().get("title")) != document.get("title"):
                self._store.rename(job.id, title)  # it was named in between
        except Exception as error:  # whatever it is, the worker goes on
            log.error("explanation %s could not be stored", job.id, exc_info=error)
            is_stored = False  # it stays in memory until the server stops
        with self._change:
            if self._running is job:
                self._running = None
            if is_stored:
                self._live.pop(job.id, None)
        job.end()

    def _tell_position(self, job: Job, position: int) -> None:
        """Say how many are before ``job``; a running one that was cancelled stops at its next pass and does not count."""
        is_running = self._running is not None and not self._running.cancelled.is_set()
        job.feed.publish(event(0, "queued", {"position": position + is_running}))

    def _tell_positions(self) -> None:
        for position, job in enumerate(self._queue):
            self._tell_position(job, position)

    def _retry_after(self) -> int:
        """Seconds until there is likely to be room: what one explanation has taken so far."""
        return max(1, round(self._metrics.mean_job_seconds()))


class Calls:
    """The two calls that the engine makes while it explains."""

    def __init__(self, on_prediction: Callable[[Any], None], on_map: Callable[[Any, Any], None]) -> None:
        self.on_prediction, self.on_map = on_prediction, on_map
