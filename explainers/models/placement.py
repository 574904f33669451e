"""Where the weights of a module are: all of them on one device, or a model cannot be explained and moved as one."""

from __future__ import annotations

import torch
from torch import nn

from explainers.errors import ExplainerError

_LOAD_WHOLE = 'load it whole on one device, such as device_map={"": "cuda:0"}, in half precision if it is too large'


def placed(module: nn.Module, device: str | torch.device | None) -> nn.Module:
    """Return ``module`` after moving it to ``device``; None leaves it where it is. Raises ExplainerError, in words, if its weights are not
    in memory, or are spread over devices, also where hooks of accelerate would hold them there.
    """
    devices, name = sorted({str(parameter.device) for parameter in module.parameters()}), type(module).__name__
    if "meta" in devices:
        raise ExplainerError(
            f"weights of this {name} are not in memory (their device is meta): they were left on disk or in host memory until a pass needs "
            f'them, as device_map="auto" does where memory is short; {_LOAD_WHOLE}, or take a smaller model'
        )
    if len(devices) > 1 and (device is None or hasattr(module, "hf_device_map")):
        raise ExplainerError(f"weights of this {name} are spread over {', '.join(devices)}: {_LOAD_WHOLE}")
    return module if device is None else module.to(device)
