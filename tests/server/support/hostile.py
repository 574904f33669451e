"""Tiny models in a process of their own, which do what a word of their text says: hang, raise, ask to exit, crash, take memory or time,
or lose the device."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

import explainers
from tests.families import FAMILIES
from tests.server.support.gated_models import PATIENCE
from tests.support.vocabularies import wordpiece
from vitrine_server.jobs.host import host_process, model_host
from vitrine_server.jobs.host.lost_device import DeviceLostError
from vitrine_server.jobs.host.model_host import ModelHost
from vitrine_server.settings import Settings

HANG, RAISE, EXIT, CRASH, GROW, SLOW, LOSE, KIND = "film", "movie", "made", "bad", "well", "don", "z", "good"
GROWN = 60_000_000  # bytes
NO_DEVICE = "no device"  # a file in the home: processes that begin while it is there find no device
LOOKS_OFTEN = "looks often"  # another one: a process that begins while it is there and does nothing looks often for its device
LABELS = ["against", "for", "unsure"]
_held: list[torch.Tensor] = []


def _crash_mark(name: str) -> str:
    return f"{name} crashes when it is loaded"


def _raise() -> None:
    raise RuntimeError("the model's own words")


def _lose_device() -> None:
    """As a kernel's assertion does on a GPU: it fails, and whatever is asked of the device after it fails, too."""

    def lost(device: torch.device) -> None:
        raise DeviceLostError(f"{device} answers nothing more")

    model_host.check_device = lost
    raise RuntimeError("CUDA error: device-side assert triggered")


def _find_no_device(*_: object) -> None:
    """As torch fails at its first call where the GPU has fallen off the bus."""
    raise RuntimeError("CUDA error: no CUDA-capable device is detected")


DEEDS: dict[str, Callable[[], object]] = {
    HANG: lambda: threading.Event().wait(),
    RAISE: _raise,
    LOSE: _lose_device,
    EXIT: lambda: sys.exit(3),
    CRASH: lambda: os.kill(os.getpid(), signal.SIGKILL),
    SLOW: lambda: threading.Event().wait(0.1),
    GROW: lambda: _held.append(torch.ones(GROWN // 4)),
}


@dataclass
class Loads:
    """Loads the model of texts; ``device`` is asked for as the server asks."""

    settings: Settings

    def __call__(self, name: str, device: str | None = None) -> explainers.Model:
        if (self.settings.home / _crash_mark(name)).exists():
            os._exit(5)
        tokenizer = wordpiece()
        module = FAMILIES["bert"].build()
        model = explainers.wrap(module, name=name, tokenizer=tokenizer, labels=LABELS, device=device)
        deeds = {tokenizer.convert_tokens_to_ids(word): deed for word, deed in DEEDS.items()}

        def obey(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            ids = named.get("input_ids", arguments[0] if arguments else None)
            for number, deed in deeds.items():
                if ids is not None and bool((ids == number).any()):
                    deed()

        module.register_forward_pre_hook(obey, with_kwargs=True)
        return model


def hostile_host(settings: Settings) -> ModelHost:
    """What lives in the process; it is called there."""
    if (settings.home / NO_DEVICE).exists():
        model_host.limit_memory = _find_no_device
    host = ModelHost(Loads(settings), settings)
    if (settings.home / LOOKS_OFTEN).exists():
        host_process._IDLE_LOOK = 0.1

        def rest() -> None:
            if (settings.home / NO_DEVICE).exists():
                raise DeviceLostError("it has fallen off the bus")

        host.rest = rest  # type: ignore[method-assign]
    return host


def until(is_so: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait until it is so: looked at again and again, as no event tells."""
    paused, deadline = threading.Event(), time.monotonic() + patience
    while not is_so():
        paused.wait(0.02)
        assert time.monotonic() < deadline, f"waited in vain until {what}"


def is_running(pid: int) -> bool:
    """Whether a process is there and not at its end."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def crash_at_load(home: Path, *names: str) -> None:
    """Have these models crash whenever they are loaded."""
    home.mkdir(parents=True, exist_ok=True)
    for name in names:
        (home / _crash_mark(name)).touch()
