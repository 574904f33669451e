"""Zips that people send, unpacked within limits: no file lands outside of its folder, and what the zip says of sizes is not believed."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from server.http.problems import Problem

_CHUNK = 1 << 20


def unpack_zip(
    path: Path,
    folder: Path,
    *,
    is_wanted: Callable[[PurePosixPath], bool],
    on_file: Callable[[], None],
    on_bytes: Callable[[int], None],
    send: str,
) -> list[str]:
    """Unpack into ``folder`` the files that are wanted; gives the names of the others. Before each file ``on_file`` is called, and before
    bytes are written ``on_bytes`` with how many: they raise what is to be said where it is too much. ``send`` says what to send instead.

    Raises Problem 422 for a zip that cannot be read, that holds a link, or a name that leads out of the folder.
    """
    left_out: list[str] = []
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.is_dir():
                    continue
                place = safe_path(member.filename, send)
                if stat.S_ISLNK(member.external_attr >> 16):
                    raise Problem(422, "zip-with-links", f"The zip holds a link, {place.name!r}.", send="Pack the files themselves.")
                if "__MACOSX" in place.parts or not is_wanted(place):
                    left_out.append(place.name)
                    continue
                on_file()
                _write(archive, member, folder.joinpath(*place.parts), on_bytes)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise Problem(422, "broken-zip", f"The zip cannot be read: {error}.", send="Pack it again, without a password.") from None
    return left_out


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, on_bytes: Callable[[int], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as packed, path.open("wb") as file:
        while chunk := packed.read(_CHUNK):
            on_bytes(len(chunk))
            file.write(chunk)


def safe_path(name: str, send: str) -> PurePosixPath:
    """``name`` as a path inside a folder. Raises Problem 422, with what to ``send``, for one that leads out of it."""
    place = PurePosixPath(name.replace("\\", "/"))
    parts = [part for part in place.parts if part != "."]
    if not parts or place.is_absolute() or any(part == ".." or ":" in part or "\0" in part or len(part) > 200 for part in parts):
        raise Problem(422, "unsafe-name", f"{name[:100]!r} is no name of a file inside a folder.", send=send)
    return PurePosixPath(*parts)
