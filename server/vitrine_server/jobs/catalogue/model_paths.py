"""Paths of the server's machine that a visitor names, checked before anything of them is opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from vitrine_server.http.problems import Problem

#: Folders whose files are no files: devices, and what the kernel says of processes, secrets in their environments among it.
_NO_FILES = (Path("/dev"), Path("/proc"), Path("/sys"))
#: Endings of weights, and of what lies beside them as data.
KINDS = (
    *(".safetensors", ".pth", ".pt", ".ckpt", ".tar", ".bin", ".zip"),
    *(".json", ".txt", ".csv", ".tsv", ".model", ".vocab", ".merges", ".yaml", ".yml", ".md", ".jinja"),
)
MAX_ENTRIES = 20_000  # of a folder that is looked through before it is opened


def find_place(text: str) -> Path:
    """Return the path of the file or folder that ``text`` names. Raises Problem 422 for an empty name, for anything but a file or folder (a
    device, a pipe, a socket), for /dev, /proc, /sys and links that lead there, for a folder that holds such a thing at any depth or more
    than `MAX_ENTRIES` entries, and for a file next to which such a thing has the name of a model's file; 404 if nothing is there that may
    be read.
    """
    wanted = text.strip().strip("'\"")
    if not wanted:
        raise Problem(422, "no-place", "The path is empty.", send="Send the whole path of a file or folder on the server's machine.")
    try:
        path = Path(re.sub("^//+", "/", wanted)).expanduser().absolute()  # two slashes are a root of their own to pathlib
        is_allowed = _is_file_or_folder(path)
        is_folder = path.is_dir()
    except (OSError, ValueError, RuntimeError):  # not there or not to be read, too long, a null character, a circle of links, ~nobody
        detail = "There is no such file or folder on the server's machine."
        raise Problem(404, "no-such-path", detail, send="Send its whole path.") from None
    if not is_allowed:
        raise Problem(422, "no-file", "That is neither a file nor a folder of files.", send="Send the path of a model's file or folder.")
    for member in _members(path) if is_folder else _companions(path):
        if not _may_be_opened(member):
            detail = f"{member.name[:100]!r} there is, or leads to, a device, a pipe, a socket, or a file of /dev, /proc or /sys."
            raise Problem(422, "no-file", detail, send="Send the path of a folder that holds only the files of a model.")
    return path


def _is_file_or_folder(path: Path) -> bool:
    """Return whether a path leads to a file or folder outside /dev, /proc and /sys. Raises OSError or RuntimeError if it leads nowhere."""
    real = path.resolve(strict=True)
    is_same, mode = path.samefile(real), real.stat().st_mode  # what a link below /proc leads to may be another file
    is_kernels = any(place.is_relative_to(folder) for place in (path, real) for folder in _NO_FILES)
    return is_same and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and not is_kernels


def _may_be_opened(member: Path) -> bool:
    """Return False if the path ``member`` leads to a device, pipe, socket or a file of the kernel. A path that leads nowhere or cannot be
    examined returns True: opening it raises an error.
    """
    try:
        return _is_file_or_folder(member)
    except (OSError, RuntimeError):
        return True


def _members(folder: Path) -> Iterator[Path]:
    """Yield everything below a folder except plain files, also through links to other folders. Raises Problem 422 for more than
    `MAX_ENTRIES`.
    """
    waiting, known, count = [folder], {folder.resolve()}, 0
    while waiting:
        try:
            entries = os.scandir(waiting.pop())
        except OSError:  # a folder that may not be read is not opened either
            continue
        with entries:
            for entry in entries:
                count += 1
                if count > MAX_ENTRIES:
                    detail = f"The folder holds more than {MAX_ENTRIES} files and folders."
                    raise Problem(422, "too-many-files", detail, send="Send the path of the model's own folder, or of its file.")
                if entry.is_file(follow_symlinks=False):  # of a folder that is looked through: it needs no look of its own
                    continue
                member = Path(entry.path)
                yield member
                if _is_folder(entry) and (real := member.resolve()) not in known:
                    known.add(real)
                    waiting.append(member)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circle of links
        return False


def _companions(file: Path) -> list[Path]:
    """Return the files next to ``file`` that have the suffix of a model's file, and are therefore read with it; other files of the folder
    are left out.
    """
    try:
        return [path for path in islice(file.parent.iterdir(), MAX_ENTRIES) if path.suffix.lower() in KINDS]
    except OSError:  # a folder whose files may be opened and not listed
        return []


def exists(text: str) -> bool:
    """Return whether ``text`` is the path of something on this machine; False for a text that no file system takes as a path."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False
