"""Inputs that cannot be measured: a picture that cannot be read, an empty text, a mask of another size. Which one it is, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from explainers.datasets import Dataset, Sample
from explainers.errors import ExplainerError
from explainers.json_records import Record, describe

BROKEN = "broken"  # the key of a row that says why its input cannot be measured, and of the list of such inputs in run.json and reports


@dataclass(frozen=True)
class BrokenRow(Record, name="BrokenInput"):
    """An input that could not be read: its ``index`` in the data set, its name (null if even the name cannot be read), and the reason."""

    index: int
    input: str | None
    broken: Annotated[str, describe("Why.", key=BROKEN)]


class BrokenInput(ExplainerError):
    """The error ``problem`` of an input, number ``index`` of ``data``, that cannot be measured; the other inputs of the run can be.

    row the row that replaces its results: a :class:`BrokenRow` as plain data
    """

    def __init__(self, data: Dataset, index: int, name: str | None, problem: Exception) -> None:
        known = f" ({name})" if name is not None else ""
        super().__init__(
            f"Input {index}{known} of {data.name} cannot be measured: {str(problem).rstrip('.')}. Mend it and type the same again: what is "
            "measured is kept. Or leave such inputs out: skip_broken=True (--skip-broken)."
        )
        self.row: dict[str, Any] = BrokenRow(index, name, _without_folder(str(problem), data.folder)).to_json()


def _without_folder(text: str, folder: Path | None) -> str:
    """Return the message ``text`` without the ``folder`` of the data.

    Reports are passed on to others, so they should not show paths of this machine.
    """
    if folder is None:
        return text
    return re.sub(rf"(?<![\w/]){re.escape(str(folder if folder.is_dir() else folder.parent))}/", "", text)


def read_sample(data: Dataset, index: int) -> Sample:
    """Return input number ``index`` of ``data``, a data set. Raises BrokenInput if it cannot be read."""
    try:
        return data[index]
    except (ExplainerError, OSError) as problem:
        raise BrokenInput(data, index, None, problem) from problem


def sort_rows(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Split ``rows`` of a run into those of measured inputs and those that report an input that could not be read; return both lists."""
    return [row for row in rows if BROKEN not in row], [row for row in rows if BROKEN in row]
