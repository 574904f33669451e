"""Read a file of weights: the tensors alone, found wherever a training script put them. Nothing in the file is executed."""

from __future__ import annotations

import argparse
import pathlib
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray
from torch import Tensor

from explainers.errors import ExplainerError, ran_out_of_memory
from explainers.models.opening.sizes import check_archive, check_header, check_numbers

#: Suffixes of files of weights.
ENDINGS = (".safetensors", ".pth", ".pt", ".ckpt", ".tar", ".bin", ".pth.tar", ".pkl")
#: Under which names training scripts keep a model's weights; what stands first is read where a file has several.
_KEYS = (
    *("model", "state_dict", "model_state_dict", "model_state", "module", "net", "network", "weights", "params"),
    *("student", "teacher", "ema", "model_ema", "state_dict_ema", "ema_state_dict", "ema_model", "shadow"),
)
_NOT_A_MODEL = re.compile(r"optim|sched|scaler|rng|metric|loss|callback|loop", re.IGNORECASE)
#: Under which names an architecture and the names of classes stand in a file.
_ARCHITECTURE = (
    "arch",
    "architecture",
    "model_name",
    "model",
    "backbone",
    "base_model",
    "model_name_or_path",
    "pretrained_model_name_or_path",
)
_CLASSES = ("class_names", "classes", "labels", "label_names", "idx_to_class", "id2label", "class_to_idx", "label2id")
_SETTINGS = ("args", "hyper_parameters", "hparams", "config", "cfg", "opt")
#: Prefixes that wrappers around a model put before the names of its weights.
_WRAPPERS = ("module.", "_orig_mod.", "model.", "net.", "network.", "backbone.", "student.", "teacher.", "timm_model.", "base_model.")
_MOST = 0.6  # of the names in a file begin with what a wrapper put there
_LEAST_OF_COPY = 0.2  # of the names in a file belong to a copy of the model
#: Under which names a wrapper keeps several copies of one model.
_COPIES = frozenset((*_KEYS, "online", "target", "momentum", "encoder_q", "encoder_k", "base_encoder", "momentum_encoder"))
#: Plain data that checkpoints hold outsides weights; torch reads no other objects than tensors and these.
_PLAIN = [
    *(argparse.Namespace, pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
    *(np.dtype, np.ndarray, *(getattr(multiarray, name) for name in ("scalar", "_reconstruct"))),
    *(type(np.dtype(code)) for code in ("f4", "f8", "i4", "i8", "u1", "?")),
]
_OTHER_FORMATS = {
    ".onnx": "ONNX",
    ".h5": "Keras",
    ".keras": "Keras",
    ".msgpack": "Flax",
    ".tflite": "TensorFlow Lite",
    ".gguf": "GGUF",
    ".engine": "TensorRT",
    ".pb": "TensorFlow",
    ".mlmodel": "Core ML",
    ".pdparams": "PaddlePaddle",
    ".npz": "NumPy's (JAX)",
}


@dataclass(frozen=True, eq=False)
class Weights:
    """The contents of a file of weights.

    tensors       the tensors by name; those of half precision are converted to float32
    key           their place in the file, such as ``checkpoint['model']``; empty for the top level
    others        the other sets of weights in the file, which were not read
    architecture  the name of the architecture in the file; None if it has none
    labels        the names of classes in the file, in its own form; None if it has none
    stored        the type in which most of the numbers are stored, such as ``bfloat16``
    """

    tensors: Mapping[str, Tensor]
    key: str = ""
    others: tuple[str, ...] = ()
    architecture: str | None = None
    labels: Any = None
    stored: str = "float32"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors by their names."""
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}


def read_weights(path: Path, key: str | None = None) -> Weights:
    """Read the weights in a file of safetensors or of ``torch.save``, to the CPU; ``key`` names the set to read if there are several.

    Raises ExplainerError for a file that holds anything but weights and plain data, saying what that is and how to save the file again.
    """
    if not path.is_file():
        raise ExplainerError(f"there is no file {str(path)!r}")
    _refuse_other_formats(path)
    tree = _safetensors(path) if _is_safetensors(path) else _torch(path)
    check_numbers(sum(tensor.numel() for _, tensors in _sets(tree) for tensor in tensors.values()), path)
    return weights_in(tree, key, path.name)


def weights_in(tree: Any, key: str | None = None, name: str = "the dict") -> Weights:
    """Return the weights in ``tree``, the contents of a file or a dict of tensors; ``name`` says in errors what it is. Raises
    ExplainerError if there are none, or none under ``key``.
    """
    sets = dict(_sets(tree))
    if not sets:
        raise ExplainerError(f"{name} holds {_summary(tree)} and no weights: save them with torch.save(model.state_dict(), 'weights.pth')")
    if key is not None and key not in sets:
        begun = _begun_with(sets, key)
        if begun is None:
            raise ExplainerError(
                f"{name} has no weights under {key!r}; there are {', '.join(repr(k) for k in sets)}, and names that begin with "
                f"{', '.join(dict.fromkeys(repr(each.partition('.')[0]) for held in sets.values() for each in held if '.' in each))}"
            )
        sets[key] = begun
    chosen = key if key is not None else min(sets, key=_rank)
    tensors = sets[chosen]
    settings = tree if isinstance(tree, Mapping) else {}
    return Weights(
        tensors={name: _in_float(tensor) for name, tensor in _plain_names(tensors).items()},
        key=chosen,
        others=tuple(k for k in sets if k != chosen),
        architecture=_architecture(settings),
        labels=_first(settings, _CLASSES),
        stored=_stored_type(tensors),
    )


def _begun_with(sets: Mapping[str, Mapping[str, Tensor]], key: str) -> dict[str, Tensor] | None:
    """Return the tensors whose names begin with the prefix that ``key`` names, without the prefix: ``teacher``, or ``state_dict.teacher``
    with the key of the set.
    """
    for place, tensors in sets.items():
        for prefix in (f"{key}.", f"{key.removeprefix(place).removeprefix('.')}."):
            begun = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            if any(tensor.dim() > 1 for tensor in begun.values()):
                return begun
    return None


def rename_weights(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename ``weights``, the tensors of a file by name, to the names in ``wanted``, the state dict of a module; return them by their new
    names.

    The prefix under which most wanted names are found, such as ``module.``, is removed; weights outside of it keep their names. Other
    copies of the model, such as a teacher, are left out. If ``wanted`` is empty, or no name in it is found, the known prefixes of wrappers
    are removed.
    """
    best, others = find_prefixes(weights, wanted)
    inside = {key[len(best) :]: tensor for key, tensor in weights.items() if key.startswith(best)}
    outside = {key: tensor for key, tensor in weights.items() if not key.startswith((best, *others)) and key not in inside}
    return {**outside, **inside}


def find_prefixes(weights: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> tuple[str, tuple[str, ...]]:
    """Return the prefix of a module's names in ``weights``, and the prefixes of further copies of the module, such as a teacher's.

    If several copies fit equally well, they are ranked like the keys of a file.
    """
    prefixes = {key[: i + 1] for key in weights for i, letter in enumerate(key) if letter == "." and key.count(".", 0, i) < 4}
    named = {prefix: [name for name in wanted if prefix + name in weights] for prefix in ("", *prefixes)}
    fitting = {p: sum(weights[p + name].shape == wanted[name].shape for name in names) for p, names in named.items()}

    def rank(prefix: str) -> tuple[Any, ...]:
        return -len(named[prefix]), -fitting[prefix], *_rank_of_prefix(prefix)

    best = min(named, key=rank)
    if named[best]:
        others = [p for p in named if not p.startswith(best) and not best.startswith(p) and fitting[p] > _MOST * len(named[best])]
        return best, tuple(sorted(others, key=rank))
    return _known_prefixes(weights)


def _known_prefixes(weights: Mapping[str, Tensor]) -> tuple[str, tuple[str, ...]]:
    """Find what stands before the names of weights: return the prefix that wrappers such as DataParallel put before them, and the prefixes
    of further copies of the model in the same file.
    """
    best, others = "", list[str]()
    while True:
        keys = [key for key in weights if key.startswith(best)]
        count = Counter(key[len(best) :].partition(".")[0] for key in keys if "." in key[len(best) :])
        copies = [f"{best}{name}." for name in sorted(count, key=_rank) if name in _COPIES and count[name] > _LEAST_OF_COPY * len(keys)]
        shared = next((best + w for w in _WRAPPERS if sum(key.startswith(best + w) for key in keys) > _MOST * len(keys)), None)
        if len(copies) > 1:
            best, others = copies[0], [*others, *copies[1:]]
        elif shared is not None:
            best = shared
        else:
            return best, tuple(others)


def _rank_of_prefix(prefix: str) -> tuple[Any, ...]:
    """Return the sort key of a prefix: the rank of the keys in a file, then length, then letters."""
    return [_rank(part) for part in prefix.split(".")[:-1]], len(prefix), prefix


def _is_exported(path: Path) -> bool:
    """Return whether the file ``path`` is a zip that holds a program of torch.export."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(("models/model.json", "serialized_exported_program.json")) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _is_of_torch(path: Path) -> bool:
    """Return whether the file ``path``, a pickle, begins with the magic number of torch.save before 1.6."""
    with path.open("rb") as file:
        return b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19" in file.read(32)


def _refuse_other_formats(path: Path) -> None:
    with path.open("rb") as file:
        begin = file.read(64)
    if begin.startswith(b"version https://git-lfs"):
        raise ExplainerError(f"{path.name} is a pointer of Git LFS, not the weights themselves: fetch them with git lfs pull")
    if path.suffix.lower() == ".pt2" or (begin.startswith(b"PK") and _is_exported(path)):
        raise ExplainerError(
            f"{path.name} is a program of torch.export, whose code cannot be followed: save its weights, with "
            "torch.save(torch.export.load(file).state_dict, 'weights.pth'), and open those with architecture=; or open the module that it "
            "was made from"
        )
    other = _OTHER_FORMATS.get(path.suffix.lower())
    if other is None and begin[:1] == b"\x08" and begin[2:3] in (b"\x12", b"\x1a"):
        other = "ONNX"  # protobuf: the version of the format, then who made it
    if other is None and begin[:1] == b"\x80" and not _is_of_torch(path):
        raise ExplainerError(
            f"{path.name} is a pickle that torch.save did not write; opening it would run code from the file, so it was left closed. Save "
            "the weights as tensors by name, with torch.save(model.state_dict(), 'weights.pth')"
        )
    if other is not None:
        raise ExplainerError(
            f"{path.name} is a file of {other}: what is explained is a model of PyTorch. Send its weights as .safetensors or .pth, "
            "or the folder that timm or transformers saves"
        )


def _is_safetensors(path: Path) -> bool:
    if path.suffix == ".safetensors":
        return True
    with path.open("rb") as file:
        begin = file.read(9)
    return len(begin) == 9 and begin[8:9] == b"{" and int.from_bytes(begin[:8], "little") < path.stat().st_size


def _safetensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    check_header(path)
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as problem:
        raise ExplainerError(f"{path.name} is no whole file of safetensors ({problem}): save or download it again") from problem


def _torch(path: Path) -> Any:
    """Read ``path``, a file of ``torch.save``, with torch's weights-only reader, which creates tensors and plain data and executes nothing.
    Return what the file holds. Raises ExplainerError if it cannot be read so.
    """
    with torch.serialization.safe_globals(_PLAIN):
        try:
            return _load(path)
        except Exception as problem:  # each format of weights has errors of its own
            if ran_out_of_memory(problem) or isinstance(problem, ExplainerError):
                raise
            raise ExplainerError(_refusal(path, problem)) from problem


def _load(path: Path) -> Any:
    check_archive(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as problem:
        if "mmap" not in str(problem):
            raise
    return torch.load(path, map_location="cpu", weights_only=True)  # as torch saved before 1.6


def _refusal(path: Path, problem: Exception) -> str:
    if "TorchScript" in str(problem):
        return (
            f"{path.name} is a scripted or traced model (torch.jit), whose code cannot be followed: save its weights, with "
            "torch.save(torch.jit.load(file).state_dict(), 'weights.pth'), and open those with architecture="
        )
    strange = _strange_objects(path, problem)
    if not strange:
        return (
            f"{path.name} cannot be read as weights ({type(problem).__name__}): it is broken off, or none of torch.save and safetensors; "
            "save or download it again"
        )
    named = ", ".join(strange[:3]) + (" and more" if len(strange) > 3 else "")
    return (
        f"{path.name} holds {named}, and not weights alone; opening it would run code from the file, so it was left closed. Save "
        "the weights alone where it was made: torch.save(model.state_dict(), 'weights.pth'); or open the module itself in Python"
    )


def _strange_objects(path: Path, problem: Exception) -> list[str]:
    """Return the names of the classes and functions in the file ``path`` that are neither tensors nor plain data. If the file cannot be
    searched, return the names in ``problem``, the error of reading it.
    """
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except Exception:  # an old format, or no archive at all: torch names the first one it met
        return sorted(set(re.findall(r"GLOBAL ([\w.]+)", str(problem))))


def _sets(tree: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Mapping[str, Tensor]]]:
    """Yield the sets of weights in ``tree``, nested dicts, each with the path of its keys."""
    if not isinstance(tree, Mapping) or depth > 3:
        return
    tensors = {name: value for name, value in tree.items() if isinstance(name, str) and isinstance(value, Tensor)}
    if any(tensor.dim() > 1 for tensor in tensors.values()):
        yield key, tensors
        return
    for name, value in tree.items():
        if isinstance(name, str) and not _NOT_A_MODEL.search(name):
            yield from _sets(value, f"{key}.{name}" if key else name, depth + 1)


def _rank(key: str) -> tuple[int, int]:
    last = key.rpartition(".")[2]
    return (_KEYS.index(last) if last in _KEYS else len(_KEYS), key.count("."))


def _summary(tree: Any) -> str:
    if isinstance(tree, Mapping):
        return f"a dict of {', '.join(map(repr, list(tree)[:5]))}" if tree else "an empty dict"
    return f"a {type(tree).__name__}"


def _plain_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.replace("_orig_mod.", ""): tensor for name, tensor in tensors.items()}


def _in_float(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if callable(getattr(tensor, "dequantize", None)) and (tensor.is_quantized or type(tensor) not in (Tensor, torch.nn.Parameter)):
        tensor = tensor.dequantize()
    return tensor.float() if tensor.is_floating_point() and tensor.dtype != torch.float64 else tensor


def _stored_type(tensors: Mapping[str, Tensor]) -> str:
    sizes: dict[str, int] = {}
    for tensor in tensors.values():
        dtype = str(tensor.dtype).removeprefix("torch.")
        sizes[dtype] = sizes.get(dtype, 0) + tensor.numel()
    return max(sizes, key=lambda dtype: sizes[dtype])


def _settings(tree: Mapping[Any, Any]) -> Iterator[Mapping[Any, Any]]:
    """Yield ``tree``, the top level of a checkpoint file, and the dicts in it in which a training script keeps its settings."""
    yield tree
    for name in _SETTINGS:
        held = tree.get(name)
        held = vars(held) if isinstance(held, argparse.Namespace) else held
        if isinstance(held, Mapping):
            yield held


def _first(tree: Mapping[Any, Any], names: Collection[str]) -> Any:
    return next((held[name] for held in _settings(tree) for name in names if isinstance(held.get(name), list | tuple | Mapping)), None)


def _architecture(tree: Mapping[Any, Any]) -> str | None:
    """Return the name of an architecture among the settings in ``tree``, a checkpoint file's content, if it is one that timm or the hub may
    have; else None.
    """
    for held in _settings(tree):
        for name in _ARCHITECTURE:
            if isinstance(said := held.get(name), str) and (known := _known_architecture(said)):
                return known
    return None


def _known_architecture(said: str) -> str | None:
    import timm

    bare = said.removeprefix("timm/").removeprefix("hf_hub:")
    return f"timm/{bare}" if timm.is_model(bare.split(".")[0]) else None
