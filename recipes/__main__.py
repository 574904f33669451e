"""Train and measure the embedded models: ``python -m recipes train NAME`` and ``python -m recipes evaluate``, in a checkout."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from recipes.commands import evaluate, train
from vitrine_server.cli import run
from vitrine_server.commands import Parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, whose command-line ``arguments`` are those of the process by default; returns the exit code of
    :func:`vitrine_server.cli.run`.
    """
    parser = Parser(
        prog="python -m recipes",
        description="Train the embedded models, and measure them on data they never saw.",
        epilog="'python -m recipes COMMAND --help' says more about each command.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in (train, evaluate):
        module.add(commands)
    return run(parser, arguments)


if __name__ == "__main__":
    sys.exit(main())
