"""The subcommands of ``vitrine``. Each module holds one; ``listing`` holds ``models`` and ``methods``, ``progress`` their bars."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn, TypeAlias

#: What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class Parser(argparse.ArgumentParser):
    """A parser that says what was wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(2, f"vitrine: {message} ({self.prog} --help says more)\n")


class Listed(argparse.Action):
    """An argument that is given several times over: with spaces or commas between."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Keep the single names."""
        texts = [values] if isinstance(values, str) else values
        setattr(namespace, self.dest, [name.strip() for value in texts for name in value.split(",") if name.strip()])


class CommandError(Exception):
    """The command line asks for something that cannot be done; the message says what to type instead."""
