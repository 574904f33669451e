"""What a host does where memory runs out: other models make room, and the work is done once more or refused in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from explainers.errors import ExplainerError, MemoryShortageError
from vitrine_server.http.problems import Problem
from vitrine_server.jobs.host.work import run_with_memory_retry

FULL = torch.OutOfMemoryError("CUDA out of memory")
FORBIDDEN = MemoryShortageError("This needs about 9 GB, and 2 GB of 8 GB are free.")


class Work:
    """Work that raises each of ``errors`` once, in order, and then succeeds; and models that can make room."""

    def __init__(self, errors: list[Exception], others: int = 0) -> None:
        self.errors, self.others, self.runs = errors, others, 0

    def run(self) -> None:
        self.runs += 1
        if self.errors:
            raise self.errors.pop(0)

    def make_room(self, needed: int | None) -> bool:
        self.needed = needed
        self.others -= 1
        return self.others >= 0


def do(work: Work) -> None:
    run_with_memory_retry(work.run, "a model", "cuda:0", "Ask for less.", work.make_room)


@pytest.mark.parametrize(
    ("errors", "others", "runs"),
    [([], 3, 1), ([FULL], 0, 2), ([FULL], 2, 2), ([FORBIDDEN], 1, 2)],
    ids=["at once", "nobody else", "others leave", "an estimate"],
)
def test_work_is_done_once_more(errors: list[Exception], others: int, runs: int) -> None:
    work = Work(list(errors), others)
    do(work)
    assert work.runs == runs
    assert work.others == (others if not errors else -1)  # every other model has left


@pytest.mark.parametrize(
    ("make", "runs", "words"),
    [
        (lambda: Work([FULL, FULL]), 2, "a model needs more memory than cuda:0 has for this."),
        (lambda: Work([FORBIDDEN]), 1, str(FORBIDDEN)),
        (lambda: Work([FULL, FORBIDDEN], 1), 2, str(FORBIDDEN)),
    ],
    ids=["it does not fit alone", "the estimate would forbid it again", "then the estimate forbids it"],
)
def test_what_does_not_fit_is_refused_in_words(make: Callable[[], Work], runs: int, words: str) -> None:
    work = make()
    with pytest.raises(Problem) as refused:
        do(work)
    assert (refused.value.status, refused.value.detail, refused.value.send) == (503, words, "Ask for less.")
    assert work.runs == runs


@pytest.mark.parametrize(("error", "needed"), [(MemoryShortageError("9 GB", needed=9), 9), (FORBIDDEN, None), (FULL, None)])
def test_who_makes_room_is_told_how_much_is_needed(error: Exception, needed: int | None) -> None:
    work = Work([error], 1)
    do(work)
    assert work.needed == needed


class Others:
    """Models that make room: those of ``leaving`` at each call, as long as there are any."""

    def __init__(self, leaving: list[int]) -> None:
        self.leaving, self.asked = leaving, list[int | None]()

    def make_room(self, needed: int | None) -> bool:
        self.asked.append(needed)
        return bool(self.leaving and self.leaving.pop(0))


@pytest.mark.parametrize(
    ("errors", "asked", "runs"),
    [
        ([9], [9], 2),  # what it needs has left: nobody else has to
        ([9, 8], [9, 8, 8, 8], 3),  # it was not enough: all leave that can
        ([9, 8, 7], [9, 8, 8, 8, 7], 3),  # nobody is left
        ([None], [None] * 4, 2),
    ],
)
def test_no_more_models_leave_than_are_in_the_way(errors: list[int | None], asked: list[int | None], runs: int) -> None:
    work, others = Work([MemoryShortageError(f"It needs {needed}.", needed=needed) for needed in errors]), Others([1, 1, 1])
    is_refused = len(errors) > 2

    def run() -> None:
        run_with_memory_retry(work.run, "a model", "cuda:0", "Ask for less.", others.make_room)

    if is_refused:
        with pytest.raises(Problem, match="It needs 7"):
            run()
    else:
        run()
    assert (others.asked, work.runs) == (asked, runs)


def test_nobody_makes_room_for_what_a_gpu_may_not_have() -> None:
    """CuDNN's words stay: each such question would have all other models leave."""
    work = Work([RuntimeError("FIND was unable to find an engine to execute this computation")], 3)
    with pytest.raises(RuntimeError, match=r"^FIND was unable to find an engine"):
        do(work)
    assert (work.runs, work.others) == (1, 3)


def test_other_errors_are_raised_as_they_are() -> None:
    with pytest.raises(ExplainerError, match="no such class"):
        do(Work([ExplainerError("no such class")]))
