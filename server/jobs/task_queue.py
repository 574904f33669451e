"""What waits for the device, and which of it comes next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from server.jobs.job import Job
from server.jobs.model_registry import ModelEntry
from server.jobs.tasks import BACKGROUND, FEW_PASSES, Study

Task = ModelEntry | Study | Job
#: Heavier than any task: what is lighter is everything.
EVERYTHING = BACKGROUND + 1
#: Seconds by which an explanation may be ahead of another one before they change places.
SLICE = 1.0


@dataclass
class TaskQueue:
    """Models to load, studies and explanations that wait. Whoever calls holds the worker's lock.

    is_ready  whether a model is loaded, or has failed to
    is_quick  whether the next map of an explanation is there soon, as far as is known
    """

    is_ready: Callable[[ModelEntry], bool]
    is_quick: Callable[[Job], bool]
    loads: list[ModelEntry] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)

    def take(self, below: int = EVERYTHING) -> Task | None:
        """What comes next of all that is lighter than a task of the weight ``below``: loads, then what one waits for at once, then new
        explanations, then studies of few passes, then explanations that have begun, then studies of many.

        A task of few passes lets those explanations pass whose next map is there soon.
        """
        if self.loads:
            return self.loads.pop(0)
        if (study := self._take_study(range(1))) is not None:
            return study
        if below <= FEW_PASSES:
            return self._take_job(self.is_quick)
        if (job := self._take_job(lambda job: not job.has_begun)) is not None:
            return job
        if (study := self._take_study(range(FEW_PASSES, FEW_PASSES + 1))) is not None:
            return study
        return self._take_job(lambda job: True) or self._take_study(range(FEW_PASSES + 1, below))

    def _take_study(self, weights: range) -> Study | None:
        """The first study of these weights, the lightest first, whose model is not on its way."""
        for study in sorted(self.studies, key=_weight):
            if _weight(study) in weights and self.is_ready(study.entry):
                self.studies.remove(study)
                return study
        return None

    def _take_job(self, is_wanted: Callable[[Job], bool]) -> Job | None:
        """Of the explanations that wait the one that had the device for the shortest time; of two new ones the first."""
        for job in sorted(self.jobs, key=lambda job: job.used):
            if is_wanted(job) and self.is_ready(job.entry):
                self.jobs.remove(job)
                return job
        return None

    def goes_before(self, used: float) -> bool:
        """Whether something waits that goes before an explanation that had the device for so long: a load, a study of few passes, a new
        explanation, or one that had it for a shorter time.
        """
        studies = (study for study in self.studies if _weight(study) <= FEW_PASSES)
        jobs = (job for job in self.jobs if not job.has_begun or job.used + SLICE <= used)
        return bool(self.loads) or any(self.is_ready(task.entry) for tasks in (studies, jobs) for task in tasks)

    def tell_positions(self, is_busy: bool) -> None:
        """Say of each new explanation how many are before it: new ones, and one that has the device."""
        for position, job in enumerate(job for job in self.jobs if not job.has_begun):
            job.at_position(position + is_busy)


def _weight(study: Study) -> int:
    """0 where somebody waits for it at once."""
    return study.weight if study.is_long else 0
