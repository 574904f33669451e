"""Where the inputs of a run are measured: in this process, or, as :mod:`explainers.evaluation.distributed` has it, on many machines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial

from explainers.evaluation.broken_inputs import BrokenInput
from explainers.evaluation.measuring import EvaluationRow, EvaluationSetup, rows_of
from explainers.models.memory import free_memory
from explainers.pipeline.memory_steps import run_in_steps
from explainers.records.session import Cancelled

__all__ = ["Parts", "RunEngine", "Size", "TellInputs", "local", "one_by_one"]

#: The missing parts of a run: the number of each, and the indices of its inputs.
Parts = Mapping[int, Sequence[int]]
#: A callback that gets how many inputs of these parts are measured, each time before the engine waits for more.
TellInputs = Callable[[int], None]
#: A function from the kind of the device ("cpu", "cuda") and its free memory in bytes (None: unknown) to the setup with the
#: size of the forward passes. A run keeps the size that it started with.
Size = Callable[[str, int | None], EvaluationSetup]
#: A function that measures parts and yields number and rows of each once, in any order. Raises :class:`explainers.Cancelled` when the setup
#: says so.
RunEngine = Callable[[EvaluationSetup, Parts, TellInputs, Size], Generator[tuple[int, list[EvaluationRow]]]]


def local(setup: EvaluationSetup, parts: Parts, tell: TellInputs, size: Size) -> Generator[tuple[int, list[EvaluationRow]]]:
    """Measure ``parts``, the missing ones, of the run that ``setup`` describes, in this process; yield the number and the rows of each
    part. ``tell`` is called with the number of inputs done; ``size`` sets how many tokens fit into memory at once.
    """
    if parts:
        device = setup.model.device
        yield from one_by_one(size(device.type, free_memory(device)), parts, tell)


def one_by_one(setup: EvaluationSetup, parts: Parts, tell: TellInputs) -> Generator[tuple[int, list[EvaluationRow]]]:
    """Measure the inputs of the missing ``parts`` one after the other, and yield the number and rows of each part. ``setup`` is the run;
    ``tell`` is called with the number of inputs done.

    Raises BrokenInput for an input that cannot be read, unless the setup says to skip it; then one row gives the reason
    (:data:`explainers.evaluation.broken_inputs.BROKEN`).
    """
    done = 0
    for number, indices in parts.items():
        rows: list[EvaluationRow] = []
        for index in indices:
            if setup.cancelled is not None and setup.cancelled():
                raise Cancelled
            tell(done)
            try:
                rows += run_in_steps(lambda: setup.model, partial(rows_of, setup, index))
            except BrokenInput as broken_input:
                if not setup.skip_broken:
                    raise
                rows.append(broken_input.row)
            done += 1
        yield number, rows
