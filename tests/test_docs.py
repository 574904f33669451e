"""The documents say what the registries say, and what they tell people to type exists."""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from explainers.models.catalogue import embedded_names, embedded_path
from tests.conftest import ROOT
from tools import api_reference, docs, script_types
from vitrine_server.cli import build_parser

README = (ROOT / "README.md").read_text("utf-8")
#: The documents that people read, by their paths; ``docs/results`` has pages of its own
DOCUMENTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
WRITTEN = "\n".join(DOCUMENTS.values())
CODE = "\n".join(re.findall(r"```(?:sh|console|bash)\n(.*?)```", WRITTEN, re.DOTALL))
COMMANDS = [line.removeprefix("$ ") for line in CODE.splitlines() if re.match(r"(\$ )?vitrine ", line)]


@pytest.mark.parametrize("page", docs.GENERATED_PAGES)
def test_tables_are_there_and_fresh(page: str) -> None:
    """``python -m tools.docs`` writes them again."""
    text = (ROOT / page).read_text("utf-8")
    assert re.findall(r"<!-- table: (\w+) -->", text) == sorted(
        docs.GENERATED_PAGES[page], key=lambda name: text.index(f"<!-- table: {name} -->")
    )
    assert docs.render(text) == text


def test_every_table_is_on_a_page() -> None:
    assert sorted(name for names in docs.GENERATED_PAGES.values() for name in names) == sorted(docs.TABLES)


@pytest.mark.parametrize("name", api_reference.PUBLIC)
def test_every_public_name_says_what_it_is(name: str) -> None:
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    silent = [public for public in module.__all__ if not api_reference.entry(module, public, {}).rpartition("```")[2].strip()]
    assert not silent


@pytest.mark.parametrize("name", api_reference.PUBLIC)
def test_every_parameter_and_field_of_a_public_name_is_described(name: str) -> None:
    module = importlib.import_module(name)
    missing = {public: unsaid for public in module.__all__ if (unsaid := api_reference.undescribed(getattr(module, public)))}
    assert not missing


def test_a_parameter_that_is_not_described_is_noticed() -> None:
    def explain(model: str, seed: int) -> None:
        """Explain ``model``."""

    assert api_reference.undescribed(explain) == ["seed"]


def test_what_people_are_told_to_import_is_public() -> None:
    texts = [(ROOT / "README.md").read_text("utf-8"), *(path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md"))]
    lines = re.findall(r"^ *from (explainers[\w.]*) import ([\w, ]+)$", "\n".join(texts), re.MULTILINE)
    assert lines
    assert {module for module, _ in lines} <= {*api_reference.PUBLIC, *docs.EXTENSION_MODULES}
    for module, names in lines:
        assert set(names.split(", ")) <= set(importlib.import_module(module).__all__), f"from {module} import {names}"


def test_snippets_import_explainers_and_do_so_before_what_it_makes_importable() -> None:
    """timm and transformers fail beside a torchvision that was built for another torch, unless ``explainers`` is imported first."""
    for page, text in DOCUMENTS.items():
        is_imported = False
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            imports = re.findall(r"^(?:import|from) (\w+)", block, re.MULTILINE)
            needing = [imports.index(name) for name in ("timm", "transformers", "torchvision") if name in imports]
            if "explainers" in imports or needing:
                assert "explainers" in imports[: min(needing, default=len(imports))], page
            is_imported |= "explainers" in imports
            assert is_imported or not re.search(r"\bexplainers\.\w", block), page


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_can_be_typed(command: str) -> None:
    build_parser().parse_args(shlex.split(command.partition(" | ")[0], comments=True)[1:])


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"(?:^|`)make ([\w-]+)", README + (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE))
    assert {"serve", "test", "install"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_files_that_are_linked_exist() -> None:
    for page, text in (DOCUMENTS | {"CONTRIBUTING.md": (ROOT / "CONTRIBUTING.md").read_text("utf-8")}).items():
        links = re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\"#]+)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        assert not [link for link in links if "://" not in link and not (ROOT / page).parent.joinpath(link).exists()], page


#: What a page shows how to add, and where an operator puts certificates.
ADDED_BY_PEOPLE = {"static/tools/meanscore.js", "static/styles/tools/meanscore.css", "vitrine_example.py", "deploy/tls/"}


@pytest.mark.parametrize("page", [*DOCUMENTS, "CONTRIBUTING.md"])
def test_paths_of_the_tree_that_are_named_exist(page: str) -> None:
    """Every `path/of/the/tree`, and every script and module that is named alone."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    folders = ("explainers", "server", "static", "templates", "tests", "tools", "recipes", "experiments", "benchmarks", "docs", "deploy")
    files = {file.name for folder in folders for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".js", ".css")}
    named = set(re.findall(r"`([\w./-]+)`", text)) - ADDED_BY_PEOPLE
    paths = [path for path in named if re.match(rf"({'|'.join(folders)})/[\w./-]+$", path)]
    alone = [name for name in named if re.fullmatch(r"[\w-]+\.(py|js|css)", name)]
    assert not [path for path in paths if not (ROOT / path).exists()]
    assert not [name for name in alone if name not in files]


def test_the_readme_is_short_and_leads_to_every_document() -> None:
    """What is generated or long stands in ``docs``, one click away, or two."""
    assert len(README.splitlines()) <= 130
    assert "<!-- table:" not in README
    reached = set(re.findall(r"\]\(docs/([\w./]+\.md)", README))
    beyond = {link for page in reached for link in re.findall(r"\]\(([\w]+\.md)", (ROOT / "docs" / page).read_text("utf-8"))}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= reached | beyond


def squeezed(text: str) -> str:
    """Letters alone, so that ``token_removal``, ``TokenRemoval`` and "token removal" are one word."""
    return re.sub(r"[^a-z]", "", text.lower())


GLOSSARY = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in DOCUMENTS["docs/glossary.md"].splitlines()
    if line.startswith("| ") and not line.startswith("| term |")
]


def sources(*kinds: str) -> list[Path]:
    folders = ("explainers", "server", "static", "templates")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in kinds]


def test_each_term_of_the_glossary_is_a_word_of_the_code_or_of_the_pages() -> None:
    """That is all: the glossary helps, and forbids nothing."""
    words = squeezed(" ".join(path.read_text("utf-8") for path in sources(".py", ".js", ".html")))
    terms = [row[0] for row in GLOSSARY]
    assert len(set(terms)) == len(terms) > 60
    assert {term for term in terms if squeezed(term) not in words and term != "x¹"} == set()


@cache
def names_of_the_code() -> set[str]:
    """What Python and the scripts call by a name: identifiers, and texts that are one word, such as keys; not the words of sentences."""
    names: set[str] = set()
    for path in sources(".py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            named = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "value"))
            names |= {name for name in named if isinstance(name, str) and name.isidentifier()}
    for path in sources(".js"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text("utf-8"), flags=re.DOTALL)
        names |= set(re.findall(r"[A-Za-z_]\w+", re.sub(r"\"[^\"\n]* [^\"\n]*\"|`[^`]*`", "", text)))
    return names


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The commands and flags of the command line."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"vitrine {name}"
                for option in options_of(command):
                    yield from (option, f"vitrine {name} {option}")


@cache
def routes() -> list[str]:
    """The paths of the OpenAPI document."""
    return list(script_types.openapi()["paths"])


@pytest.mark.parametrize("place", sorted({place for row in GLOSSARY for place in re.findall(r"`([^`]+)`", row[2])}))
def test_what_the_glossary_points_to_exists(place: str) -> None:
    """Paths, flags, commands and routes; of Python its names, of addresses and answers their keys."""
    if re.match(r"(experiments|explainers|server|static)/|[\w-]+\.json$", place):
        assert (ROOT / place).exists() or list((ROOT / "explainers" / "embedded").rglob(place))
    elif place.startswith(("--", "vitrine ")):
        assert place in set(options_of(build_parser()))
    elif route := re.fullmatch(r"(?:[A-Z]+ )?(/[\w/{}-]+)", place):
        assert any(path.endswith(route[1]) for path in routes())
    elif public := re.fullmatch(r"@?(explainers(?:\.\w+)*)\.(\w+)", place):
        assert hasattr(importlib.import_module(public[1]), public[2])
    else:
        names = re.findall(r"[A-Za-z_]\w*", re.sub(r"[\"'].*?[\"']", "", place))
        assert names
        assert set(names) <= names_of_the_code()


def test_the_words_that_pages_explain_are_in_the_glossary() -> None:
    explained = re.findall(r'^  "?([\w ]+)"?:', (ROOT / "static" / "help" / "glossary.js").read_text("utf-8"), re.MULTILINE)
    assert len(explained) > 3
    assert not [word for word in explained if word.lower() not in DOCUMENTS["docs/glossary.md"].lower()]


@pytest.mark.parametrize("name", embedded_names())
def test_a_model_card_is_of_the_weights_beside_it(name: str) -> None:
    folder = embedded_path(name)
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert f"| SHA-256 of `model.safetensors` | `{digest}` |" in (folder / "README.md").read_text("utf-8")


def test_figures_are_those_of_the_model_cards() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| .*? \| ([\d., %]+) \|$", README, re.MULTILINE)
    assert [name for name, _ in rows] == embedded_names()
    for name, figures in rows:
        card = (embedded_path(name) / "README.md").read_text("utf-8")
        assert all(figure in card.replace(" %", "%") for figure in re.findall(r"[\d.]+%", figures.replace(" %", "%")))


def test_a_user_s_type_checker_accepts_the_examples_of_the_readme(tmp_path: Path) -> None:
    """With ``mypy --strict``, as one reads the package's ``py.typed``; a wrong use is told."""
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", DOCUMENTS["README.md"], re.DOTALL)):
        (tmp_path / f"example_{number}.py").write_text(example, "utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, "utf-8")
    passed_over = "[mypy-transformers.*,timm.*,torch._dynamo.*,torch._inductor.*,torch.distributed.*,torch.fx.*,torch.onnx.*]"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = True\n{passed_over}\nfollow_imports = skip\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache" / "of_a_user"), "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    told = re.findall(r"^(\w+)\.py:(\d+): error", done.stdout, re.MULTILINE)
    assert set(told) == {("wrong", "4"), ("wrong", "5")}, done.stdout


WRONG = """\
import explainers

one, several = explainers.explain("scenes-vit", "a.png"), explainers.explain("scenes-vit", ["a.png", "b.png"], methods="rollout", seed=1)
several.maps
explainers.explain("scenes-vit", "a.png", sede=1)
one.maps
"""
