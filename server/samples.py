"""The inputs to try that ship with the models."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One input: ``entry`` as the index has it, and the file of its image."""

    id: str
    entry: dict[str, Any]
    image: Path | None

    def to_json(self) -> dict[str, Any]:
        """The sample as the pages read it."""
        document = {name: value for name, value in self.entry.items() if name not in ("image", "mask")}
        return document if self.image is None else {**document, "image": f"/api/samples/{self.id}/image"}


def read_samples(folders: Iterable[Path]) -> dict[str, Sample]:
    """The samples of each folder's ``index.json``, in order; raises ValueError where an id comes twice."""
    samples: dict[str, Sample] = {}
    for folder in folders:
        for entry in json.loads((folder / "index.json").read_text(encoding="utf-8"))["samples"]:
            if entry["id"] in samples:
                raise ValueError(f"two samples are called {entry['id']!r}")
            image = folder / entry["image"] if "image" in entry else None
            samples[entry["id"]] = Sample(entry["id"], entry, image)
    return samples
