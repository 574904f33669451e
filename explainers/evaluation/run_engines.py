"""Where the inputs of a run are measured: in this process, or, as :mod:`explainers.evaluation.distributed` has it, on many machines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from explainers.evaluation.measuring import EvaluationSetup, Row, rows_of
from explainers.models.memory import free_memory
from explainers.records.session import Cancelled

__all__ = ["Parts", "RunEngine", "Size", "Tell", "local", "one_by_one"]

#: The parts of a run that are missing: for the number of each the indices of its inputs.
Parts = Mapping[int, Sequence[int]]
#: Told how many inputs of these parts are measured, each time before more are waited for.
Tell = Callable[[int], None]
#: From the kind of the device that is measured on ("cpu", "cuda"), and its free memory in bytes (None: unknown), to the setup with the
#: size of the forward passes. A run keeps the size that it began with.
Size = Callable[[str, int | None], EvaluationSetup]
#: Measures parts: gives the number and the rows of each, each once, in any order. Raises :class:`explainers.Cancelled` when the setup
#: says so.
RunEngine = Callable[[EvaluationSetup, Parts, Tell, Size], Generator[tuple[int, list[Row]]]]


def local(setup: EvaluationSetup, parts: Parts, tell: Tell, size: Size) -> Generator[tuple[int, list[Row]]]:
    """Measure in this process."""
    if parts:
        device = setup.model.device
        yield from one_by_one(size(device.type, free_memory(device)), parts, tell)


def one_by_one(setup: EvaluationSetup, parts: Parts, tell: Tell) -> Generator[tuple[int, list[Row]]]:
    """Measure one input after the other."""
    done = 0
    for number, indices in parts.items():
        rows: list[Row] = []
        for index in indices:
            if setup.cancelled is not None and setup.cancelled():
                raise Cancelled
            tell(done)
            rows += rows_of(setup, index)
            done += 1
        yield number, rows
