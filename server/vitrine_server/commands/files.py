"""The files that commands read and write, and the checks of their paths before anything is computed."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from vitrine_server.commands import CommandError

RESULT = "result.json"
_ENDINGS_OF_MAPS = (".png", ".npy")
MOST_FILES_NAMED = 5  # files that are not read, at most; the others are counted


class Outcome(Protocol):
    """The result of a command, which can be printed as text, converted to JSON and saved to a file."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data for JSON."""

    def save(self, path: Path) -> None:
        """Write the result to the file ``path``, in the format of its ending."""


def print_and_save(args: argparse.Namespace, outcome: Outcome) -> None:
    """Print ``outcome``, what a command has computed, as JSON if the arguments ``args`` have ``--json``, and save it to the file of
    ``--out``, if any.
    """
    print(json.dumps(outcome.to_json(), ensure_ascii=False) if args.json else outcome)
    if args.out is not None:
        outcome.save(args.out)


def check_out_file(path: Path | None, endings: Sequence[str]) -> None:
    """Raise CommandError if ``path``, the file of ``--out``, has another suffix than ``endings``, or cannot be written."""
    if path is None:
        return
    if path.suffix not in endings:
        listed = f"{', '.join(endings[:-1])} or {endings[-1]}" if len(endings) > 1 else endings[0]
        raise CommandError(f"--out {path} cannot be written with this ending: end it in {listed}")
    if path.is_dir():
        raise CommandError(f"--out {path} is a folder: name a file in it, such as {path / ('out' + endings[0])}")
    if not path.parent.exists():
        raise CommandError(f"--out {path}: there is no folder {path.parent}: make it, or name a file elsewhere")
    if not path.parent.is_dir():
        raise CommandError(f"--out {path}: {path.parent} is a file: name a folder that is there in its place")
    _check_writable(path, path if path.exists() else path.parent)


def check_out_folder(path: Path | None) -> None:
    """Raise CommandError if ``path``, the folder of ``--out``, can neither be used nor made, or cannot be written to; None passes."""
    if path is None:
        return
    nearest = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        what = "is a file" if nearest == path else f"cannot be made: {nearest} is a file"
        raise CommandError(f"--out {path} {what}: name a folder")
    _check_writable(path, nearest)


def _check_writable(path: Path, place: Path) -> None:
    if not os.access(place, os.W_OK):
        raise CommandError(f"--out {path}: {place} may not be written to: change its permissions, or write elsewhere")


def read_text_file(path: Path) -> str:
    """Return the text of the file ``path``, in UTF-8. Raises CommandError if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise CommandError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise CommandError(f"{path} is a folder: give a text file") from None
    except PermissionError:
        raise CommandError(f"{path} may not be read: change its permissions, or give another file") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not a text file in UTF-8") from None


def files_of_former_run(out: Path) -> list[Path]:
    """List the files of maps in the folder ``out`` that its ``result.json`` names; an empty list if there is no such file."""
    path = out / RESULT
    if not path.exists():
        return []
    wrong = CommandError(f"--out {out} holds a {RESULT} that 'vitrine explain' did not write: choose another folder")
    try:
        document: Any = json.loads(read_text_file(path))
        names = [str(name) for entry in document["maps"] for name in entry.get("files", ())]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise wrong from None
    files = [out / name for name in names]
    inside = out.resolve()
    if any(file.suffix not in _ENDINGS_OF_MAPS or not file.resolve().is_relative_to(inside) for file in files):
        raise wrong
    return files


def remove_files(files: Iterable[Path], out: Path) -> int:
    """Remove these files from the folder ``out``, then folders that are empty; return how many files were removed."""
    there = [file for file in files if file.is_file()]
    for file in there:
        file.unlink()
    for folder in {file.parent for file in there} - {out}:
        if not any(folder.iterdir()):
            folder.rmdir()
    return len(there)


def pictures_in(folder: Path) -> list[Path]:
    """List the files in ``folder``, at any depth, that have the suffix of a picture; the number of others is printed to stderr."""
    from explainers.models.inputs.images import is_picture_name

    files = sorted(path for path in folder.rglob("*") if path.is_file())
    pictures = [path for path in files if is_picture_name(path)]
    if others := len(files) - len(pictures):
        print(f"note: {others} of {len(files)} files in {folder} left out: not named as pictures", file=sys.stderr)
    return pictures


def unread_in_words(paths: tuple[str, ...]) -> str:
    """Return a sentence on ``paths``, the files in the folder of a data set that were not read: their number, and the first of them."""
    shown = ", ".join(paths[:MOST_FILES_NAMED]) + (", ..." if len(paths) > MOST_FILES_NAMED else "")
    return f"{len(paths)} file{'' if len(paths) == 1 else 's'} in the folder of the data set not read: {shown}"
