"""The rules of the house that no tool checks: which way imports go, what a folder is for, how long lines of scripts are, what names say."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

#: Of each package, the folder that it is in.
PACKAGES = {"explainers": ROOT, "vitrine_server": ROOT / "server", "recipes": ROOT}
MODULES = {
    ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
    for package, folder in PACKAGES.items()
    for path in sorted((folder / package).rglob("*.py"))
}
FOLDERS = [name for name, path in MODULES.items() if path.name == "__init__.py"]
STATIC = ROOT / "static"
VENDOR = STATIC / "vendor"  # libraries of others, as they are in their packages: no rule of this house is theirs
STATIC_FOLDERS = sorted(folder for folder in STATIC.rglob("*") if folder.is_dir() and folder.name not in ("fonts", "language"))
SCRIPTS = {path.resolve(): path.read_text("utf-8") for path in sorted(STATIC.rglob("*.js")) if path.parent != VENDOR}
SCRIPT_IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")
VAGUE = {"one", "told", "asked", "again", "found", "own"}  # names that say nothing of what they name


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a module imports: at its head, inside functions, and for the type checker alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imported(name: str) -> set[str]:
    """The modules of this project that module ``name`` imports."""
    modules = set()
    for target in imports(ast.parse(MODULES[name].read_text("utf-8"))):
        module = target if target in MODULES else target.rpartition(".")[0]
        if module in MODULES and module != name:
            modules.add(module)
    return modules


def scripts_imported(script: Path, *, types: bool = False) -> set[Path]:
    """The scripts that a script imports, at its head or when it needs them, but for libraries of others; with ``types`` also those that it
    has types from.
    """
    text = SCRIPTS[script] if types else re.sub(r"/\*\*.*?\*/", "", SCRIPTS[script], flags=re.DOTALL)
    found = {(script.parent / target).resolve() for target in SCRIPT_IMPORT.findall(text)}
    return {target for target in found if target.parent != VENDOR}


def test_no_module_imports_itself_by_a_detour() -> None:
    """Nor by the folder that it lies in, which import-linter takes for one with its modules; the other arrows are in pyproject.toml."""
    assert list(TopologicalSorter({name: imported(name) for name in MODULES}).static_order())  # raises CycleError, which names the modules


def test_no_script_imports_itself_by_a_detour() -> None:
    graph = {script: scripts_imported(script) for script in SCRIPTS}
    assert sum(map(len, graph.values())) > len(graph)
    assert list(TopologicalSorter(graph).static_order())


def test_arrows_between_the_folders_of_scripts_go_one_way() -> None:
    """Also where a script is fetched when it is first needed, and where only types are taken."""
    graph: dict[str, set[str]] = defaultdict(set)
    for script in SCRIPTS:
        folder = script.relative_to(STATIC).parts[0]
        others = {other.relative_to(STATIC).parts[0] for other in scripts_imported(script, types=True)}
        graph[folder] |= others - {folder}
    order = list(TopologicalSorter(graph).static_order())
    assert order[0] == "core"
    assert order[-1] == "pages"


@pytest.mark.parametrize("folder", [folder for folder in STATIC_FOLDERS if any(folder.glob("*/*.js"))], ids=lambda folder: folder.name)
def test_arrows_between_the_rooms_of_a_folder_go_one_way(folder: Path) -> None:
    """Also between a room and the scripts beside it; also where only types are taken."""
    graph: dict[str, set[str]] = defaultdict(set)
    for script in SCRIPTS:
        if script.is_relative_to(folder):
            part = script.relative_to(folder).parts[0]
            others = (other for other in scripts_imported(script, types=True) if other.is_relative_to(folder))
            graph[part] |= {other.relative_to(folder).parts[0] for other in others} - {part}
    assert any(Path(part).suffix == "" for part in graph)
    assert list(TopologicalSorter(graph).static_order())


def test_every_script_and_style_sheet_is_in_a_folder() -> None:
    assert not [path.name for kind in ("*.js", "*.css") for path in STATIC.glob(kind)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_says_its_purpose(folder: str) -> None:
    path = MODULES[folder]
    purpose = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    assert purpose, f"{path} says nothing of what the folder is for"


def test_the_browser_tests_mirror_the_pages() -> None:
    """A test of a script lies where the script lies; what holds for all pages lies with the pages."""
    rooms = {path.parent.name for path in (ROOT / "tests" / "browser").glob("*/test_*.py")}
    assert rooms <= {folder.name for folder in STATIC_FOLDERS}
    assert not list((ROOT / "tests" / "browser").glob("test_*.py"))


def test_every_folder_says_what_is_in_it() -> None:
    """In the first line of its ``__init__.py``, or of its README beside scripts."""
    first = {folder: (ast.get_docstring(ast.parse(MODULES[folder].read_text("utf-8"))) or "").partition("\n")[0] for folder in FOLDERS}
    first |= {str(path.relative_to(ROOT)): (path / "README.md").read_text("utf-8").partition("\n")[0] for path in STATIC_FOLDERS}
    assert not [folder for folder, line in first.items() if len(line.split()) < 4]


def test_lines_of_scripts_are_short() -> None:
    """But for sentences that people read, which stay whole so that they can be searched for."""
    said = re.compile(r'"[^"]*"|`[^`]*`')
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SCRIPTS
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(said.sub("", line)) > 120 or (len(line) > 120 and not said.search(line))
    ]
    assert not wide


@pytest.mark.parametrize("package", ["explainers", "vitrine_server"])
def test_names_say_what_things_are(package: str) -> None:
    """A variable, parameter or function is called method, target, entry, ...: not by a word that fits anything."""
    wrong = defaultdict(set)
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))) if name.split(".")[0] == package else ():
            match node:
                case ast.Name(id=called) | ast.arg(arg=called) | ast.FunctionDef(name=called) if called in VAGUE:
                    wrong[name].add(called)
    assert not wrong


def test_what_to_install_is_said_by_one_function() -> None:
    """An extra is named by `explainers.installation.not_installed` alone: another way to write it goes out of date unseen."""
    told = re.compile(r"pip install[^\n]*\[")
    said = {name for name, path in MODULES.items() if told.search(path.read_text("utf-8"))}
    assert said == {"explainers.installation"}
