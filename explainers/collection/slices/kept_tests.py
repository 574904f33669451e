"""Tests of slices on disk, a line for each slice as it is done, so that a stopped search goes on with the slice at which it was."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from explainers.collection.intervals import Mean, Share
from explainers.collection.slices.records import CopyTest, HidingTest

#: The tests of one slice: without what it names, and with it copied.
Tests = tuple[HidingTest | None, CopyTest | None]
_Test = TypeVar("_Test", HidingTest, CopyTest)


@dataclass
class KeptTests:
    """The tests in the file at ``path``; None: they are only in memory.

    search  what the search found, in words, and its settings: a file of another search is begun again
    """

    path: Path | None
    search: Sequence[str]
    _done: dict[int, Tests] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is None:
            return
        lines = _lines(self.path)
        if lines[:1] == [list(self.search)]:
            self._done = {line["slice"]: (_read(HidingTest, line["test"]), _read(CopyTest, line["copy_test"])) for line in lines[1:]}
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(list(self.search)) + "\n", "utf-8")

    def find(self, number: int) -> Tests | None:
        """Return the tests of the slice ``number``; None if it was not tested."""
        return self._done.get(number)

    def add(self, number: int, tests: Tests) -> None:
        """Keep the tests of the slice ``number``."""
        self._done[number] = tests
        if self.path is not None:
            test, copy_test = (None if each is None else each.to_json() for each in tests)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"slice": number, "test": test, "copy_test": copy_test}) + "\n")


def _lines(path: Path) -> list[Any]:
    """Return the whole lines of a file of JSON; none of a file that is not there. The last one may have been cut."""
    lines: list[Any] = []
    try:
        text = path.read_text("utf-8")
    except OSError:
        return lines
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            path.write_text(text[: -len(line)], "utf-8")
            break
        lines.append(json.loads(line))
    return lines


def _read(kind: type[_Test], document: dict[str, Any] | None) -> _Test | None:
    if document is None:
        return None
    values = {each.name: document[each.name] for each in fields(kind)}
    records = {name: Mean(**value) if "inputs" in value else Share(**value) for name, value in values.items() if isinstance(value, dict)}
    return kind(**values | records)
