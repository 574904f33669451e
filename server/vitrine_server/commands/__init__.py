"""The subcommands of ``vitrine``, in rooms: each module of a room holds one command or two. What several commands share lies beside the
rooms: their options, bars of progress, files and tables of text.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from typing import Any, NoReturn, TypeAlias

#: What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class Help(argparse.HelpFormatter):
    """A help formatter that keeps the line breaks of descriptions and examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = [(line, " " * (len(line) - len(line.lstrip()))) for line in text.splitlines()]
        return "\n".join(super(Help, self)._fill_text(line, width, indent + lead) for line, lead in lines)


class Parser(argparse.ArgumentParser):
    """An argument parser that prints errors in one line. A word that begins with a minus and a digit is a value, such as a crop, not an
    option.
    """

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **{"formatter_class": Help, **how})
        self._negative_number_matcher = re.compile(r"^-\d")

    def error(self, message: str) -> NoReturn:
        """Print the error ``message`` on stderr and exit with code 2."""
        self.exit(2, f"vitrine: {message} ({self.prog} --help says more)\n")


class Listed(argparse.Action):
    """An argparse action for a list of names, separated by spaces or commas."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Split ``values``, the text or texts of an option of the command line, at commas and store the list of names in ``namespace``, as
        ``argparse`` calls it.
        """
        texts = [values] if isinstance(values, str) else values
        setattr(namespace, self.dest, [name.strip() for value in texts for name in value.split(",") if name.strip()])


class CommandError(Exception):
    """Raised when the command line asks for something that cannot be done; the message says what to type instead."""


class PartialFailure(Exception):
    """Raised at the end of a command that failed for some of its inputs; the message says what could not be done."""


#: An argument of Python in a message of the engine, as in "leave chat= out", "with at='similar'" or "as labels=['a cat']": its name, and
#: its value if it has one.
_ARGUMENT = re.compile(r"""(?<![\w?&/])([a-z_]{2,})=(?:'([^']*)'|"([^"]*)"|(-?\w+(?:\.\w+)*)|\[([^\]]*)\])?""")


def in_flags(message: str, options: Collection[str]) -> str:
    """Return ``message`` of the engine with its arguments of Python written as flags of the command that has these ``options``, by name:
    ``leave chat= out`` becomes ``leave --chat out``, a list has commas. Arguments that are no option of it stay.
    """

    def flag(argument: re.Match[str]) -> str:
        name, *values, items = argument.groups()
        if name not in options:
            return argument[0]
        value = next((each for each in values if each), "")
        if items:
            value = '"{}"'.format(",".join(re.findall(r"""["']([^"']*)["']""", items)))
        return f"--{name.replace('_', '-')}" + (f" {value}" if value not in ("", "True") else "")

    return _ARGUMENT.sub(flag, message)


def count_of(count: int, thing: str) -> str:
    """Format ``count`` with the word ``thing``, such as "1 file" or "2 files"."""
    return f"{count} {thing}{'' if count == 1 else 's'}"
