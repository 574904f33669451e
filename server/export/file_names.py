"""File and folder names for maps and targets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote


def file_stem(spec: str) -> str:
    """The file name of a method, without its ending. Different specs get different names, safe on every file system.

    ``fullgrad_plus:libra`` is fullgrad_plus-libra, ``rollout?start_layer=1`` is rollout+start_layer=1.
    """
    method_name, _, options = spec.partition("?")
    parts = [method_name.replace(":", "-"), *options.split("&")] if options else [method_name.replace(":", "-")]
    return "+".join(quote(part, safe="=") for part in parts)


def folder_names(labels: Sequence[str]) -> list[str]:
    """A folder name for each target: its label in lower case, hyphens for what is no letter or digit, all different."""
    names: list[str] = []
    for label in labels:
        stem = re.sub(r"[^\w]+", "-", label.lower()).strip("-")[:60] or "target"
        name, count = stem, 1
        while name in names:
            count += 1
            name = f"{stem}-{count}"
        names.append(name)
    return names
