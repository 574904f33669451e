"""Ray, which is an extra: imported where somebody asks for its engine, and nowhere else."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from explainers.errors import ExplainerError
from explainers.installation import not_installed


def load_ray(*modules: str, need: str, extras: str) -> Any:
    """Import ``ray`` with these of its ``modules``, and return it. Raises ExplainerError if one is missing; its message has ``need``, a
    clause that says what needs Ray, and the ``extras`` to install.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody unless a person wants it
    try:
        for module in modules:
            import_module(module)
        return import_module("ray")
    except ImportError:
        raise ExplainerError(not_installed(need, extras)) from None


def cluster_address(address: str | None) -> str:
    """Return the address of the Ray cluster: ``address``, else the value of Ray's environment variable, else ``local``, which starts a
    cluster on this machine.
    """
    return address or os.environ.get("RAY_ADDRESS") or "local"
