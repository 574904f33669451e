"""Modules whose weights are whole numbers: what is explained is a copy in float32, the module itself stays. Half precision stays, too."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from explainers.errors import ExplainerError

_HALF = (torch.float16, torch.bfloat16)


def in_float32(module: nn.Module) -> tuple[nn.Module, str | None]:
    """Return ``module`` if no layer of it is quantised, else a copy in float32; and a sentence for a person: that weights of half precision
    stay so, or that a copy is explained. None if there is nothing to say.

    Raises ExplainerError for quantised layers whose weights cannot be read.
    """
    quantised = [name for name, part in module.named_modules() if _is_quantised(part)]
    if not quantised:
        halves = {p.dtype for p in module.parameters() if p.dtype in _HALF}
        if not halves:
            return module, None
        dtype = str(halves.pop()).removeprefix("torch.")
        return module, f"The weights are {dtype} and stay so: maps have its digits. Pass module.float() for more."
    twin = _copy(module)
    for name in quantised:
        parent, _, last = name.rpartition(".")
        setattr(twin.get_submodule(parent), last, _dequantise(twin.get_submodule(name), name))
    return twin.float(), (
        f"{len(quantised)} linear layers are quantised; a copy in float32 with the numbers that they stand for is explained. Activations "
        "are not rounded in it, as they may be in the module itself."
    )


def _copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except Exception as problem:  # what a user's own class raises
        raise ExplainerError(f"a {type(module).__name__} cannot be copied to float32 ({problem}): pass module.float()") from problem


def _is_quantised(part: nn.Module) -> bool:
    weight = getattr(part, "weight", None)
    if isinstance(weight, Tensor):
        return _stands_for_floats(weight) or (not weight.is_floating_point() and not weight.is_complex())
    return callable(weight) and "quantized" in type(part).__module__


def _stands_for_floats(weight: Tensor) -> bool:
    """Return whether the tensor ``weight`` is quantised, by torchao, quanto or torch: it keeps whole numbers and a scale. Where a library
    keeps the scale elsewhere, as bitsandbytes does, torch's own ``dequantize`` would take the whole numbers for the weights.
    """
    return weight.is_quantized or getattr(type(weight), "dequantize", Tensor.dequantize) is not Tensor.dequantize


def _dequantise(part: Any, name: str) -> nn.Linear:
    """Return a linear layer in float32 with the dequantised weights of the quantised layer ``part``. Raises ExplainerError, with its
    ``name``, if they cannot be read.
    """
    try:
        weight = part.weight() if callable(part.weight) else part.weight
        bias = part.bias() if callable(part.bias) else part.bias
        if weight.dim() != 2 or not _stands_for_floats(weight):
            raise TypeError(f"weights of {weight.dtype}")
        plain = weight.dequantize().detach().float()
    except Exception as problem:  # each library of quantisation has errors of its own
        raise ExplainerError(
            f"{name} is a {type(part).__name__} with quantised weights that cannot be read as numbers ({problem}): open the model as it "
            "was before it was quantised, or call its dequantize() first"
        ) from problem
    layer = nn.Linear(plain.shape[1], plain.shape[0], bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(plain)
        if bias is not None:
            layer.bias.copy_(bias.dequantize() if bias.is_quantized else bias)
    return layer.to(plain.device).eval()
