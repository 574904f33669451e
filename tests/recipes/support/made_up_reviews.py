"""Files of reviews as their publishers lay them out."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import explainers.models.libraries.torchvision_ops  # noqa: F401  (before transformers)


def write(data: Path, name: str, rows: list[Mapping[str, Any]]) -> None:
    with lzma.open(data / name, "wt", encoding="utf8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
