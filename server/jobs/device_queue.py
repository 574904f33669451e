"""What waits for the device, and which of it comes next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from server.http.visitors import Visitor
from server.jobs.job import Job
from server.jobs.model_registry import ModelEntry
from server.jobs.study import BACKGROUND, FEW_PASSES, Study

WorkItem = ModelEntry | Study | Job
#: Heavier than any task: what is lighter is everything.
EVERYTHING = BACKGROUND + 1
#: Seconds by which an explanation may be ahead of another one before they change places.
SLICE = 1.0


@dataclass
class DeviceQueue:
    """Models to load, studies and explanations that wait. Whoever calls holds the worker's lock.

    is_ready  whether a model is loaded, or has failed to
    is_quick  whether the next map of an explanation is there soon, as far as is known
    """

    is_ready: Callable[[ModelEntry], bool]
    is_quick: Callable[[Job], bool]
    loads: list[ModelEntry] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    _used: dict[str, float] = field(default_factory=dict)  # ``turn`` of a visitor -> seconds of the device, counted from when they came

    def enter(self, job: Job, running: Iterable[Job]) -> None:
        """Let an explanation wait. A visitor who has none here is as far as the one who has had the device for the shortest time."""
        here = {other.visitor.turn for other in (*self.jobs, *running)}
        if job.visitor.turn not in here:
            self._used = {turn: seconds for turn, seconds in self._used.items() if turn in here}
            self._used[job.visitor.turn] = min(self._used.values(), default=0.0)
        self.jobs.append(job)

    def note(self, visitor: Visitor, seconds: float) -> None:
        """A visitor has had the device for so long."""
        self._used[visitor.turn] = self._used.get(visitor.turn, 0.0) + seconds

    def take(self, below: int = EVERYTHING) -> WorkItem | None:
        """What comes next of all that is lighter than a task of the weight ``below``: loads that somebody waits for, then what one waits
        for at once, then new explanations, then studies of few passes, then explanations that have begun, then studies of many, then the
        embedded models that nobody has asked yet. Of explanations those of the visitor come first who has had the device for the shortest
        time.

        A task of few passes lets those explanations pass whose next map is there soon.
        """
        if (wanted := self._wanted_load()) is not None:
            self.loads.remove(wanted)
            return wanted
        if (study := self._take_study(range(1))) is not None:
            return study
        if below <= FEW_PASSES:
            return self._take_job(self.is_quick)
        next_job = next((job for job in self._in_order() if self.is_ready(job.entry)), None)
        is_new = next_job is not None and not next_job.has_begun
        if not is_new and (study := self._take_study(range(FEW_PASSES, FEW_PASSES + 1))) is not None:
            return study
        if next_job is not None:
            self.jobs.remove(next_job)
        if (task := next_job or self._take_study(range(FEW_PASSES + 1, below))) is not None:
            return task
        return self.loads.pop(0) if self.loads and below == EVERYTHING else None

    def _wanted_load(self) -> ModelEntry | None:
        """The first model that is to be loaded and that somebody waits for. Embedded ones are loaded without being asked for."""
        wanted = {task.entry.name for tasks in (self.jobs, self.studies) for task in tasks}
        return next((entry for entry in self.loads if not entry.embedded or entry.is_awaited or entry.name in wanted), None)

    def _take_study(self, weights: range) -> Study | None:
        """The first study of these weights, the lightest first, whose model is not on its way."""
        for study in sorted(self.studies, key=_weight):
            if _weight(study) in weights and self.is_ready(study.entry):
                self.studies.remove(study)
                return study
        return None

    def _take_job(self, is_wanted: Callable[[Job], bool]) -> Job | None:
        """The first explanation that is wanted and whose model is not on its way."""
        for job in self._in_order():
            if is_wanted(job) and self.is_ready(job.entry):
                self.jobs.remove(job)
                return job
        return None

    def _in_order(self) -> list[Job]:
        """The explanations that wait. Of one visitor new ones come first, then the one that had the device for the shortest time."""
        return sorted(self.jobs, key=lambda job: (self._used.get(job.visitor.turn, 0.0), job.has_begun, job.used))

    def goes_before(self, job: Job, used: float) -> bool:
        """Whether something waits that goes before an explanation that had the device for so long, of these in this turn: a load, a study
        of few passes; of the same visitor a new explanation, or one that had it for a shorter time; of another visitor one who had it so.
        """
        so_far = self._used.get(job.visitor.turn, 0.0) + used - job.used

        def is_before(other: Job) -> bool:
            if other.visitor.turn == job.visitor.turn:
                return not other.has_begun or other.used + SLICE <= used
            return self._used.get(other.visitor.turn, 0.0) + SLICE * other.has_begun <= so_far

        studies = (study for study in self.studies if _weight(study) <= FEW_PASSES)
        jobs = (other for other in self.jobs if is_before(other))
        return self._wanted_load() is not None or any(self.is_ready(task.entry) for tasks in (studies, jobs) for task in tasks)

    def tell_positions(self, is_busy: bool) -> None:
        """Say of each new explanation how many are before it: new ones, and one that has the device."""
        for position, job in enumerate(job for job in self.jobs if not job.has_begun):
            job.set_position(position + is_busy)


def _weight(study: Study) -> int:
    """0 where somebody waits for it at once."""
    return study.weight if study.is_long else 0
