"""What ``pip install`` brings."""

from __future__ import annotations

import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT


def default_distributions() -> set[str]:
    """The names of what ``pip install`` brings: the default dependencies, theirs, and so on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names: set[str] = set()
    waiting = [(Requirement(line), "") for line in project["dependencies"]]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, within = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": within}):
            continue
        name = canonicalize_name(requirement.name)
        names.add(name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += [(Requirement(line), extra) for line in metadata.requires(name) or ()]
    return names
