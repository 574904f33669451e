"""Where tests stand: as the modules that they are about, and what they share in folders called ``support``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

TESTS = ROOT / "tests"
#: Tests of several modules by nature: whole ways through, published numbers, what the trained models know.
OF_SEVERAL = {"integration", "golden", "trained_models"}


def place_of(folder: Path) -> Path:
    """The folder of modules that a folder of tests is of: those of tests/server are in the package vitrine_server."""
    return ROOT / "server" / "vitrine_server" / folder.relative_to("server") if folder.parts[:1] == ("server",) else ROOT / folder


def has_module(folder: Path, name: str) -> bool:
    """Whether ``name`` is a module or a folder in ``folder`` of the tree."""
    return any((place_of(folder) / f"{name}{ending}").exists() for ending in ("", ".py", ".js"))


def is_placed(test: Path) -> bool:
    """Whether its path names a module: tests/a/test_b.py is of a/b, as one of several in tests/a/b/ is; tests/a/test_a.py of all in a."""
    folder, name = test.parent.relative_to(TESTS), test.stem.removeprefix("test_")
    is_split = has_module(folder.parent, folder.name) and not place_of(folder).is_dir()
    return has_module(folder, name) or is_split or name == folder.name or folder.name in OF_SEVERAL


@pytest.mark.parametrize("package", ["explainers", "server", "recipes", "static"])
def test_tests_mirror_modules(package: str) -> None:
    tests = sorted((TESTS / package).rglob("test_*.py"))
    assert len(tests) > 5
    assert not [str(test.relative_to(ROOT)) for test in tests if not is_placed(test)]


def test_no_test_imports_another() -> None:
    """What several tests use stands in a folder called ``support``."""
    imports = re.compile(r"^(?:from|import) tests\.(?:\w+\.)*test_\w+", re.MULTILINE)
    assert not {str(path.relative_to(ROOT)): found for path in TESTS.rglob("*.py") if (found := imports.findall(path.read_text("utf-8")))}
