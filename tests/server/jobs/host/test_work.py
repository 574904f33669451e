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


def test_other_errors_are_raised_as_they_are() -> None:
    with pytest.raises(ExplainerError, match="no such class"):
        do(Work([ExplainerError("no such class")]))
