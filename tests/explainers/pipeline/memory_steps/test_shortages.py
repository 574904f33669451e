"""What a shortage of memory says: how many bytes it needs at least, and that it was one, however many calls it passes through."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from explainers import ExplainerError
from explainers.errors import MemoryShortageError
from explainers.models.passes import Passes, Shortages, attempt, bytes_needed
from explainers.pipeline import memory_steps
from tests.explainers.support.wrapped import inputs, wrapped

FULL = "CUDA out of memory. Tried to allocate 2.00 GiB."


def full(asked_for: str = "2.00 GiB", held: str = "5.00 GiB") -> torch.OutOfMemoryError:
    """An error in the words of torch's allocator of GPU memory."""
    return torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {asked_for}. GPU 1 has a total capacity of 79.15 GiB of which 1.00 GiB is free. Including "
        f"non-PyTorch memory, this process has 7.00 GiB memory in use. Of the allocated memory {held} is allocated by PyTorch, and "
        "512.00 MiB is reserved by PyTorch but unallocated."
    )


GIB = 2**30


@pytest.mark.parametrize(
    ("error", "needed"),
    [
        (full(), 2 * GIB + 5 * GIB - 3 * GIB),  # the tensors of the pass, which is cleared away, and those that it could not have
        (full("512.00 MiB", "1.00 GiB"), GIB // 2),  # what was given back meanwhile is no less than nothing
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."),
            4096,
        ),
        (RuntimeError("MPS backend out of memory (max allowed: 9.07 GB). Tried to allocate 4.00 GB on private pool."), 4 * 10**9),
        (MemoryShortageError("This needs 9 bytes.", needed=9), 9),
        (MemoryShortageError("This needs more."), None),
        (torch.OutOfMemoryError("CUDA out of memory"), None),
        (ValueError("I tried to allocate 4096 bytes"), None),
        (None, None),
    ],
    ids=lambda value: None if isinstance(value, int) else type(value).__name__,
)
def test_the_bytes_that_a_shortage_needs_are_read_from_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, needed: int | None
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda gpu: 3 * GIB if gpu == 1 else pytest.fail("another GPU"))
    assert bytes_needed(error) == needed
    outer = ExplainerError("the model failed")
    outer.__cause__ = error
    assert bytes_needed(outer) == needed


def test_an_explanation_and_an_analysis_that_do_not_fit_say_what_they_need_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """By it a server knows whether others can make room: without, all of them would leave a GPU for what it cannot hold."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda gpu: GIB)

    def fail(*_: Any) -> None:
        raise full()

    with pytest.raises(MemoryShortageError) as explanation:
        memory_steps.explain_in_steps(wrapped("swin"), inputs("swin", 2), 2, fail)
    with pytest.raises(MemoryShortageError) as analysis:
        memory_steps.run_in_steps(lambda: wrapped("vit"), fail)
    assert [explanation.value.needed, analysis.value.needed] == [6 * GIB] * 2


@pytest.mark.parametrize(
    ("family", "count", "passes"),
    [("vit", 1, 2), ("vit", 2, 3), ("vit", 3, 4), ("swin", 2, 2)],  # each with all activations kept; of a ViT at last without
)
def test_a_shortage_counts_once_however_many_attempts_it_passes(
    monkeypatch: pytest.MonkeyPatch, family: str, count: int, passes: int
) -> None:
    monkeypatch.setattr(Shortages, "count", 0)
    ran: list[int] = []

    def fail(first: int, number: int, recomputed: bool) -> None:
        ran.append(number)
        raise torch.OutOfMemoryError(FULL)

    def explain() -> None:
        memory_steps.explain_in_steps(wrapped(family), inputs(family, count), count, fail)

    assert isinstance(attempt(explain), MemoryShortageError)  # as a server calls it
    assert len(ran) == Shortages.count == passes


def test_each_pass_of_an_analysis_for_which_memory_is_short_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shortages, "count", 0)
    ran: list[int] = []

    def ask(first: int, number: int) -> None:
        ran.append(number)
        raise torch.OutOfMemoryError(FULL)

    def analyse() -> None:
        list(Passes(4).run(4, ask))

    assert isinstance(attempt(lambda: memory_steps.run_in_steps(lambda: wrapped("vit"), analyse)), MemoryShortageError)
    assert ran == [4, 2, 1, 1, 1]  # then one row a pass, then with its activations computed again
    assert Shortages.count == 5
    assert isinstance(attempt(lambda: (_ for _ in ()).throw(torch.OutOfMemoryError(FULL))), torch.OutOfMemoryError)
    assert Shortages.count == 6
