"""File and folder names for maps and targets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote


def file_stem(spec: str) -> str:
    """Return the file name of a method's map, without suffix. Different specs get different names, safe on every file system.

    ``fullgrad_plus:libra`` becomes fullgrad_plus-libra, ``rollout?start_layer=1`` becomes rollout+start_layer=1.
    """
    from explainers.methods.specs import Spec  # imports torch, which commands load only when they run

    parts = Spec.parse(spec)
    return "+".join(quote(part, safe="=") for part in (parts.variant.replace(":", "-"), *parts.settings))


def folder_names(labels: Sequence[str]) -> list[str]:
    """Return a folder name for each target: its label in lower case, with hyphens for anything but letters and digits, all different."""
    names: list[str] = []
    for label in labels:
        stem = re.sub(r"[^\w]+", "-", label.lower()).strip("-")[:60] or "target"
        name, count = stem, 1
        while name in names:
            count += 1
            name = f"{stem}-{count}"
        names.append(name)
    return names
