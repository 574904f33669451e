"""The layers that a folder of sentence-transformers puts after a backbone: pooling, dense layers and normalisation, by its
``modules.json``.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.errors import ExplainerError
from explainers.json_files import read_json, read_json_object

MODULES = "modules.json"
#: Under this name it is a part of the backbone, and its own name for the mask stands in the output.
ATTRIBUTE, MASK = "sentence_embedding", "attention_mask"
#: Poolings in the order in which sentence-transformers lays their vectors side by side: the name in a configuration, the short one.
_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


class SentenceEmbedding(nn.Module):
    """A module that converts the hidden states (B, S, D) of a backbone and their mask (B, S) to one vector (B, E) for each text: by
    ``poolings``, joined, then the layers ``dense``, of length 1 if ``is_normalised``.
    """

    def __init__(self, poolings: list[str], dense: list[nn.Module], is_normalised: bool) -> None:
        super().__init__()
        self.poolings, self.dense, self.is_normalised = poolings, nn.Sequential(*dense), is_normalised

    @property
    def reads_first(self) -> bool:
        """Return whether the embedding uses only the first token."""
        return self.poolings == ["cls"]

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return the vectors (B, E) of texts, pooled from their ``tokens`` (B, S, D); ``mask`` is 0 at padding."""
        x: Tensor = self.dense(torch.cat([_pool(tokens, mask, pooling) for pooling in self.poolings], -1))
        return F.normalize(x, dim=-1) if self.is_normalised else x


def _pool(tokens: Tensor, mask: Tensor, pooling: str) -> Tensor:
    if pooling == "cls":
        first = mask.argmax(1)  # padding may stand in front
        return tokens[torch.arange(len(tokens)), first]
    if pooling == "lasttoken":
        last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
        return tokens[torch.arange(len(tokens)), last]
    if pooling == "max":
        return tokens.masked_fill(mask[..., None] == 0, -torch.inf).amax(1)
    weights = mask.to(tokens.dtype)
    if pooling == "weightedmean":
        weights = weights * torch.arange(1, mask.shape[1] + 1, dtype=tokens.dtype, device=tokens.device)
    total = weights.sum(1, keepdim=True).clamp(min=1e-9)
    return (tokens * weights[..., None]).sum(1) / (total.sqrt() if pooling == "mean_sqrt_len_tokens" else total)


def sentence_embedding_of(folder: Path) -> SentenceEmbedding | None:
    """Build the layers that a folder of sentence-transformers puts after the backbone in ``folder``; None if there is no such list.

    The backbone may be one folder below. Raises ExplainerError for a module that is not known here.
    """
    root = next((place for place in (folder, folder.resolve().parent) if (place / MODULES).is_file()), None)
    modules = [] if root is None else _modules_of(root)
    if root is None or not modules or (root / modules[0]["path"]).resolve() != folder.resolve():
        return None
    poolings, dense, is_normalised = list[str](), list[nn.Module](), False
    for module in modules[1:]:
        kind, place = module["type"].rpartition(".")[2], root / module["path"]
        if kind == "Pooling" and not poolings and not dense:
            poolings = _poolings_of(_settings(place), place)
        elif kind == "Dense" and poolings and not is_normalised:
            dense += _dense_of(_settings(place), place)
        elif kind == "Normalize" and poolings:
            is_normalised = True
        elif kind != "Dropout":
            raise ExplainerError(
                f"{root / MODULES} names a {kind}, and of what sentence-transformers puts after a backbone Pooling, Dense and Normalize "
                "are known here, in this order: open the backbone's own folder without modules.json for its features"
            )
    return SentenceEmbedding(poolings, dense, is_normalised) if poolings else None


def backbone_in(root: Path) -> Path | None:
    """Return the folder of the backbone if ``root``, a folder of sentence-transformers, keeps it in a subfolder; else None."""
    modules = _modules_of(root)
    place = root / modules[0]["path"] if modules else root
    return place if place != root and (place / "config.json").is_file() else None


def _modules_of(root: Path) -> list[dict[str, str]]:
    """Return the modules that the folder ``root`` lists, each with its type and path. Raises ExplainerError if a path leads out of the
    folder, so that no file can name other files of the machine.
    """
    modules = read_json(root / MODULES)
    if not isinstance(modules, list) or not all(
        isinstance(module, dict) and isinstance(module.get("path"), str) and isinstance(module.get("type"), str) for module in modules
    ):
        raise ExplainerError(f"{root / MODULES} is no list of modules, each with a type and a path; save the model again")
    for module in modules:
        place = PurePath(module["path"])
        if place.is_absolute() or ".." in place.parts:
            raise ExplainerError(f"{root / MODULES} names {module['path']!r}, which leads out of its folder; save the model again")
    return modules


def _settings(place: Path) -> dict[str, Any]:
    return read_json_object(place / "config.json")


def _poolings_of(settings: dict[str, Any], place: Path) -> list[str]:
    said = settings.get("pooling_mode")
    named = [said] if isinstance(said, str) else list(said or ())
    poolings = [short for long, short in _POOLINGS.items() if settings.get(long) or short in named]
    if not poolings or set(named) - set(_POOLINGS.values()):
        raise ExplainerError(f"{place / 'config.json'} names no pooling that is known here: {', '.join(_POOLINGS.values())}")
    return poolings


def _dense_of(settings: dict[str, Any], place: Path) -> list[nn.Module]:
    layer = nn.Linear(settings["in_features"], settings["out_features"], bias=settings.get("bias", True))
    curve = getattr(nn, str(settings.get("activation_function", "torch.nn.Tanh")).rpartition(".")[2], None)
    if curve is None:
        raise ExplainerError(f"{place / 'config.json'} names the activation {settings['activation_function']!r}, which torch.nn lacks")
    if (place / "model.safetensors").is_file():
        from safetensors.torch import load_file

        tensors = load_file(place / "model.safetensors")
    else:
        tensors = torch.load(place / "pytorch_model.bin", map_location="cpu", weights_only=True)
    layer.load_state_dict({name.removeprefix("linear."): tensor.float() for name, tensor in tensors.items()})
    return [layer, curve()]


def max_length_of(folder: Path) -> int | None:
    """Return the number of tokens that sentence-transformers reads; None if the folder does not say."""
    path = folder / "sentence_bert_config.json"
    said = read_json_object(path).get("max_seq_length") if path.is_file() else None
    return said if isinstance(said, int) else None
