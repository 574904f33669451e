"""A model whose optional package is missing: the pages say what to install, and the others work on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from explainers.errors import NotInstalledError
from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import HTTP, played
from tests.browser.support.visit import Visit
from tests.server.support.gated_models import GatedModels

NAME = "timm/other"
INSTALL = "timm/other needs a package, which is not installed. In the folder of Vitrine: pip install -e '.[other]'"


class WithoutPackage(GatedModels):
    """Models one of which cannot be loaded for want of a package."""

    def load(self, name: Any, device: str | None, /, **ways: Any) -> Any:
        if name == NAME:
            raise NotInstalledError(INSTALL)
        return super().load(name, device, **ways)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with played(tmp_path_factory.mktemp("home"), WithoutPackage()) as one:
        HTTP.post(f"{one}/api/models", json={"name": NAME}).raise_for_status()
        with HTTP.stream("GET", f"{one}/api/models/events", params={"name": NAME}) as events:
            assert "event: failed" in events.iter_lines()
        yield one


def test_the_models_page_says_what_to_install(desk: Visit) -> None:
    """In a quiet sentence: nothing has gone wrong. And it can be tried again once the package is there."""
    page = desk.open("/models", maps=False)
    card = page.locator(f'article[data-name="{NAME}"]')
    expect(card).to_have_attribute("data-state", "not-installed")
    expect(card.locator(".kind")).to_contain_text("not installed")
    expect(card.locator(".quiet")).to_contain_text(INSTALL)
    expect(card.locator(".problem")).to_have_count(0)
    expect(card.get_by_role("button", name="Try again")).to_be_visible()
    expect(card.get_by_role("link", name="Open")).to_have_count(0)
    expect(page.locator('article[data-name="scenes-vit"]')).to_have_attribute("data-state", "loaded")
    no_violation(page)


def test_trying_again_without_the_package_says_so_again(desk: Visit) -> None:
    page = desk.open("/models", maps=False)
    card = page.locator(f'article[data-name="{NAME}"]')
    card.get_by_role("button", name="Try again").click()
    expect(card.locator(".loading")).to_contain_text(INSTALL)
    expect(card.locator(".problem")).to_have_count(0)
