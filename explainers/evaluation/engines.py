"""Where the inputs of a run are measured: in this process, or, as :mod:`explainers.evaluation.distributed` has it, on many machines."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence

from explainers.evaluation.measuring import Bench, Row, rows_of
from explainers.session import Cancelled

__all__ = ["Engine", "Parts", "local"]

#: The parts of a run that are missing: for the number of each the places of its inputs.
Parts = Mapping[int, Sequence[int]]
#: From a bench and the parts to measure, to the number and the rows of each part, each once, in any order. The function that it is given
#: is told how many inputs are measured, each time before it waits for more. Raises :class:`explainers.Cancelled` when the bench says so.
Engine = Callable[[Bench, Parts, Callable[[int], None]], Generator[tuple[int, list[Row]]]]


def local(bench: Bench, parts: Parts, tell: Callable[[int], None]) -> Generator[tuple[int, list[Row]]]:
    """Measure one input after the other in this process."""
    done = 0
    for number, places in parts.items():
        rows: list[Row] = []
        for place in places:
            if bench.cancelled is not None and bench.cancelled():
                raise Cancelled
            tell(done)
            rows += rows_of(bench, place)
            done += 1
        yield number, rows
