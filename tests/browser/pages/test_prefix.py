"""The pages behind a proxy that shows the server below a path."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Request, expect

from tests.browser.support.tiny_models import tiny_server
from tests.browser.support.visit import FEW, Visit
from vitrine_server.pages.routes import PAGES

PREFIX = "/class/vitrine"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tiny_server(tmp_path_factory.mktemp("prefix"), path_prefix=PREFIX, embed="*") as server:
        yield server + PREFIX


def test_nothing_is_asked_for_above_the_prefix(desk: Visit, tmp_path: Path) -> None:
    """Every page, scripts that are loaded later, events, pictures, an export, and links from page to page."""
    asked: list[str] = []

    def note(request: Request) -> None:
        place = urlsplit(request.url)
        if place.scheme.startswith("http") and not place.path.startswith(f"{PREFIX}/"):
            asked.append(request.url)

    page = desk.page
    page.on("request", note)
    for path in PAGES:
        desk.open(path, maps=False)
        desk.settled()
        links = page.evaluate("() => [...document.links].filter((link) => link.origin === origin).map((link) => link.pathname)")
        assert [link for link in links if not link.startswith(f"{PREFIX}/")] == [], path
    desk.open(f"/image?model=scenes-vit&{FEW}")
    explanation_id = desk.id
    page.locator("#deletion-bar input[type=range]").first.press("ArrowRight")
    desk.settled()
    page.locator("#export .menu summary").click()
    with page.expect_download() as download:
        page.locator("#export").get_by_text("Bundle").click()
    download.value.save_as(tmp_path / "bundle.zip")
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        assert json.loads(bundle.read("explanation.json")) == desk.document()
    page.locator("header nav").get_by_role("link", name="Prompt").click()
    desk.maps()
    page.locator("header nav").get_by_role("link", name="Image").click()
    desk.maps()
    assert desk.id == explanation_id  # the tab knows where it was
    page.locator(".plate h2 a").first.click()
    expect(page.locator("h1")).to_be_visible()
    desk.settled()
    desk.open(f"/embed/{explanation_id}", maps=False)
    expect(page.locator(".plate [data-drawn=true]")).to_have_count(3)
    page.context.on("page", lambda new: new.on("request", note))
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Open it in Vitrine").click()
    expect(opened.value.locator(".plate [data-drawn=true]").first).to_be_visible()
    assert not asked
