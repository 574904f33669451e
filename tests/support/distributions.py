"""What ``pip install`` brings."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT


def default_distributions() -> set[str]:
    """The names of what ``pip install`` brings: the default dependencies, theirs, and so on."""
    return distributions(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"])


def distributions(lines: Iterable[str]) -> set[str]:
    """The names of the distributions that these requirements bring: what they name, and as far as it is installed here, what that requires,
    and so on.
    """
    names: set[str] = set()
    waiting = [(Requirement(line), "") for line in lines]
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
                found = next(metadata.distributions(name=name), None)
                waiting += [(Requirement(line), extra) for line in (found.requires if found else None) or ()]
    return names
