"""Reports with which others can act on a failure: versions, the question, what was found, the error. No weights, paths or pictures."""

from __future__ import annotations

import platform
import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from explainers.installation import DISTRIBUTION, package_version

_PACKAGES = (DISTRIBUTION, "torch", "timm", "transformers", "open_clip_torch", "peft", "safetensors", "numpy")
#: Absolute paths, of Windows too; a name such as hf/org/name does not begin with a slash.
_PATH = re.compile(r"(?<![\w.])(?:~|[A-Za-z]:)?(?:[\\/][\w .@+~-]+){2,}")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
_MOST_LINES = 60  # of structure
_MOST_FRAMES = 6
_HIDDEN = "<hidden>"


def structure(shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """Format the names and ``shapes`` of tensors as lines of text, one for all names that differ only by a number, with their count."""
    rows = [(_NUMBER.sub("*", name), tuple(shape)) for name, shape in shapes.items()]
    counts: dict[tuple[str, tuple[int, ...]], int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    lines = [f"{name} {shape}{f' x {count}' if count > 1 else ''}" for (name, shape), count in counts.items()]
    return lines if len(lines) <= _MOST_LINES else [*lines[:_MOST_LINES], f"and {len(lines) - _MOST_LINES} more"]


def failure_report(error: BaseException, circumstances: Mapping[str, Any], private: Iterable[str] = ()) -> str:
    """Return a report on the failure ``error``, with its causes, as text. ``circumstances`` maps the name of each known fact to a text or a
    list of lines; ``private``: texts to leave out, such as the name of a file.
    """
    lines = ["Vitrine: report of a failure", "", "error:"]
    cause: BaseException | None = error
    while cause is not None:
        lines.append(f"  {type(cause).__name__}: {' '.join(str(cause).split())}")
        cause = cause.__cause__
    lines += ["", "where:", *(f"  {frame}" for frame in _frames(error))]
    for name, value in circumstances.items():
        lines_of_value = [value] if isinstance(value, str) else list(value)
        lines += ["", f"{name}:", *(f"  {line}" for line in lines_of_value)]
    lines += ["", "versions:", f"  {platform.system()} {platform.machine()}, Python {platform.python_version()}"]
    lines += [f"  {package} {package_version(package) or 'is not installed'}" for package in _PACKAGES]
    return without_paths("\n".join(lines), private)


def without_paths(text: str, private: Iterable[str] = ()) -> str:
    """Return ``text`` without absolute paths and without the ``private`` texts."""
    for hidden in sorted({str(text_to_hide) for text_to_hide in private if len(str(text_to_hide)) > 2}, key=len, reverse=True):
        text = text.replace(hidden, _HIDDEN)
    return _PATH.sub(_HIDDEN, text)


def _frames(error: BaseException) -> list[str]:
    """Return the last places in the code that led to the deepest cause of ``error``, each as "package/file:line function"."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = [f"{_place(frame.filename)}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    return [frame for frame, _ in groupby(frames)][-_MOST_FRAMES:] or ["not known"]


def _place(file: str) -> str:
    """Return a source file's path within its package; for a file of the user's own, "code of one's own"."""
    parts = Path(file).parts
    for top in ("site-packages", "dist-packages"):
        if top in parts:
            return "/".join(parts[parts.index(top) + 1 :])
    known = next((i for i, part in enumerate(parts) if part in ("explainers", "vitrine_server")), None)
    return "/".join(parts[known:]) if known is not None else "code of one's own"
