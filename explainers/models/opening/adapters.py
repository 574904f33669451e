"""Adapters of PEFT (LoRA and its kin): a folder without the weights of its base model, which are found and have the adapter merged in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from explainers.errors import ExplainerError, NotInstalledError
from explainers.installation import not_installed
from explainers.json_files import read_json_object
from explainers.models.libraries import hub
from explainers.models.libraries.hub import DownloadProgress
from explainers.models.opening.weights import read_weights

CONFIG = "adapter_config.json"
_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_TASKS = {"SEQ_CLS": "AutoModelForSequenceClassification", "TOKEN_CLS": "AutoModelForTokenClassification"}


def merge_adapter(
    folder: Path, base: str | Path | nn.Module | None, progress: DownloadProgress | None = None
) -> tuple[nn.Module, Path | None, str]:
    """Merge the adapter in ``folder`` into its base model; return the model, the folder of the base, which may hold its tokenizer (None if
    ``base`` is a module), and the name of the base.

    base  the base model: a folder, ``hf/<organisation>/<name>``, or a module; None: what the adapter names

    Raises ExplainerError if PEFT is not installed, and if the base model is not named or cannot be found.
    """
    try:
        import peft
    except ImportError:
        raise NotInstalledError(not_installed(f"{folder.name} is an adapter and needs the package peft", "peft")) from None
    said = read_json_object(folder / CONFIG)
    file = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if file is None:
        raise ExplainerError(f"{folder} lacks {_WEIGHTS[0]}, the adapter's weights")
    if isinstance(base, nn.Module):
        place, module, title = None, base, type(base).__name__
    else:
        named = str(base or said.get("base_model_name_or_path") or "")
        place = _place(named, folder, progress)
        module, title = _base_model(place, said, file), place.name if Path(named).is_dir() else f"hf/{named.removeprefix('hf/')}"
    try:
        whole = peft.PeftModel.from_pretrained(module, str(folder)).merge_and_unload()
    except Exception as problem:  # each kind of adapter has errors of its own
        raise ExplainerError(f"peft cannot merge the adapter of {folder.name} into {title}: {problem}") from problem
    return whole.eval(), place, title


def _place(named: str, folder: Path, progress: DownloadProgress | None) -> Path:
    if not named:
        raise ExplainerError(f"{folder.name} names no base model: pass base=, its folder or hf/<organisation>/<name>")
    for place in (Path(named).expanduser(), folder / named, folder.parent / Path(named).name):
        if (place / "config.json").is_file():
            return place
    try:
        return hub.fetch(named.removeprefix("hf/"), progress)
    except ExplainerError as problem:
        raise ExplainerError(
            f"the adapter in {folder.name} is for the base model {named!r}, which was not found: {problem}. Pass base=, its folder or "
            "hf/<organisation>/<name>"
        ) from problem


def _base_model(place: Path, said: dict[str, Any], file: Path) -> nn.Module:
    """Load the base model of an adapter from the folder ``place``, with as many classes as the head in the adapter's weights, ``file``;
    ``said`` are the adapter's settings.
    """
    import transformers

    config = transformers.AutoConfig.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    auto = _TASKS.get(said.get("task_type") or "") or (
        "AutoModelForImageClassification" if hasattr(config, "patch_size") else "AutoModelForSequenceClassification"
    )
    heads = [name.rpartition(".")[2] for name in said.get("modules_to_save") or ()]
    rows = [
        tensor.shape[0]
        for name, tensor in read_weights(file).tensors.items()
        if tensor.dim() == 2 and "lora_" not in name and any(f".{head}." in name for head in [*heads, "classifier", "score"])
    ]
    classes = {"num_labels": rows[-1]} if rows else {}
    try:
        module: nn.Module = getattr(transformers, auto).from_pretrained(
            place, dtype=torch.float32, local_files_only=True, trust_remote_code=False, ignore_mismatched_sizes=True, **classes
        )
    except Exception as problem:  # each format of weights has errors of its own
        raise ExplainerError(f"transformers cannot load the base model {place.name}: {problem}") from problem
    return module
