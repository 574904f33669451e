"""Data that kills the process that reads a certain input, the first time that it is read: workers import this."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

from explainers.datasets import Dataset, Sample
from explainers.evaluation.distributed import Sources
from explainers.models.model import Model


@dataclass(frozen=True, kw_only=True)
class Deadly(Sources):
    """``index`` is deadly as long as there is no file ``marker``. Every reading is written down in the folder ``readings``."""

    index: int
    readings: Path

    @property
    def marker(self) -> Path:
        return self.readings / "killed"

    def open(self, device: str) -> tuple[Model, Dataset]:
        model, data = super().open(device)

        def read(index: int) -> Sample:
            with (self.readings / f"{os.getpid()}").open("a") as file:
                file.write(f"{index}\n")
            if index == self.index and not self.marker.exists():
                self.marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return data.read(index)

        return model, replace(data, read=read)
