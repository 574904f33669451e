"""The command line: ``vitrine serve``, ``backup``, ``restore``, ``recover``, ``open``, ``explain``, ``deletion-test``, ``claim``,
``depth``, ``probe``, ``regions``, ``interaction``, ``alike``, ``heads``, ``head-words``, ``registers``, ``answer-table``, ``token-maps``,
``information-flow``, ``sparse-interactions``, ``prior-or-pixels``, ``models``, ``methods``, ``evaluate``, ``reproduce``, ``tables``,
``metrics-on-truth``, ``summarise``, ``collect``, ``diff``, ``slices``.

Each subcommand is a module in a room of ``vitrine_server.commands`` with ``add(commands)`` and ``run(args)``. None of them imports torch
before it runs, so ``vitrine --help`` answers at once. What a person got wrong is one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from vitrine_server.commands import CommandError, Parser, PartialFailure, in_flags
from vitrine_server.commands.many_inputs import collect, diff, patches, slices, summarise
from vitrine_server.commands.measuring import evaluate, metrics_on_truth, reproduce, tables
from vitrine_server.commands.models import depth, listing, open, registers  # noqa: A004  (a command is called as its module)
from vitrine_server.commands.one_input import (
    answer_table,
    claim,
    deletion_test,
    explain,
    heads,
    information_flow,
    interaction,
    prior_or_pixels,
    probe,
    regions,
    sparse_interactions,
    token_maps,
)
from vitrine_server.commands.serving import serve, store


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of ``vitrine`` with all its subcommands."""
    parser = Parser(
        prog="vitrine",
        description="Shows what a Transformer looked at: many attribution methods side by side.",
        epilog="'vitrine COMMAND --help' says more about each command.",
    )
    # the engine knows its version too, but it imports torch
    parser.add_argument("--version", action="version", version=f"vitrine {metadata.version('vitrine-xai')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in (
        serve,
        store,
        open,
        explain,
        deletion_test,
        claim,
        depth,
        probe,
        regions,
        interaction,
        heads,
        registers,
        answer_table,
        token_maps,
        information_flow,
        sparse_interactions,
        prior_or_pixels,
        listing,
        evaluate,
        reproduce,
        tables,
        metrics_on_truth,
        summarise,
        collect,
        diff,
        slices,
        patches,
    ):
        module.add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command of ``vitrine``, whose command-line ``arguments`` are those of the process by default; return its exit code, see
    :func:`run`.
    """
    return run(build_parser(), arguments)


def run(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the command that ``parser`` reads in ``arguments`` (None: those of the process); return the exit code: 0, 1 if some of the inputs
    failed, 2 for an error that a person can correct, 130 when interrupted.
    """
    args = parser.parse_args(arguments)
    # Threads of one operator wait for each other at its end: asleep, since turning they take the core of the one that they wait for where
    # other processes want cores too. Torch's OpenMP reads it when it is loaded, here and in the processes that are started.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        args.run(args)
    except KeyboardInterrupt:
        print("vitrine: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output (head, less) has seen enough
        sys.stderr.close()
        return 0
    except PartialFailure as problem:
        refuse(problem)
        return 1
    except (CommandError, OSError) as problem:
        return refuse(problem)
    except ValueError as problem:
        from explainers.errors import ExplainerError

        if isinstance(problem, ExplainerError):
            return refuse(in_flags(str(problem), vars(args)))
        raise
    return 0


def refuse(problem: Exception | str) -> int:
    """Print the error ``problem`` in one line on stderr; return the exit code 2."""
    print("vitrine:", " ".join(str(problem).split()), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
