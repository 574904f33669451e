"""Bytes that the weights of a model will take in memory, from the headers of its files, so that room is made before any is read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from explainers.errors import ExplainerError
from explainers.json_files import read_json_object
from explainers.models.catalogue import embedded_names, embedded_path, pinned_revision
from explainers.models.libraries import hub, openclip
from explainers.models.loading import repository_of
from explainers.models.opening.folders import content_of
from explainers.models.opening.sizes import check_header

#: Types of numbers in the header of a safetensors file: floating-point ones are converted when they are loaded; the bytes of the others.
_FLOAT_TYPES = frozenset(["F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"])
_OTHER_BYTES = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}
#: Bytes of a stored number by the type that ``config.json`` names, for files whose header does not say it.
_NAMED_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def bytes_when_loaded(place: str | Path, dtype: torch.dtype = torch.float32) -> int | None:
    """Return the bytes of memory that the weights of a model will take in ``dtype``, without reading them.

    ``place`` is a name or a path as :func:`explainers.open` takes it. None where its files are not on this machine, or do not say it.
    Buffers that are computed and not stored, such as positions, are not counted.
    """
    try:
        files = _weight_files(place)
        sizes = [_of_file(file, dtype) for file in files]
    except (ExplainerError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # whoever loads it says what is wrong with it
    return sum(sizes) if sizes else None


def _weight_files(place: str | Path) -> list[Path]:
    """Return the files that hold the weights of a model; none if they are not known."""
    name = str(place)
    if name in embedded_names():
        return _of_folder(embedded_path(name))
    if name.startswith("openclip/"):
        repository = openclip.repository(name)
        file = None if repository is None else hub.find_cached_file(repository, openclip.WEIGHTS)
        return [] if file is None else [file]
    path = Path(place).expanduser()
    if path.is_file():
        return [path]
    if path.is_dir():
        content = content_of(path)
        if content.file is not None:
            return [content.file]
        return [] if content.folder is None else _of_folder(content.folder)  # an adapter has the size of what it is merged into
    repository = repository_of(name)
    folder = None if repository is None else hub.find_cached(repository, pinned_revision(name))
    return [] if folder is None else _of_folder(folder)


def _of_folder(folder: Path) -> list[Path]:
    """Return the files of weights of a saved model: one, or the shards that its index names."""
    weights = next((folder / name for name in (*hub.WEIGHTS, *openclip.WEIGHTS) if (folder / name).is_file()), None)
    if weights is None:
        return []
    if weights.suffix != ".json":
        return [weights]
    return [folder / shard for shard in sorted(set(read_json_object(weights)["weight_map"].values()))]


def _of_file(path: Path, dtype: torch.dtype) -> int:
    """Return the bytes in memory of the weights of one file."""
    if path.suffix != ".safetensors":  # one of torch, which holds little but numbers
        return path.stat().st_size * dtype.itemsize // _stored_bytes(path.parent / "config.json")
    check_header(path)
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return _of_tensors((tensor for name, tensor in header.items() if name != "__metadata__"), dtype)


def _of_tensors(tensors: Iterable[dict[str, Any]], dtype: torch.dtype) -> int:
    return sum(
        math.prod(tensor["shape"]) * (dtype.itemsize if tensor["dtype"] in _FLOAT_TYPES else _OTHER_BYTES[tensor["dtype"]])
        for tensor in tensors
    )


def _stored_bytes(config: Path) -> int:
    """Return the bytes of a number in the files next to ``config``; those of float32 where it names no type."""
    said = read_json_object(config) if config.is_file() else {}
    return _NAMED_BYTES.get(str(said.get("dtype") or said.get("torch_dtype")), 4)
