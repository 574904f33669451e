"""Experiments: options of ``vitrine evaluate`` in a TOML file, by their long names, so that a run can be named and kept."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any


class ExperimentError(ValueError):
    """Raised when an experiment file cannot be used; the message says why."""


class Experiment(argparse.Action):
    """An argparse action that reads options from a TOML file and parses them as if they were on the command line."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Read the experiment file at the path ``values`` (TOML), parse its options with ``parser`` as if they were on the command line,
        and store the result as a namespace of its own in ``namespace``, under the name of this option. ``parser`` ends the program with a
        message if the file or an option in it is wrong.
        """
        try:
            options = read_options(values)
        except ExperimentError as problem:
            parser.error(str(problem))
        given, strange = parser.parse_known_args([word for name, value in options.items() for word in to_arguments(name, value)])
        if strange:
            parser.error(f"{values}: there is no option {' '.join(strange)}")
        setattr(namespace, self.dest, given)


def read_options(path: Path) -> dict[str, Any]:
    """Return the options in the experiment file ``path`` (TOML), a dict of values by long name without dashes. Its key ``extends`` names
    another file in the same folder, whose options come first: lists are continued, other values replaced.

    Raises ExperimentError if a file cannot be read, extends itself, or contains the option ``experiment``.
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
    """Return whether both values are lists, so that the second continues the first."""
    return isinstance(first, list) and isinstance(second, list)


def to_arguments(name: str, value: Any) -> list[str]:
    """Convert the option ``name`` with its ``value`` to the words of a command line, such as ``--limit`` and ``50``: True to the name
    alone, False to no words, a list to the name and one word for each item.
    """
    if isinstance(value, bool):
        return [f"--{name}"] if value else []
    return [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
