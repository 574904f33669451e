"""Models of a made-up GPU, which note where they are moved, and the memory of that GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from explainers.models.memory import DeviceMemory
from vitrine_server.jobs.host.residency import Residency

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
SIZE = 400  # bytes of the weights of a model


class Movable(nn.Module):
    """A module of 400 bytes that only notes where it is moved, as if there were a GPU."""

    def __init__(self, fails: list[Exception]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(SIZE // 4))
        self.moves: list[str] = []
        self.fails = fails

    def to(self, device: torch.device) -> Any:  # type: ignore[override]
        if device == GPU and self.fails:
            raise self.fails.pop(0)
        self.moves.append(device.type)
        return self


@dataclass
class MadeUp:
    device: torch.device
    fails: list[Exception] = field(default_factory=list)
    cache: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.module = Movable(self.fails)

    def clear_caches(self) -> None:
        self.cache.clear()


def memory(gpu: float, host: float) -> Callable[[torch.device], DeviceMemory]:
    """Return the memory of devices, in models, that nothing else holds."""
    return lambda device: DeviceMemory(int(SIZE * (gpu if device == GPU else host)))


def places(residency: Residency) -> dict[str, str]:
    return {name: one.place for name, one in residency.resident().items()}
