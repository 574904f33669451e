"""What the scripts know of targets and tasks."""

from __future__ import annotations

from explainers.models import tasks
from explainers.models.tasks.generated_answer import GeneratedAnswer
from tests.support.node import compute


def test_the_tasks_that_write_are_those_of_the_engine() -> None:
    written = {task.name for task in vars(tasks).values() if isinstance(task, type) and issubclass(task, GeneratedAnswer)}
    written |= {kind.name for kind in GeneratedAnswer.__subclasses__()} | {GeneratedAnswer.name}
    assert set(compute("async () => (await script('core/targets.js')).WRITING_TASKS")) == written
