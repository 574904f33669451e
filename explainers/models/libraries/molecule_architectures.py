"""Architectures of models of molecules by their names, and the modules that folders with config.json and weights hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from safetensors.torch import load_file
from torch import nn

from explainers.errors import ExplainerError

__all__ = ["MOLECULE_ARCHITECTURES", "add_molecule_architecture", "build_molecule_model"]

Build = Callable[..., nn.Module]
_Build = TypeVar("_Build", bound=Build)
#: Name of an architecture -> function that builds it; packages add theirs with the entry point ``vitrine.architectures``.
MOLECULE_ARCHITECTURES: dict[str, Build] = {}


def add_molecule_architecture(name: str) -> Callable[[_Build], _Build]:
    """Return a decorator that declares an architecture called ``name``: a module class, or a function that makes a module, called with the
    ``model_args`` of a config.json.

    Raises ExplainerError for a name that is taken.
    """

    def declare(build: _Build) -> _Build:
        if name in MOLECULE_ARCHITECTURES:
            raise ExplainerError(f"There is already an architecture of models of molecules {name}.")
        MOLECULE_ARCHITECTURES[name] = build
        return build

    return declare


def build_molecule_model(config: Mapping[str, Any], folder: Path) -> nn.Module:
    """Return the module of molecules that ``config`` describes by ``architecture`` and ``model_args``, with the weights in
    ``model.safetensors`` of ``folder``, in float32.

    Raises ExplainerError for an undeclared architecture, and for weights that do not fit it.
    """
    name = config.get("architecture")
    if name not in MOLECULE_ARCHITECTURES:
        raise ExplainerError(
            f"{folder / 'config.json'} names the architecture {name!r} of molecules; there are {', '.join(MOLECULE_ARCHITECTURES)}"
        )
    try:
        module = MOLECULE_ARCHITECTURES[name](**config.get("model_args", {}))
        module.load_state_dict({key: value.float() for key, value in load_file(folder / "model.safetensors").items()})
    except (TypeError, RuntimeError, OSError) as problem:
        raise ExplainerError(f"{folder} holds no {name}: {problem}") from problem
    return module
