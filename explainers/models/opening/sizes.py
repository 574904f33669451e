"""The memory that a file of weights takes, found before it is read: files come from anybody, and the sizes they state may be lies."""

from __future__ import annotations

import io
import pickletools  # nosec B403  # it steps through a pickle and runs nothing of it
import struct
import zipfile
from itertools import islice
from pathlib import Path

from explainers.errors import ExplainerError

MAX_HEADER_BYTES = 20_000_000  # of safetensors: 100 bytes a tensor, or little more
MAX_PICKLE_BYTES = 16_000_000  # of the data besides the numbers in a file of torch.save: 200 bytes for each tensor
MAX_STEPS, MAX_CONTAINERS = 2_000_000, 500_000  # of such a pickle: some 50 steps a tensor make it; a container is one step, 64 bytes each
MAX_GROWTH, ALWAYS_TAKEN_BYTES = (
    10,
    64_000_000,
)  # how many times as large as its file the weights may be in float32, and what they always may be
_CONTAINERS = {"EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET", "LIST", "DICT", "FROZENSET"}
_PICKLES = 4  # before the numbers of a file of torch before 1.6: a mark, a version, the machine, the names


def check_header(path: Path) -> None:
    """Raise ExplainerError if the safetensors file ``path`` claims a header larger than any real one."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > MAX_HEADER_BYTES:
        raise ExplainerError(f"{path.name} is no whole file of safetensors (its header has {size} bytes): save or download it again")


def check_archive(path: Path) -> None:
    """Check ``path``, a file of ``torch.save``, without executing anything in it. Raises ExplainerError if its numbers are compressed
    (torch never compresses them), or if its pickle would create so many objects, or such a large block, that they fill the memory;
    ValueError if it is not such a file.
    """
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            begin = io.BytesIO(file.read(MAX_PICKLE_BYTES + 1))
        if begin.read(1) != b"\x80":
            raise ValueError("it begins as no pickle does")
        begin.seek(0)
        for _ in range(_PICKLES):
            _check_pickle(begin, path)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            parts = [part for part in archive.infolist() if part.filename.endswith(".pkl") or "/data/" in part.filename]
            is_packed = any(part.compress_type != zipfile.ZIP_STORED for part in parts)
            if is_packed or sum(part.file_size for part in parts) > path.stat().st_size:
                raise ExplainerError(f"{path.name} is packed, as torch.save packs no file: save it again with torch.save")
            for part in parts:
                if part.filename.endswith("data.pkl"):
                    with archive.open(part) as file:
                        _check_pickle(io.BytesIO(file.read(MAX_PICKLE_BYTES + 1)), path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, struct.error) as problem:
        if isinstance(problem, ExplainerError):
            raise
        # else torch's reader says what is wrong with it


def _check_pickle(file: io.BytesIO, path: Path) -> None:
    """Read the next pickle of ``file`` step by step without executing it; raise ExplainerError if it would fill the memory."""
    containers = 0
    try:
        for number, (code, argument, _) in enumerate(islice(pickletools.genops(file), MAX_STEPS + 1)):
            containers += code.name in _CONTAINERS
            if isinstance(argument, str) and "bytearray" in argument:
                raise ExplainerError(f"{path.name} holds a bytearray, and not weights alone: save its weights with torch.save(state_dict)")
            if number == MAX_STEPS or containers > MAX_CONTAINERS or file.tell() > MAX_PICKLE_BYTES:
                raise _far_more(path)
    except ExplainerError:
        raise
    except (ValueError, IndexError, struct.error, OverflowError):
        if file.tell() > MAX_PICKLE_BYTES:  # it goes on
            raise _far_more(path) from None
        # else torch's reader says what is wrong with it


def _far_more(path: Path) -> ExplainerError:
    return ExplainerError(f"{path.name} holds far more than weights: save its weights alone, with torch.save(state_dict)")


def check_numbers(numbers: int, path: Path) -> None:
    """Raise ExplainerError if the tensors of the file at ``path`` claim far more numbers (``numbers``) than it can hold, as tensors that
    repeat one number do, because in float32 they would fill the memory. Shared weights and weights of few bits stay far below the limit.
    """
    if 4 * numbers > MAX_GROWTH * path.stat().st_size + ALWAYS_TAKEN_BYTES:
        raise ExplainerError(f"{path.name} says that it holds {numbers} numbers, for which it is far too small: save it again")
