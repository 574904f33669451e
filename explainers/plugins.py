"""Loader of what installed packages add, each a module that an entry point names: rules, kinds of targets, tasks, kinds of blocks, readers
of molecules, methods, metrics, data sets, architectures.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from explainers.errors import ExplainerError

#: The groups whose modules are imported with ``explainers``, in this order: a method may name a rule.
GROUPS_AT_START = (
    "vitrine.rules",
    "vitrine.targets",
    "vitrine.tasks",
    "vitrine.block_kinds",
    "vitrine.molecule_readers",
    "vitrine.methods",
    "vitrine.metrics",
)
#: Those whose modules are imported with ``explainers.datasets``, and where timm does not know an architecture.
DATASET_GROUP, ARCHITECTURE_GROUP = "vitrine.datasets", "vitrine.architectures"
ENTRY_POINT_GROUPS = (*GROUPS_AT_START, DATASET_GROUP, ARCHITECTURE_GROUP)


@cache  # what is installed is looked through once: a package that comes later adds nothing to a process that runs
def _declared() -> tuple[EntryPoint, ...]:
    installed = entry_points()
    return tuple(entry for group in ENTRY_POINT_GROUPS for entry in installed.select(group=group))


def load_group(group: str) -> None:
    """Import the modules that installed packages name in one group of entry points. Raises ExplainerError, naming the module and its
    package, if one fails.
    """
    for entry in _declared():
        if entry.group != group:
            continue
        try:
            entry.load()
        except Exception as error:
            owner = entry.dist.name if entry.dist is not None else "an installed package"
            raise ExplainerError(
                f"The module {entry.value}, which {owner} adds as {entry.group}, cannot be loaded ({type(error).__name__}: {error}). "
                f"Mend {owner}, or uninstall it."
            ) from error


def load_plugins() -> None:
    """Import the modules that installed packages name in the groups :data:`GROUPS_AT_START`. Raises ExplainerError as :func:`load_group`
    does.
    """
    for group in GROUPS_AT_START:
        load_group(group)


def plugin_versions() -> dict[str, str]:
    """Return the versions of the installed plugins, by name of the package."""
    return {entry.dist.name: entry.dist.version for entry in _declared() if entry.dist is not None}


def plugin_sources() -> list[Path]:
    """Return the paths of the modules of installed plugins."""
    return sorted({path for entry in _declared() if (path := _source(entry.module)) is not None})


def _source(module: str) -> Path | None:
    """Return the path of the file of the module called ``module``; None if there is none, which :func:`load_group` reports when it is
    needed.
    """
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)
