"""The rules of the house that no tool checks: which way imports go, what a folder is for, how long a module may be, what is pinned."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGES = ("explainers", "server", "embedded")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
FOLDERS = [name for name, path in MODULES.items() if path.name == "__init__.py"]
STATIC = ROOT / "static"
STATIC_FOLDERS = sorted(folder for folder in STATIC.rglob("*") if folder.is_dir() and folder.name not in ("fonts", "language"))
SCRIPTS = {path.resolve(): path.read_text("utf-8") for path in sorted(STATIC.rglob("*.js"))}
SCRIPT_IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")
LONGEST = 450  # lines; past 400 it is time to split
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


def scripts_imported(script: Path) -> set[Path]:
    """The scripts that a script imports, at its head or when it needs them."""
    return {(script.parent / target).resolve() for target in SCRIPT_IMPORT.findall(SCRIPTS[script])}


def test_no_module_imports_itself_by_a_detour() -> None:
    """Nor by the folder that it lies in, which import-linter takes for one with its modules; the other arrows are in pyproject.toml."""
    assert list(TopologicalSorter({name: imported(name) for name in MODULES}).static_order())  # raises CycleError, which names the modules


def test_the_scripts_that_pages_import_are_there() -> None:
    assert not {script.name: missing for script in SCRIPTS if (missing := scripts_imported(script) - set(SCRIPTS))}


def test_no_script_imports_itself_by_a_detour() -> None:
    graph = {script: scripts_imported(script) for script in SCRIPTS}
    assert sum(map(len, graph.values())) > len(graph)
    assert list(TopologicalSorter(graph).static_order())


def test_arrows_between_the_folders_of_scripts_go_one_way() -> None:
    """Also where a script is fetched when it is first needed."""
    graph: dict[str, set[str]] = defaultdict(set)
    for script in SCRIPTS:
        folder, others = (script.relative_to(STATIC).parts[0], {other.relative_to(STATIC).parts[0] for other in scripts_imported(script)})
        graph[folder] |= others - {folder}
    order = list(TopologicalSorter(graph).static_order())
    assert order[0] == "core"
    assert order[-1] == "pages"


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


def test_modules_are_short() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    assert not {name: length for name, length in lengths.items() if length > LONGEST}


def test_lines_of_scripts_are_short() -> None:
    """But for sentences that people read, which stay whole so that they can be searched for."""
    said = re.compile(r'"[^"]*"|`[^`]*`')
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / "static").rglob("*.js")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(said.sub("", line)) > 120 or (len(line) > 120 and not said.search(line))
    ]
    assert not wide


EXPORT = re.compile(r"^export (?:default )?(?:async )?(?:(class|function\*?) (\w+)|const (\w+) = (?:async )?(?=\(|\w+ =>))", re.MULTILINE)
METHOD = re.compile(r"^  (?:static )?(?:async )?(?:[gs]et )?(\w+)\([^\n]*(?:\) |\($|\{$)", re.MULTILINE)
KEYWORDS = {"if", "for", "while", "switch", "return"}


def block_before(script: str, start: int) -> str:
    """The JSDoc block that ends on the line above ``start``; empty where there is none."""
    above = script[:start].rstrip(" ")
    return above[above.rindex("/**") :] if above.endswith("*/\n") and "/**" in above else ""


def parameters(script: str, start: int) -> list[str]:
    """The parameters in the parentheses that open at or after ``start``, as they are written, or the single bare one of an arrow."""
    if bare := re.match(r"\w+(?= =>)", script[start:]):
        return [bare.group()]
    at = first = script.index("(", start) + 1
    depth, names, quote = 1, [], ""
    while depth:
        sign = script[at]
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'`":
            quote = sign
        elif sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        if (sign == "," and depth == 1 and not quote) or not depth:
            names.append(script[first:at])
            first = at + 1
        at += 1
    return [name.strip() for name in names if name.strip()]


def lacking(block: str, given: list[str]) -> bool:
    """Whether a block has no ``@param`` with a type for some parameter; one that is taken apart may have any name there."""
    named = re.findall(r"@param \{.+?\}\s+(?:\* )?\[?(\w+)\]?(?: [^\n]*)?$", block, re.MULTILINE | re.DOTALL)
    plain = [re.match(r"(?:\.\.\.)?(\w+)", name) for name in given]
    return len(named) != len(given) or any(match and match.group(1) != name for match, name in zip(plain, named, strict=True))


def untyped(text: str) -> list[str]:
    """The exported functions and classes of a script that have no JSDoc block, or a parameter without a type; methods of classes too."""
    wrong = []
    for export in EXPORT.finditer(text):
        kind, name = export[1], export[2] or export[3]
        block = block_before(text, export.start())
        if not block or (kind != "class" and lacking(block, parameters(text, export.end()))):
            wrong.append(name)
        if kind != "class":
            continue
        body = text[export.end() : text.index("\n}\n", export.end())]
        wrong += [
            f"{name}.{method[1]}"
            for method in METHOD.finditer(body)
            if method[1] not in KEYWORDS
            and (given := parameters(body, method.start(1)))
            and lacking(block_before(body, method.start()), given)
        ]
    return wrong


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.relative_to(STATIC).as_posix())
def test_exports_of_scripts_say_their_types(script: Path) -> None:
    """Every exported function and class has a JSDoc block, and each parameter of these functions, and of methods, a type."""
    assert not untyped(SCRIPTS[script])


JSDOC = re.compile(r"/\*\*.*?\*/", re.DOTALL)
TYPEDEF = re.compile(r"@typedef \{[^@]*\} (\w+)")  # a name stands behind the last brace before the next tag
IMPORTED_TYPES = re.compile(r"""@import \{([^}]*)\} from "([^"]+)"|\bimport\("([^"]+)"\)\.(\w+)""")
EXPORTED_CLASS = re.compile(r"^export class (\w+)", re.MULTILINE)


def typedefs(script: str) -> dict[str, str]:
    """The JSDoc block of each type that a script declares, by the name of the type."""
    declared = {name: block for block in JSDOC.findall(script) for name in TYPEDEF.findall(block)}
    assert len(declared) == script.count("@typedef"), "a type without a name, or two of the same name"
    return declared


def imported_types(script: Path) -> Iterator[tuple[Path, str, str]]:
    """The script that each type of another script comes from, what the type is called there, and what it is called here."""
    for block in JSDOC.findall(SCRIPTS[script]):
        for names, source, inline_source, inline_name in IMPORTED_TYPES.findall(block):
            for name in filter(None, map(str.strip, (names or inline_name).split(","))):
                there, _, here = name.partition(" as ")
                yield (script.parent / (source or inline_source)).resolve(), there, here or there


def types_used(script: str, besides: str = "") -> set[str]:
    """The words in the types of all tags, but for those that import and those of the block ``besides``."""
    words: set[str] = set()
    for block in JSDOC.findall(script):
        for tag in re.finditer(r"@(?!import)\w+ \{", block) if block != besides else ():
            depth, end = 1, tag.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(block[end], 0)
                end += 1
            words |= set(re.findall(r"\w+", block[tag.end() : end - 1]))
    return words


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.relative_to(STATIC).as_posix())
def test_types_of_other_scripts_are_there(script: Path) -> None:
    """A type that is imported stands in the script that it is imported from, and is put to use."""
    used = types_used(SCRIPTS[script])
    for source, there, here in imported_types(script):
        assert source in SCRIPTS, f"there is no {source.name}"
        assert there in {*typedefs(SCRIPTS[source]), *EXPORTED_CLASS.findall(SCRIPTS[source])}, f"{source.name} has no {there}"
        assert here in used, f"{here} is imported, and used nowhere"


def test_every_type_of_the_scripts_is_used() -> None:
    imported_from = {(source, there) for script in SCRIPTS for source, there, _ in imported_types(script)}
    unused = [
        f"{script.relative_to(STATIC)}: {name}"
        for script, text in SCRIPTS.items()
        for name, block in typedefs(text).items()
        if (script, name) not in imported_from and name not in types_used(text, besides=block)
    ]
    assert not unused


@pytest.mark.parametrize("package", ["explainers", "server"])
def test_names_say_what_things_are(package: str) -> None:
    """A variable, parameter or function is called method, target, entry, ...: not by a word that fits anything."""
    wrong = defaultdict(set)
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))) if name.split(".")[0] == package else ():
            match node:
                case ast.Name(id=called) | ast.arg(arg=called) | ast.FunctionDef(name=called) if called in VAGUE:
                    wrong[name].add(called)
    assert not wrong


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {line.partition("==")[0] for line in lines if not line.startswith("#") and "==" in line}
    assert {re.match(r"[\w.-]+", one).group() for one in wanted} <= pinned  # type: ignore[union-attr]
