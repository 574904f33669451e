"""``vitrine backup``, ``restore`` and ``recover``: the store of a server, copied and had back."""

from __future__ import annotations

import argparse
from pathlib import Path

from vitrine_server.commands import CommandError, Commands, count_of
from vitrine_server.settings import Settings, load_settings


def add(commands: Commands) -> None:
    """Add to ``commands``, the subparsers of ``vitrine``, those for the store: ``vitrine backup``, ``restore`` and ``recover``."""
    parser = commands.add_parser("backup", help="copy a server's store to a folder, also while the server works")
    parser.add_argument("folder", type=Path, help="where to; an older backup in it is replaced once this one is whole")
    _add_home(parser)
    parser.set_defaults(run=run_backup)

    parser = commands.add_parser("restore", help="put a backup in place of a server's store, while the server is stopped")
    parser.add_argument("folder", type=Path, help="where `vitrine backup` wrote it")
    _add_home(parser)
    parser.set_defaults(run=run_restore)

    parser = commands.add_parser("recover", help="add to a server's store what can be read of a damaged one, while the server is stopped")
    parser.add_argument("file", type=Path, help="the damaged store, such as vitrine.sqlite.damaged-20260101-120000")
    _add_home(parser)
    parser.set_defaults(run=run_recover)


def _add_home(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--home", metavar="DIR", help="home of the server [VITRINE_HOME]")


def _settings(args: argparse.Namespace) -> Settings:
    try:
        return load_settings({"home": args.home})
    except ValueError as problem:
        raise CommandError(str(problem)) from None


def _home(args: argparse.Namespace) -> Path:
    """Return the folder with the store in it, for the command-line arguments ``args``. Raises CommandError if the store
    is in PostgreSQL.
    """
    settings = _settings(args)
    if settings.database:
        copied = f"pg_dump and pg_restore copy it, and visitors.key in {settings.home} is copied by hand"
        raise CommandError(f"the store is in PostgreSQL (VITRINE_DATABASE): {copied}")
    return settings.home


def run_backup(args: argparse.Namespace) -> None:
    """Run ``vitrine backup`` with its parsed arguments: copy the store of the server's home to the folder ``args.folder``, in place of an
    older backup there, and print its path.
    """
    from vitrine_server.store.copies import back_up

    back_up(_home(args), args.folder)
    print(f"wrote {args.folder}")


def run_restore(args: argparse.Namespace) -> None:
    """Run ``vitrine restore`` with its parsed arguments: replace the store of the server's home by the backup in ``args.folder``, and print
    where the former store was moved to.
    """
    from vitrine_server.store.copies import restore

    before = restore(args.folder, _home(args))
    print(f"restored {args.folder}" + (f"; what was there is in {before}" if before else ""))


def run_recover(args: argparse.Namespace) -> None:
    """Run ``vitrine recover`` with its parsed arguments: add to the server's store what can be read of the damaged store ``args.file``, and
    print the numbers of recovered explanations and of unreadable rows.
    """
    from vitrine_server.store.copies import recover

    explanations, lost = recover(args.file, _settings(args))
    print(f"recovered {count_of(explanations, 'explanation')}" + (f"; {count_of(lost, 'row')} could not be read" if lost else ""))
