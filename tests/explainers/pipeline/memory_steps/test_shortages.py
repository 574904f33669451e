"""What a shortage of memory says: how many bytes it needs at least, and that it was one, however many calls it passes through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from explainers import ExplainerError
from explainers.errors import MemoryShortageError
from explainers.models.passes import Passes, Shortages, attempt, bytes_needed, settle_shortages, unsettled_shortages
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


# --- what became of a shortage ---------------------------------------------------------------------------------------------------

NO_ENGINE = "GET was unable to find an engine to execute this computation"


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The outcomes of the shortages of a test; before it there are none."""
    settle_shortages("failed", 0)
    counted = Counter[str]()
    monkeypatch.setattr(Shortages, "outcomes", counted)
    monkeypatch.setattr(Shortages, "count", 0)
    yield counted
    settle_shortages("failed", 0)


class Full:
    """A part of a batch that fails with ``error`` where it has more rows than fit; with activations computed again one row always fits."""

    def __init__(self, error: Callable[[], Exception], fit: int) -> None:
        self.error, self.fit, self.ran = error, fit, list[tuple[int, bool]]()

    def __call__(self, first: int, number: int, recomputed: bool) -> None:
        self.ran.append((number, recomputed))
        if number > self.fit and not recomputed:
            raise self.error()


@pytest.mark.parametrize("error", [lambda: torch.OutOfMemoryError(FULL), lambda: RuntimeError(NO_ENGINE)], ids=["memory", "no engine"])
@pytest.mark.parametrize(("fit", "expected"), [(4, {}), (1, {"smaller-batch": 2}), (0, {"smaller-batch": 2, "recomputed": 1})])
def test_a_shortage_counts_by_what_mended_it(
    outcomes: Counter[str], error: Callable[[], Exception], fit: int, expected: dict[str, int]
) -> None:
    """Also where cuDNN finds no engine: less memory has mended it, so it was one."""
    memory_steps.explain_in_steps(wrapped("vit"), inputs("vit", 4), 4, full := Full(error, fit))
    assert sum(number for number, recomputed in full.ran if recomputed or number <= fit) == 4
    assert +outcomes == expected
    assert (Shortages.count, unsettled_shortages()) == (sum(expected.values()), 0)


def test_a_shortage_of_an_analysis_counts_by_what_mended_it(outcomes: Counter[str]) -> None:
    left = [torch.OutOfMemoryError(FULL) for _ in range(2)]

    def analyse() -> None:
        if left:
            raise left.pop()

    memory_steps.run_in_steps(lambda: wrapped("vit"), analyse)
    assert outcomes == {"recomputed": 2}
    left[:] = [torch.OutOfMemoryError(FULL)]
    memory_steps.run_in_steps(lambda: wrapped("vit"), analyse)
    assert outcomes == {"recomputed": 2, "smaller-batch": 1}


def test_what_passes_mend_is_no_earlier_shortage(outcomes: Counter[str]) -> None:
    """A model that made room for the second try has mended the first one, whatever the passes inside do."""
    assert isinstance(attempt(lambda: (_ for _ in ()).throw(torch.OutOfMemoryError(FULL))), Exception)
    errors = [torch.OutOfMemoryError(FULL)]

    def ask(first: int, number: int) -> None:
        if errors:
            raise errors.pop()

    list(Passes(2).run(2, ask))
    assert +outcomes == {"smaller-batch": 1}
    assert unsettled_shortages() == 1
    settle_shortages("made-room", 0)
    assert +outcomes == {"smaller-batch": 1, "made-room": 1}


@pytest.mark.parametrize(("family", "passes"), [("vit", [(2, False), (1, False), (1, True)]), ("swin", [(2, False), (1, False)])])
def test_an_operation_that_a_gpu_does_not_have_is_said_in_its_own_words(
    outcomes: Counter[str], family: str, passes: list[tuple[int, bool]]
) -> None:
    """Fewer rows and less memory were tried: what stays is no shortage, is said as none and counts as none."""
    ran: list[tuple[int, bool]] = []

    def fail(first: int, number: int, recomputed: bool) -> None:
        ran.append((number, recomputed))
        raise RuntimeError(NO_ENGINE)

    with pytest.raises(RuntimeError, match=f"^{NO_ENGINE}$"):
        memory_steps.explain_in_steps(wrapped(family), inputs(family, 2), 2, fail)
    assert ran == passes
    with pytest.raises(RuntimeError, match=f"^{NO_ENGINE}$"):
        memory_steps.run_in_steps(lambda: wrapped(family), lambda: fail(0, 1, False))
    settle_shortages("failed", 0)
    assert Shortages.count == sum(outcomes.values()) == 0


def test_a_method_that_cannot_do_with_less_does_not_make_a_shortage_of_it(outcomes: Counter[str]) -> None:
    """It says that memory is short, for which alone it would be asked to do with less."""

    def fail(first: int, number: int, recomputed: bool) -> None:
        raise MemoryShortageError("It cannot run here, since memory is short.") if recomputed else RuntimeError(NO_ENGINE)

    errors = [RuntimeError(NO_ENGINE), *(MemoryShortageError("It cannot run here, since memory is short.") for _ in range(2))]
    with pytest.raises(RuntimeError, match=f"^{NO_ENGINE}$"):
        memory_steps.explain_in_steps(wrapped("vit"), inputs("vit", 1), 1, fail)
    with pytest.raises(RuntimeError, match=f"^{NO_ENGINE}$"):
        memory_steps.run_in_steps(lambda: wrapped("vit"), lambda: (_ for _ in ()).throw(errors.pop(0)))
    settle_shortages("failed", 0)
    assert Shortages.count == sum(outcomes.values()) == 0


def test_a_shortage_in_the_last_step_is_said_as_one_though_the_first_was_unclear(outcomes: Counter[str]) -> None:
    def fail(first: int, number: int, recomputed: bool) -> None:
        raise torch.OutOfMemoryError(FULL) if recomputed else RuntimeError(NO_ENGINE)

    with pytest.raises(MemoryShortageError, match="Memory ran out for 1 input"):
        memory_steps.explain_in_steps(wrapped("vit"), inputs("vit", 1), 1, fail)
    settle_shortages("failed", 0)
    assert +outcomes == {"failed": 1}
