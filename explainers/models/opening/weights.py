"""Read a file of weights: the tensors alone, found wherever a training script put them. Nothing in the file is executed."""

from __future__ import annotations

import argparse
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy._core import multiarray
from torch import Tensor

from explainers.errors import ExplainerError, ran_out_of_memory

#: What files of weights end in.
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
#: What a wrapper around a model puts in front of the names of its weights.
_WRAPPERS = ("module.", "_orig_mod.", "model.", "net.", "network.", "backbone.", "student.", "teacher.", "timm_model.", "base_model.")
_MOST = 0.6  # of the names in a file begin with what a wrapper put there
#: Plain data that checkpoints hold beside weights; torch reads no other objects than tensors and these.
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
    ".npz": "NumPy's (JAX)",
}


@dataclass(frozen=True, eq=False)
class Weights:
    """What a file says of a model.

    tensors       by name, in float32 where they were of half precision
    key           where in the file they lay, such as ``checkpoint['model']``; empty at its top
    others        the other sets of weights in the file, which were not read
    architecture  the name that the file gives its architecture; None where it gives none
    labels        the names of classes in the file, as they stand there; None without
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
    """The weights in a file of safetensors or of ``torch.save``, on the CPU; ``key`` names the set to read where there are several.

    Raises ExplainerError, saying what is in the way and how to save again, for a file that holds anything but weights and plain data.
    """
    if not path.is_file():
        raise ExplainerError(f"there is no file {str(path)!r}")
    _refuse_other_formats(path)
    return weights_in(_safetensors(path) if _is_safetensors(path) else _torch(path), key, path.name)


def weights_in(tree: Any, key: str | None = None, name: str = "the dict") -> Weights:
    """The weights in what a file holds, or in a dict of tensors. Raises ExplainerError where there are none, or not under ``key``."""
    sets = dict(_sets(tree))
    if not sets:
        raise ExplainerError(f"{name} holds {_summary(tree)} and no weights: save them with torch.save(model.state_dict(), 'weights.pth')")
    if key is not None and key not in sets:
        raise ExplainerError(f"{name} has no weights under {key!r}; there are {', '.join(repr(k) for k in sets)}")
    chosen = key if key is not None else min(sets, key=_rank)
    tensors = sets[chosen]
    settings = tree if isinstance(tree, Mapping) else {}
    return Weights(
        tensors={name: _in_float(tensor) for name, tensor in _plain_names(tensors).items()},
        key=chosen,
        others=tuple(k for k in sets if k != chosen),
        architecture=_architecture(settings),
        labels=_first(settings, _CLASSES),
        stored=_stored(tensors),
    )


def rename_weights(weights: Mapping[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
    """Rename ``weights`` to the names ``wanted`` by a module: the prefixes of wrappers are removed."""
    names, keys = set(wanted), list(weights)
    prefixes = {"", *(key[: i + 1] for key in keys for i, letter in enumerate(key) if letter == "." and key.count(".", 0, i) < 4)}
    best = max(sorted(prefixes, key=len), key=lambda prefix: sum(key.startswith(prefix) and key[len(prefix) :] in names for key in keys))
    if not any(key.startswith(best) and key[len(best) :] in names for key in keys):
        best = ""
        while shared := next((w for w in _WRAPPERS if sum(key.startswith(best + w) for key in keys) > _MOST * len(keys)), None):
            best += shared
    inside = {key[len(best) :]: tensor for key, tensor in weights.items() if key.startswith(best)}
    beside = {key: tensor for key, tensor in weights.items() if not key.startswith(best) and key not in inside}
    return {**beside, **inside}


def _refuse_other_formats(path: Path) -> None:
    with path.open("rb") as file:
        begin = file.read(64)
    if begin.startswith(b"version https://git-lfs"):
        raise ExplainerError(f"{path.name} is a pointer of Git LFS, not the weights themselves: fetch them with git lfs pull")
    other = _OTHER_FORMATS.get(path.suffix.lower())
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

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as problem:
        raise ExplainerError(f"{path.name} is no whole file of safetensors ({problem}): save or download it again") from problem


def _torch(path: Path) -> Any:
    """What ``torch.save`` wrote, by torch's reader of weights, which makes tensors and plain data and runs nothing."""
    with torch.serialization.safe_globals(_PLAIN):
        try:
            return _loaded(path)
        except Exception as problem:  # each format of weights has errors of its own
            if ran_out_of_memory(problem):
                raise
            raise ExplainerError(_refusal(path, problem)) from problem


def _loaded(path: Path) -> Any:
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
        f"{path.name} holds {named}, and not weights alone; opening it would run code from the file, so it was left closed. Where you "
        "trust it, save its weights again: ckpt = torch.load(file, weights_only=False), then torch.save(ckpt.state_dict(), 'weights.pth') "
        "of a whole model, or torch.save(ckpt['state_dict'], 'weights.pth') of a dict; or open the module itself in Python"
    )


def _strange_objects(path: Path, problem: Exception) -> list[str]:
    """Names of the classes and functions in the file that are neither tensors nor plain data."""
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except Exception:  # an old format, or no archive at all: torch names the first one it met
        return sorted(set(re.findall(r"GLOBAL ([\w.]+)", str(problem))))


def _sets(tree: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Mapping[str, Tensor]]]:
    """The sets of weights in nested dicts, each by the path of its keys."""
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


def _stored(tensors: Mapping[str, Tensor]) -> str:
    sizes: dict[str, int] = {}
    for tensor in tensors.values():
        dtype = str(tensor.dtype).removeprefix("torch.")
        sizes[dtype] = sizes.get(dtype, 0) + tensor.numel()
    return max(sizes, key=lambda dtype: sizes[dtype])


def _settings(tree: Mapping[Any, Any]) -> Iterator[Mapping[Any, Any]]:
    """The dicts of a file in which a training script keeps its settings, its top first."""
    yield tree
    for name in _SETTINGS:
        held = tree.get(name)
        held = vars(held) if isinstance(held, argparse.Namespace) else held
        if isinstance(held, Mapping):
            yield held


def _first(tree: Mapping[Any, Any], names: Collection[str]) -> Any:
    return next((held[name] for held in _settings(tree) for name in names if isinstance(held.get(name), list | tuple | Mapping)), None)


def _architecture(tree: Mapping[Any, Any]) -> str | None:
    """The name of an architecture among a file's settings, if it is one that timm or the hub may have."""
    for held in _settings(tree):
        for name in _ARCHITECTURE:
            if isinstance(said := held.get(name), str) and (known := _known(said)):
                return known
    return None


def _known(said: str) -> str | None:
    import timm

    bare = said.removeprefix("timm/").removeprefix("hf_hub:")
    return f"timm/{bare}" if timm.is_model(bare.split(".")[0]) else None
