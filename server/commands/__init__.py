"""The subcommands of ``vitrine``, one module each (``listing`` holds ``models`` and ``methods``)."""

from __future__ import annotations

import argparse
from typing import TypeAlias

#: What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


class CommandError(Exception):
    """The command line asks for something that cannot be done; the message says what to type instead."""
