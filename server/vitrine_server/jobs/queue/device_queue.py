"""The queue of a device: models to load, studies and explanations, and the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from vitrine_server.http.visitors import Visitor
from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.study import BACKGROUND, FEW_PASSES, SHORT, Study

WorkItem = ModelEntry | Study | Job
#: A weight above that of every study: everything else is lighter.
EVERYTHING = BACKGROUND + 1
#: Seconds of the device by which one explanation may be ahead of another before the other one runs.
SLICE = 1.0


#: Whether a model fits into memory next to those that must not be moved until their work is done: the models of the work under way, and
#: those (the second argument) of explanations that have begun and wait for their next turn.
HasRoom = Callable[[ModelEntry, Collection[ModelEntry]], bool]


def always_has_room(entry: ModelEntry, begun: Collection[ModelEntry]) -> bool:
    """Return True, whatever the model of ``entry`` and the explanations that have ``begun``: every model fits."""
    return True


@dataclass
class DeviceQueue:
    """The queue of one device: the models to load, and the studies and explanations that wait for it. The caller holds the lock of the
    scheduler.

    Where two models do not fit into memory together, explanations that have begun with one of them end before anything is asked of the
    other, and no new one begins meanwhile: so each model is loaded once, and nothing waits for ever.

    is_ready  returns whether a model is loaded, or has failed to load
    is_quick  returns whether the next map of an explanation is estimated to be quick
    loads     models that wait to be loaded
    studies   studies that wait, such as deletion tests
    jobs      explanations that wait or have maps to be made
    """

    is_ready: Callable[[ModelEntry], bool]
    is_quick: Callable[[Job], bool]
    loads: list[ModelEntry] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    _used: dict[str, float] = field(default_factory=dict)  # ``turn`` of a visitor -> seconds of the device, counted from when they came

    def enter(self, job: Job, running: Iterable[Job]) -> None:
        """Append ``job``, an explanation, to the waiting explanations; ``running`` are the explanations on the device. A visitor who has no
        other explanation waiting or running starts with the device time of the visitor who has used least.
        """
        here = {other.visitor.turn for other in (*self.jobs, *running)}
        if job.visitor.turn not in here:
            self._used = {turn: seconds for turn, seconds in self._used.items() if turn in here}
            self._used[job.visitor.turn] = min(self._used.values(), default=0.0)
        self.jobs.append(job)

    def note(self, visitor: Visitor, seconds: float) -> None:
        """Add ``seconds`` of the device to the account of ``visitor``."""
        self._used[visitor.turn] = self._used.get(visitor.turn, 0.0) + seconds

    def take(self, below: int = EVERYTHING, has_room: HasRoom = always_has_room) -> WorkItem | None:
        """Remove and return the next item whose weight is less than ``below``; None if there is none. The order is: models that somebody
        waits for, short studies, new explanations, studies of few passes, explanations that have begun, studies of many passes, embedded
        models that nobody has asked for. Among explanations those of the visitor come first who has used the device least.

        Below ``EVERYTHING`` another item is under way, and explanations that need the device alone wait for its end. Below
        ``FEW_PASSES`` only short studies and explanations whose next map is quick are taken. What does not fit into memory
        (``has_room``) waits.
        """
        fits = self._fitting(has_room)
        if (wanted := next(filter(fits, self._wanted_loads()), None)) is not None:
            self.loads.remove(wanted)
            return wanted
        if (study := self._take_study(range(SHORT, FEW_PASSES), fits)) is not None:
            return study
        ready = (job for job in self._ready_jobs(fits) if below == EVERYTHING or not job.needs_device_alone)
        if below <= FEW_PASSES:
            return self._remove(next(filter(self.is_quick, ready), None))
        next_job = next(ready, None)
        is_new = next_job is not None and not next_job.has_begun
        if not is_new and (study := self._take_study(range(FEW_PASSES, FEW_PASSES + 1), fits)) is not None:
            return study
        if (task := self._remove(next_job) or self._take_study(range(FEW_PASSES + 1, below), fits)) is not None:
            return task
        return self.loads.pop(0) if self.loads and below == EVERYTHING and fits(self.loads[0]) else None

    def loads_without_room(self, has_room: HasRoom) -> list[ModelEntry]:
        """Return the models to load that somebody waits for and that have no room now, by ``has_room``."""
        fits = self._fitting(has_room)
        return [entry for entry in self._wanted_loads() if not fits(entry)]

    def _wanted_loads(self) -> list[ModelEntry]:
        """Return the models to load that somebody waits for; embedded ones are queued at the start, before anybody waits."""
        wanted = {task.entry.name for tasks in (self.jobs, self.studies) for task in tasks}
        return [entry for entry in self.loads if not entry.embedded or entry.is_awaited or entry.name in wanted]

    def _fitting(self, has_room: HasRoom) -> Callable[[ModelEntry], bool]:
        """Return a function from the entry of a model to whether it fits, by ``has_room``, next to those that must not be moved because
        explanations with them have begun.
        """
        begun = [job.entry for job in self.jobs if job.has_begun]
        return lambda entry: has_room(entry, begun)

    def _take_study(self, weights: range, fits: Callable[[ModelEntry], bool]) -> Study | None:
        """Remove and return the lightest study with a weight in ``weights`` whose model is ready and fits; None if there is none."""
        for study in sorted(self.studies, key=lambda study: study.task.weight):
            if study.task.weight in weights and self.is_ready(study.entry) and fits(study.entry):
                self.studies.remove(study)
                return study
        return None

    def _ready_jobs(self, fits: Callable[[ModelEntry], bool]) -> Iterator[Job]:
        """Yield the explanations that can run, in order: their models are ready and fit. New ones stay behind whatever waits for room."""
        lacks_room = not all(fits(entry) for entry in (*self._wanted_loads(), *(study.entry for study in self.studies)))
        for job in self._in_order():
            is_ready = self.is_ready(job.entry)  # which has a model loaded that is not there
            if not fits(job.entry):
                lacks_room = True
            elif is_ready and (job.has_begun or not lacks_room):
                yield job

    def _remove(self, job: Job | None) -> Job | None:
        """Remove ``job`` from the explanations that wait, and return it; None stays None."""
        if job is not None:
            self.jobs.remove(job)
        return job

    def _in_order(self) -> list[Job]:
        """Return the waiting explanations sorted by the device time of their visitors; for one visitor new ones first, then by their own
        device time.
        """
        return sorted(self.jobs, key=lambda job: (self._used.get(job.visitor.turn, 0.0), job.has_begun, job.used))

    def goes_before(self, job: Job, used: float, has_room: HasRoom = always_has_room) -> bool:
        """Return whether another item should run before the running ``job``, which has used the device for ``used`` seconds, this turn
        included. What does not fit into memory next to its model (``has_room``) does not.

        Such items are loads and studies of few passes; of the same visitor, explanations that are new or have used less; of other visitors,
        explanations whose visitor has used less.
        """
        so_far = self._used.get(job.visitor.turn, 0.0) + used - job.used

        def is_before(other: Job) -> bool:
            if other.visitor.turn == job.visitor.turn:
                return not other.has_begun or other.used + SLICE <= used
            return self._used.get(other.visitor.turn, 0.0) + SLICE * other.has_begun <= so_far

        fits = self._fitting(has_room)
        studies = (study.entry for study in self.studies if study.task.weight <= FEW_PASSES and self.is_ready(study.entry))
        return any(fits(entry) for entry in (*self._wanted_loads(), *studies)) or any(map(is_before, self._ready_jobs(fits)))

    def tell_positions(self, is_busy: bool) -> None:
        """Publish to each new explanation its position: the new ones before it, and one more where the device ``is_busy``."""
        for position, job in enumerate(job for job in self.jobs if not job.has_begun):
            job.set_position(position + is_busy)
