"""Zips that people send, read within limits, whatever their headers say: of pictures, of data for a run, of a visitor's own model.

Members are stored or deflated. Both are unpacked a piece at a time, so that memory stays small and every limit is checked before the next
piece; Python's readers of bzip2 and LZMA unpack all that one block holds at once.
"""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from vitrine_server.http.problems import Problem
from vitrine_server.json_text import can_be_encoded

MAX_RATIO, RATIO_FROM_BYTES = 100, 1_000_000  # unpacked to packed, of what is larger than this: a member, all members together
MAX_PATH_DEPTH, MAX_NAME_BYTES, MAX_PATH_BYTES = 16, 200, 1000
_FOLDERS_AND_SUCH = 1000  # members besides those that are wanted, and as many again: macOS adds one to each
_BYTES_OF_ENTRY = 300  # that a member takes on average in the list at the end of a zip
_HEADER_BYTES = 30  # of a member, before its name
_CHUNK_BYTES = 1 << 18
_ENCRYPTED = 0x1 | 0x40 | 0x2000  # flags: by a password, strongly, the names hidden
_OTHER_METHODS = {9: "deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "XZ", 98: "PPMd"}
#: Errors of zipfile and zlib for a file that is no zip or a damaged one; OSError if it points before its beginning.
_BROKEN = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OverflowError, struct.error, OSError)


@dataclass(frozen=True)
class ZipBounds:
    """The limits on a zip, and the Problems for exceeding them.

    max_files   the number of wanted files; ``too_many`` makes the Problem for more
    max_bytes   the unpacked size of all wanted files together; ``too_large`` makes the Problem for more
    send        what to send instead of a zip that is refused
    free_bytes  the unpacked size below which more than `MAX_RATIO` times the packed size is allowed
    """

    max_files: int
    max_bytes: int
    too_many: Callable[[int], Problem]
    too_large: Callable[[], Problem]
    send: str
    free_bytes: int = RATIO_FROM_BYTES

    @property
    def max_members(self) -> int:
        """The number of members of any kind, folders included, that a zip may list."""
        return 2 * self.max_files + _FOLDERS_AND_SUCH


def unpack_zip(
    source: Path | bytes, bounds: ZipBounds, is_wanted: Callable[[PurePosixPath], bool]
) -> tuple[Iterator[tuple[PurePosixPath, Iterator[bytes]]], list[str]]:
    """Return the files of the zip ``source`` for whose paths ``is_wanted`` is true, in the order of their names, each with an iterator over
    pieces of its bytes, to be read before the next file; and the names of its other files. All members are checked before the first file is
    unpacked.

    Raises Problem 413 beyond ``bounds``; 422 for a zip that cannot be read, is encrypted, overlaps, uses another compression than deflate,
    expands more than `MAX_RATIO` times (a member, or all together), holds links, devices or a name twice, or names a file outside of its
    folder.
    """
    file = io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")
    try:
        size = file.seek(0, io.SEEK_END)
        try:
            archive = zipfile.ZipFile(cast(IO[bytes], _Bounded(file, max(1 << 20, bounds.max_members * _BYTES_OF_ENTRY))))
        except _BROKEN as error:
            raise _broken(error, bounds) from None
        wanted, left_out = _members(archive, size, bounds, is_wanted)
    except Problem:
        file.close()
        raise
    return _files(file, archive, wanted, bounds), left_out


class _Bounded:
    """A file that refuses to read more than ``max_bytes`` at once: zipfile reads the list of a zip's members in one piece."""

    def __init__(self, file: IO[bytes], max_bytes: int) -> None:
        self._file, self._max_bytes = file, max_bytes
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Read the next ``size`` bytes; -1 reads all that are left, as zipfile asks only at the end of a file."""
        if size > self._max_bytes:
            raise zipfile.BadZipFile("its list of files is too long")
        return self._file.read(size)


def _members(
    archive: zipfile.ZipFile, size: int, bounds: ZipBounds, is_wanted: Callable[[PurePosixPath], bool]
) -> tuple[dict[PurePosixPath, zipfile.ZipInfo], list[str]]:
    """Return the members of the zip ``archive`` that ``is_wanted`` chooses, by their checked paths in order, and the names of the other
    files. Raises the errors of ``bounds`` for too many or too large members.
    """
    members = archive.infolist()
    if len(members) > bounds.max_members:
        raise bounds.too_many(len(members))
    wanted, left_out = dict[PurePosixPath, zipfile.ZipInfo](), list[str]()
    for member in members:
        if member.is_dir():
            continue
        place = safe_path(member.filename, bounds.send)
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind == stat.S_IFLNK:
            raise Problem(422, "zip-with-links", f"The zip holds a link, {place.name!r}.", send="Pack the files themselves.")
        if "__MACOSX" in place.parts or kind not in (0, stat.S_IFREG) or not is_wanted(place):
            left_out.append(place.name)
            continue
        if place in wanted:
            raise Problem(422, "repeated-name", f"The zip holds {place.name!r} twice.", send="Pack each file once.")
        _check_packing(member, place, bounds)
        wanted[place] = member
    if len(wanted) > bounds.max_files:
        raise bounds.too_many(len(wanted))
    if any(parent in wanted for place in wanted for parent in place.parents):
        raise _is_both(next(place for place in wanted if any(parent in wanted for parent in place.parents)))
    if sum(member.file_size for member in wanted.values()) > bounds.max_bytes:
        raise bounds.too_large()
    _check_overlap(members, size, bounds)
    if sum(member.file_size for member in wanted.values()) > _max_expanded_bytes(wanted, bounds):
        raise _expands(bounds)
    return dict(sorted(wanted.items(), key=lambda item: item[1].filename)), left_out


def _check_packing(member: zipfile.ZipInfo, place: PurePosixPath, bounds: ZipBounds) -> None:
    if member.flag_bits & _ENCRYPTED:
        raise Problem(422, "broken-zip", f"{place.name!r} in the zip has a password.", send="Pack it again, without a password.")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        method = _OTHER_METHODS.get(member.compress_type, f"method {member.compress_type}")
        detail = f"{place.name!r} in the zip is packed by {method}."
        raise Problem(422, "broken-zip", detail, send="Pack it again by the usual method, deflate, or without packing.")


def _check_overlap(members: list[zipfile.ZipInfo], size: int, bounds: ZipBounds) -> None:
    """Raise Problem 422, with the advice of ``bounds``, for a zip of ``size`` bytes whose ``members`` share bytes or reach beyond its end:
    their unpacked size is then not bounded by the size of the file.
    """
    end = 0
    for member in sorted(members, key=lambda member: member.header_offset):
        if member.header_offset < end:
            raise _broken("its files overlap", bounds)
        end = member.header_offset + _HEADER_BYTES + member.compress_size
    if end > size:
        raise _broken("it is shorter than it says", bounds)


def _files(
    file: IO[bytes], archive: zipfile.ZipFile, wanted: dict[PurePosixPath, zipfile.ZipInfo], bounds: ZipBounds
) -> Iterator[tuple[PurePosixPath, Iterator[bytes]]]:
    left, may_expand_to = bounds.max_bytes, _max_expanded_bytes(wanted, bounds)

    def pieces(member: zipfile.ZipInfo) -> Iterator[bytes]:
        nonlocal left, may_expand_to
        count = 0
        try:
            with archive.open(member) as packed:
                while piece := packed.read(_CHUNK_BYTES):
                    count, left, may_expand_to = count + len(piece), left - len(piece), may_expand_to - len(piece)
                    if left < 0:
                        raise bounds.too_large()
                    if may_expand_to < 0 or count > max(RATIO_FROM_BYTES, MAX_RATIO * member.compress_size):
                        raise _expands(bounds)
                    yield piece
        except _BROKEN as error:
            raise _broken(error, bounds) from None
        if count != member.file_size:
            raise _broken("a file in it is shorter than it says", bounds)

    with file, archive:
        for place, member in wanted.items():
            yield place, pieces(member)


def _max_expanded_bytes(wanted: dict[PurePosixPath, zipfile.ZipInfo], bounds: ZipBounds) -> int:
    """Return the maximum unpacked size, in bytes, of all wanted members together: a multiple of their packed size, but at least
    ``bounds.free_bytes``. It is a limit on the sum, so that many small members cannot exceed what one large one may not.
    """
    return max(bounds.free_bytes, MAX_RATIO * sum(member.compress_size for member in wanted.values()))


def _expands(bounds: ZipBounds) -> Problem:
    return _broken(f"what is in it becomes more than {MAX_RATIO} times as large", bounds)


def _broken(why: object, bounds: ZipBounds) -> Problem:
    return Problem(422, "broken-zip", f"The zip cannot be read: {str(why)[:200]}.", send=bounds.send)


def _is_both(place: PurePosixPath) -> Problem:
    detail = f"{str(place)[:200]!r} is the name of both a file and a folder of the zip, or lies in a file."
    return Problem(422, "file-and-folder", detail, send="Give each file and each folder a different name.")


def make_place(folder: Path, place: PurePosixPath) -> Path:
    """Return the path of ``place`` below ``folder``, after making its folders. Raises Problem 422 if a file has the name of one of these
    folders, or a folder the name of the file.
    """
    path = folder.joinpath(*place.parts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _is_both(place) from None
    if path.is_dir():
        raise _is_both(place)
    return path


def safe_path(name: str, send: str) -> PurePosixPath:
    """Convert ``name`` to a relative path inside a folder. Raises Problem 422, with the advice ``send``, for one that leads out of the
    folder, that no file system takes, or that is deeper than `MAX_PATH_DEPTH`.
    """
    place = PurePosixPath(name.replace("\\", "/"))
    parts = [part for part in place.parts if part != "."]
    is_strange = not can_be_encoded(name) or any(part == ".." or ":" in part or "\0" in part for part in parts)
    if not parts or place.is_absolute() or is_strange:
        raise Problem(422, "unsafe-name", f"{name[:100]!r} is not the name of a file inside a folder.", send=send)
    sizes = [len(part.encode()) for part in parts]
    if len(parts) > MAX_PATH_DEPTH or max(sizes) > MAX_NAME_BYTES or sum(sizes) > MAX_PATH_BYTES:
        detail = f"{name[:100]!r} is too long for the name of a file, or lies in too many folders."
        raise Problem(422, "unsafe-name", detail, send=f"Use names of at most {MAX_NAME_BYTES} bytes and {MAX_PATH_DEPTH} folders.")
    return PurePosixPath(*parts)
