"""How many threads a model gets: by its size, and by the cores that other processes leave free."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from explainers.models.threads import MAX_ONE_THREAD_PARAMETERS, WINDOW_SECONDS, FreeCores, Threads, busy_seconds
from tests.explainers.support.wrapped import wrapped

STAT = """cpu  999 999 999 999 999 999 999 999 0 0
cpu0 100 10 50 5000 30 4 6 10 0 0
cpu1 200 20 60 4000 20 3 7 0 0 0
cpu2 900 90 90 1000 10 9 9 9 0 0
intr 12345
"""


@pytest.fixture
def restored() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_cores_that_the_process_may_use_are_counted_idle_and_waiting_time_left_out() -> None:
    assert busy_seconds(STAT, {0, 1}, ticks=10) == (100 + 10 + 50 + 4 + 6 + 10 + 200 + 20 + 60 + 3 + 7) / 10


class Machine:
    """Four cores; in each second other processes use ``others`` of them and this one ``own``."""

    def __init__(self) -> None:
        self.others, self.own, self.everybody, self.me, self.now = 0.0, 0.0, 100.0, 7.0, 1000.0

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.me += self.own * seconds
        self.everybody += (self.own + self.others) * seconds

    def cores(self) -> FreeCores:
        return FreeCores(4, lambda: self.everybody, lambda: self.me, lambda: self.now)


def test_free_cores_are_those_that_others_leave_whatever_this_process_uses() -> None:
    machine = Machine()
    free = machine.cores()
    assert free() == 4
    for others, own, expected in ((0, 4, 4), (1.0, 3, 3), (2.1, 1.9, 2), (4, 0, 1), (3.9, 0.1, 1), (0.2, 1, 4)):
        machine.others, machine.own = others, own
        machine.after(2)
        assert free() == expected


def test_a_look_too_soon_keeps_the_answer() -> None:
    machine = Machine()
    free = machine.cores()
    machine.others = 3
    machine.after(WINDOW_SECONDS)
    assert free() == 1
    machine.after(WINDOW_SECONDS / 4)
    machine.others = 0
    assert free() == 1
    machine.after(WINDOW_SECONDS)
    assert free() == 3  # 0.6 cores were used over the whole window
    machine.after(WINDOW_SECONDS)
    assert free() == 4


def test_all_cores_are_free_where_the_system_does_not_say() -> None:
    assert FreeCores(4, lambda: None, lambda: 0.0, lambda: 0.0)() == 4


@pytest.mark.parametrize(
    ("free", "parameters", "number"),
    [
        (8, MAX_ONE_THREAD_PARAMETERS - 1, 1),
        (8, MAX_ONE_THREAD_PARAMETERS, 4),
        (3, MAX_ONE_THREAD_PARAMETERS, 3),
        (1, 10 * MAX_ONE_THREAD_PARAMETERS, 1),
    ],
)
def test_a_large_model_gets_the_free_cores_up_to_what_torch_was_told(free: int, parameters: int, number: int) -> None:
    assert Threads(lambda: free, most=4).number_for(parameters) == number


@pytest.mark.usefixtures("restored")
def test_the_thread_that_asks_gets_them() -> None:
    threads = Threads(lambda: 2, most=4)
    torch.set_num_threads(3)
    threads.fit(None)
    assert torch.get_num_threads() == 3
    threads.fit(wrapped("vit"))
    assert torch.get_num_threads() == 1
    model = wrapped("deit3")
    large = type("Large", (), {"details": {"parameters": MAX_ONE_THREAD_PARAMETERS}, "device": model.device})()
    threads.fit(large)
    assert torch.get_num_threads() == 2
