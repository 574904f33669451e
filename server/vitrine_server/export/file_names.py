"""File and folder names for maps, targets and whole explanations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import regex

_NOT_IN_NAMES = regex.compile(r"[^\p{L}\p{N}=.!+]+")  # as in static/export/titles.js
_LONGEST_PART = 60  # characters of one part of a name
_MOST_TARGETS = 2  # that a name lists


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


def download_name(document: Mapping[str, Any], *parts: str) -> str:
    """Return the name, without suffix, of a file about an explanation, ``document`` being its JSON: its model, what is explained and
    ``parts``, as in ``vitrine-photos-vit-tabby-rollout``. Of a model in a folder of this machine the folder's own name is taken.
    """
    targets = [_target_in_words(target) for target in document.get("targets", ())]
    listed = targets if len(targets) <= _MOST_TARGETS else [f"{targets[0]} and {len(targets) - 1} more"]
    model = str(document.get("model", ""))
    named = ["vitrine", model.rpartition("/")[2] if model.startswith("/") else model, " ".join(listed), *parts]
    stems = (_NOT_IN_NAMES.sub("-", part.lower()).strip("-")[:_LONGEST_PART].strip("-") for part in named)
    return "-".join(stem for stem in stems if stem)


def as_download(name: str, *, is_shown: bool = False) -> dict[str, str]:
    """Return the header by which a browser saves an answer as the file ``name``; with ``is_shown`` only if a person asks to save it."""
    plain = name.encode("ascii", "ignore").decode()  # for clients that know the older form of the header alone
    how = "inline" if is_shown else "attachment"
    return {"Content-Disposition": f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"}


def _target_in_words(target: Mapping[str, Any]) -> str:
    if target.get("kind") or not target.get("against"):
        return str(target.get("label") if target.get("kind") else target.get("of") or target["label"])
    return f"{target.get('of') or target['label']} rather than {target['against']}"
