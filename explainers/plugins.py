"""What installed packages add, each a module that an entry point names: rules, kinds of targets and of blocks, methods, metrics."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from explainers.errors import ExplainerError

#: The groups of entry points, in the order in which their modules are imported: a method may name a rule.
ENTRY_POINT_GROUPS = ("vitrine.rules", "vitrine.targets", "vitrine.block_kinds", "vitrine.methods", "vitrine.metrics")


@cache  # what is installed is looked through once: a package that comes later adds nothing to a process that runs
def _declared() -> tuple[EntryPoint, ...]:
    installed = entry_points()
    return tuple(entry for group in ENTRY_POINT_GROUPS for entry in installed.select(group=group))


def load_plugins() -> None:
    """Import the modules that installed packages name. Raises ExplainerError that says which of them fails, and whose it is."""
    for entry in _declared():
        try:
            entry.load()
        except Exception as error:
            owner = entry.dist.name if entry.dist is not None else "an installed package"
            raise ExplainerError(
                f"The module {entry.value}, which {owner} adds as {entry.group}, cannot be loaded ({type(error).__name__}: {error}). "
                f"Mend {owner}, or uninstall it."
            ) from error


def plugin_versions() -> dict[str, str]:
    """The packages that add something, with their versions."""
    return {entry.dist.name: entry.dist.version for entry in _declared() if entry.dist is not None}


def plugin_sources() -> list[Path]:
    """The files of the modules that packages add."""
    specs = {entry.module: find_spec(entry.module) for entry in _declared()}
    return sorted({Path(spec.origin) for spec in specs.values() if spec is not None and spec.origin is not None})
