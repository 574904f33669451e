"""Experiments: options of ``vitrine evaluate`` in a TOML file, by their long names, so that a run can be named and kept."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any


class ExperimentError(ValueError):
    """The file says nothing that can be measured; the message says why."""


class Experiment(argparse.Action):
    """Reads a file of options, which the parser checks as if they were typed."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Keep the options that the file gives."""
        try:
            options = read_options(values)
        except ExperimentError as problem:
            parser.error(str(problem))
        given, strange = parser.parse_known_args([word for name, value in options.items() for word in to_arguments(name, value)])
        if strange:
            parser.error(f"{values}: there is no option {' '.join(strange)}")
        setattr(namespace, self.dest, given)


def read_options(path: Path) -> dict[str, Any]:
    """The options of a file. ``extends`` names another one beside it, whose options come first: lists go on, other values are replaced.

    Raises ExperimentError where a file cannot be read, extends itself, or names an experiment.
    """
    return _read(path, ())


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    if path in seen:
        raise ExperimentError(f"{path} extends itself")
    try:
        options = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as problem:
        raise ExperimentError(f"the experiment {path} cannot be read: {problem}") from None
    if "experiment" in options:
        raise ExperimentError(f"{path} names an experiment; with extends it goes on with one")
    if (other := options.pop("extends", None)) is None:
        return options
    begun = _read(path.parent / str(other), (*seen, path))
    return begun | {name: begun[name] + value if are_both_lists(begun.get(name), value) else value for name, value in options.items()}


def are_both_lists(first: object, second: object) -> bool:
    """Whether one list goes on with the other."""
    return isinstance(first, list) and isinstance(second, list)


def to_arguments(name: str, value: Any) -> list[str]:
    """An option as the words of a command line; one that is false is left out."""
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    return [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
