"""The site of the documentation is built without a warning, and says of every public name what it is."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tools import api_reference
from tools.docs_site import site_markdown

PAGES = {"index.md", "models.md", "results/README.md", "contributing.md", "picture.webp"}


@pytest.mark.parametrize(
    ("place", "written", "expected"),
    [
        ("index.md", "[models](docs/models.md#own), [ours](CONTRIBUTING.md)", "[models](models.md#own), [ours](contributing.md)"),
        ("models.md", "[ours](../CONTRIBUTING.md#tests), [front](../README.md)", "[ours](contributing.md#tests), [front](index.md)"),
        ("results/README.md", "[models](../models.md)", "[models](../models.md)"),
        ("index.md", "[licence](LICENSE), [`explainers`](explainers)", "licence (`LICENSE`), `explainers`"),
        ("index.md", "[elsewhere](https://example.org/a.md), [below](#start)", "[elsewhere](https://example.org/a.md), [below](#start)"),
        ("index.md", '<img src="docs/picture.webp">', '<img src="picture.webp">'),
        ("index.md", "```python\nx[0](docs/models.md)\n```", "```python\nx[0](docs/models.md)\n```"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(place: str, written: str, expected: str) -> None:
    assert site_markdown(written, place, PAGES, None) == expected


def test_what_is_no_page_is_a_link_where_the_repository_has_an_address() -> None:
    assert (
        site_markdown("[licence](LICENSE)", "index.md", PAGES, "https://example.org/v/")
        == "[licence](https://example.org/v/blob/main/LICENSE)"
    )


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_has_every_public_name(tmp_path: Path) -> None:
    """It is built strictly: a link to a page or a heading that is not there is an error."""
    # under --quiet MkDocs counts no warning
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stdout + built.stderr
    for name in api_reference.PUBLIC:
        page = (tmp_path / "library" / f"{name}.html").read_text("utf-8")
        headings = re.findall(r"<h2 id=\"([^\"]+)\"", page)
        assert len(headings) == len(set(importlib.import_module(name).__all__)), name
    index = (tmp_path / "llms.txt").read_text("utf-8")
    linked = re.findall(r"\]\(([^)]+)\)", index)
    assert len(linked) > 30
    assert all((tmp_path / link).is_file() for link in linked)
    assert "[](" not in index  # each has a title
