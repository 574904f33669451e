"""A GPU that answers nothing more to a process: after some errors, such as an assertion in a kernel, every later call of CUDA fails."""

from __future__ import annotations

import torch


class DeviceLostError(RuntimeError):
    """Raised when a process can use its GPU no more, and another process can: so it has to end, and its models are loaded by the next."""


def check_device(device: torch.device) -> None:
    """Wait for what a GPU computes. Raises DeviceLostError if it answers this process with an error; on another device nothing happens."""
    if device.type == "cuda":
        try:
            torch.cuda.synchronize(device)
        except RuntimeError as error:
            raise DeviceLostError(f"{device} answers nothing more to this process: {error}") from error
