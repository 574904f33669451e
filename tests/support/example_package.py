"""The example package of docs/extending.md, installed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from explainers import TARGETS, plugins
from explainers.autograd.rules import OPERATOR_KINDS, RULES
from explainers.methods import METHODS
from explainers.metrics import METRICS
from explainers.models.structure.block_kinds import BLOCK_KINDS
from explainers.models.tasks import TASKS
from tests.conftest import ROOT

REGISTRIES: tuple[dict[str, object], ...] = (OPERATOR_KINDS, RULES, TARGETS, TASKS, BLOCK_KINDS, METHODS, METRICS)  # type: ignore[assignment]  # each of its own kind

PAGE = ROOT / "docs" / "extending.md"


def install_example(folder: Path) -> Path:
    """Write the package as the page has it, install it without fetching anything, and give the folder it is in."""
    text = PAGE.read_text("utf-8")
    source, installed = folder / "source", folder / "installed"
    source.mkdir(parents=True)
    for language, name in (("python", "vitrine_example.py"), ("toml", "pyproject.toml")):
        (block,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        (source / name).write_text(block, "utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--no-build-isolation", "--target", installed, source], check=True)
    return installed


@contextmanager
def installed_example(folder: Path) -> Iterator[ModuleType]:
    """The example as a process has it that starts where it is installed; this process forgets it afterwards."""
    before = [dict(registry) for registry in REGISTRIES]
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(install_example(folder))
            plugins._declared.cache_clear()
            plugins.load_plugins()
            yield sys.modules["vitrine_example"]
    finally:
        plugins._declared.cache_clear()
        sys.modules.pop("vitrine_example", None)
        for registry, entries in zip(REGISTRIES, before, strict=True):
            registry.clear()
            registry.update(entries)
