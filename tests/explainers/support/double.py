"""Float64 all the way: models that cast to float32 inside, in normalisations or rotary positions, compute in float64 here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Double(TorchFunctionMode):
    """While active, a float64 tensor that is to become float32 stays as it is."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if args and isinstance(args[0], Tensor) and args[0].dtype == torch.float64:
            if func in (Tensor.float, Tensor.to) and (func is Tensor.float or torch.float32 in (*args[1:], kwargs.get("dtype"))):
                return args[0]
            if kwargs.get("dtype") == torch.float32:  # softmax
                kwargs.pop("dtype")
        return func(*args, **kwargs)


def in_double(forward: Callable[[Mapping[str, Tensor]], Tensor]) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """``Model.forward`` without such casts."""

    def run(tensors: Mapping[str, Tensor]) -> Tensor:
        with Double():
            return forward(tensors)

    return run
