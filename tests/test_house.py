"""The rules of the house that no tool checks: which way imports go, how long a module may be, what is pinned."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from tests.conftest import ROOT

PACKAGES = ("explainers", "server", "embedded")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
LONGEST = 450  # lines; past 400 it is time to split


def imports(tree: ast.AST, at_load: bool) -> Iterator[str]:
    """Dotted names that a module imports; with ``at_load`` not those imported inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        elif not (at_load and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            yield from imports(node, at_load)


def imported(name: str, at_load: bool = False) -> set[str]:
    """The modules of this project that module ``name`` imports."""
    found = set()
    for target in imports(ast.parse(MODULES[name].read_text("utf-8")), at_load):
        module = target if target in MODULES else target.rpartition(".")[0]
        if module in MODULES and module != name:
            found.add(module)
    return found


@pytest.mark.parametrize("package", ["explainers", "embedded"])
def test_only_the_server_knows_the_server(package: str) -> None:
    wrong = {
        name: other for name in MODULES if name.split(".")[0] == package for other in imported(name) if other.split(".")[0] == "server"
    }
    assert not wrong


def test_the_engine_does_not_import_what_is_embedded() -> None:
    wrong = {
        name: other
        for name in MODULES
        if name.split(".")[0] == "explainers"
        for other in imported(name)
        if other.split(".")[0] == "embedded"
    }
    assert not wrong


def test_no_module_imports_itself_by_a_detour() -> None:
    """A package's own ``__init__`` may gather what its modules define, so imports of it from below do not count."""
    graph = {name: {other for other in imported(name, at_load=True) if not name.startswith(f"{other}.")} for name in MODULES}
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the modules


def test_modules_are_short() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    assert not {name: length for name, length in lengths.items() if length > LONGEST}


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {line.partition("==")[0] for line in lines if not line.startswith("#") and "==" in line}
    assert {re.match(r"[\w.-]+", one).group() for one in wanted} <= pinned  # type: ignore[union-attr]
