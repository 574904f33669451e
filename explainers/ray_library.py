"""Ray, which is an extra: imported where somebody asks for its engine, and nowhere else."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from explainers.errors import ExplainerError, not_installed


def load_ray(*modules: str, need: str, extras: str) -> Any:
    """The module ``ray``, with these of its modules. Raises ExplainerError where one is not there, with ``need``, the clause that says what
    wants it, and the ``extras`` to install.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody unless a person wants it
    try:
        for module in modules:
            import_module(module)
        return import_module("ray")
    except ImportError:
        raise ExplainerError(not_installed(need, extras)) from None


def cluster_address(address: str | None) -> str:
    """Where the cluster is: at ``address``, else where Ray's own variable says; ``local`` is one that begins on this machine."""
    return address or os.environ.get("RAY_ADDRESS") or "local"
