"""The static files: where a page finds them, what browsers keep of them, and that an edit shows at the next page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.conftest import ROOT
from tests.server.conftest import Site, Sites
from vitrine_server.pages.routes import PAGES
from vitrine_server.pages.static import FOREVER, StaticFolder

NAMED = re.compile(r'(?:src|href)="(/static/[^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Sites(Path(tmp_path_factory.mktemp("home")))(loaded=False, embed=["*"]) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of pages."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "dom.js").write_text("export const one = 1;\n")
    (tmp_path / "icon.svg").write_text("<svg/>\n")
    return tmp_path


@pytest.mark.parametrize("path", [*PAGES, "/methods/rollout", "/nowhere"])
def test_browsers_keep_all_that_a_page_names(site: Site, path: str) -> None:
    files = NAMED.findall(site.client.get(path, headers={"Accept": "text/html"}).text)
    assert len(files) > 5
    for file in files:
        answer = site.client.get(file)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, FOREVER), file
        _, _, _, rest = file.split("/", 3)
        plain = site.client.get(f"/static/{rest}")
        assert plain.content == answer.content
        assert plain.headers["cache-control"] == (FOREVER if file.endswith(".woff2") else "no-cache")


def test_texts_are_sent_packed_to_who_can_read_that(site: Site) -> None:
    files = NAMED.findall(site.client.get("/image", headers={"Accept": "text/html"}).text)
    for file in (next(file for file in files if file.endswith(end)) for end in ("scheme.js", "?page=image", ".css", ".woff2")):
        packed = site.client.get(file)
        plain = site.client.get(file, headers={"Accept-Encoding": "identity"})
        assert packed.content == plain.content  # the client has unpacked it
        assert "content-encoding" not in plain.headers
        is_text = not file.endswith(".woff2")
        assert (packed.headers.get("content-encoding"), packed.headers.get("vary")) == (
            ("gzip", "Accept-Encoding") if is_text else (None, None)
        )
        assert not is_text or int(packed.headers["content-length"]) < len(plain.content) * 0.6


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_one_script_which_imports_nothing_as_it_loads(site: Site, path: str) -> None:
    """So a browser asks once for all that the page needs to begin. What it imports later is there, for this page."""
    text = site.client.get(path, headers={"Accept": "text/html"}).text
    (script,) = re.findall(r'<script type="module" src="([^"]+)"', text)
    joined = site.client.get(script)
    assert (joined.headers["content-type"], joined.headers["cache-control"]) == ("text/javascript; charset=utf-8", FOREVER)
    assert not re.findall(r"^import\b", joined.text, re.MULTILINE)
    later = [urljoin(script, name) for name in re.findall(r'\bimport\("([^"]+)"\)', joined.text)]
    assert later
    for name in later:
        answer = site.client.get(name)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, FOREVER), name
        assert urlsplit(name).query == urlsplit(script).query


def test_only_scripts_are_there_for_a_page_and_only_for_pages(site: Site) -> None:
    for wrong in ("core/dom.js?page=nowhere", "core/dom.js?page=../core/dom", "core/no.js?page=image", "styles/base.css?page=image"):
        assert site.client.get(f"/static/{wrong}").status_code == 404
    assert site.client.get("/static/core/dom.js?page=image").headers["cache-control"] == "no-cache"


def test_all_files_of_a_page_come_from_one_path() -> None:
    """Nothing in a template, a script or a style sheet names a file of the pages but by where it is itself."""
    files = [*(ROOT / "templates").glob("*.html"), *(ROOT / "static").rglob("*.js"), *(ROOT / "static").rglob("*.css")]
    assert len(files) > 100
    address = re.compile(r"(?<!\\)/static")  # not in a pattern, by which dom.js finds what a proxy puts before it
    assert not [file.name for file in files if address.search(file.read_text("utf-8"))]


def test_an_edit_shows_at_the_next_page(folder: Path) -> None:
    static = StaticFolder(folder)
    app = FastAPI()
    app.mount("/static", static)
    client = TestClient(app)
    before = static.path
    assert static.path == before
    for ask in (client.get, client.head):
        assert ask(f"{before}/core/dom.js").headers["cache-control"] == FOREVER

    (folder / "core" / "dom.js").write_text("export const one = 12;\n")
    after = static.path
    assert after != before
    for path, kept in ((after, FOREVER), (before, "no-cache"), ("/static/0123456789abcdef", "no-cache"), ("/static", "no-cache")):
        answer = client.get(f"{path}/core/dom.js")
        assert answer.text == "export const one = 12;\n"
        assert answer.headers["cache-control"] == kept, path
    for wrong in ("/static/0123456789abcde/core/dom.js", f"{after}/{after.split('/')[-1]}/core/dom.js", f"{after}/core/no.js", after):
        assert client.get(wrong).status_code == 404, wrong


def test_the_digest_is_that_of_names_and_contents(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """So two servers of one version, behind one address, name the same path."""
    static = StaticFolder(folder)
    digest = static.digest()
    copy = Path(shutil.copytree(folder, tmp_path_factory.mktemp("copy") / "static", copy_function=shutil.copyfile))
    assert StaticFolder(copy).digest() == digest
    (folder / "core" / "new.js").symlink_to(folder / "nowhere")  # what an editor leaves beside an open file
    assert static.digest() == digest
    (folder / "icon.svg").rename(folder / "sign.svg")
    assert static.digest() != digest
    (folder / "sign.svg").rename(folder / "icon.svg")
    assert static.digest() == digest
