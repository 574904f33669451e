"""The subcommands of ``vitrine``. Each module holds one, but ``listing``, which holds ``models`` and ``methods``."""

from __future__ import annotations

import argparse
from typing import NoReturn, TypeAlias

#: What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class Parser(argparse.ArgumentParser):
    """A parser that says what was wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(2, f"vitrine: {message} ({self.prog} --help says more)\n")


class CommandError(Exception):
    """The command line asks for something that cannot be done; the message says what to type instead."""
