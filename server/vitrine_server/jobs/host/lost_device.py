"""A GPU that answers nothing more to a process: after some errors, such as an assertion in a kernel, every later call of CUDA fails."""

from __future__ import annotations

import torch

from explainers.errors import ran_out_of_memory


class DeviceLostError(RuntimeError):
    """Raised when a process can use its GPU no more, and another process can: so it has to end, and its models are loaded by the next."""


class DeviceGoneError(DeviceLostError):
    """Raised when a process cannot use its GPU from the start: the next one is not expected to either, so somebody has to look after it."""


def check_device(device: torch.device) -> None:
    """Wait for what a GPU computes. Raises DeviceLostError if it answers this process with an error; on another device nothing happens, nor
    on a GPU that has no memory left for this process's first call.
    """
    if device.type == "cuda":
        try:
            torch.cuda.synchronize(device)
        except RuntimeError as error:
            if ran_out_of_memory(error):
                return
            raise DeviceLostError(f"{device} answers nothing more to this process: {error}") from error
