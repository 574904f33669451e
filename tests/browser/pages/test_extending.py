"""What another package adds, on the pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.tiny_models import tiny_server
from tests.browser.support.visit import Visit, methods, visit
from tests.support.example_package import installed_example


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server where the example of docs/extending.md is installed, which this process forgets afterwards."""
    folder = tmp_path_factory.mktemp("extended")
    with installed_example(folder), tiny_server(folder) as address:
        yield address


@pytest.fixture
def desk(browser: Browser, extended: str) -> Iterator[Visit]:
    yield from visit(browser, extended)


def test_a_rule_and_a_method_of_another_package_are_listed(desk: Visit) -> None:
    desk.open("/methods", maps=False)
    card = desk.page.locator('.method-card[data-method="gradient_norm"]')
    expect(card).to_contain_text("Doe, 2026")
    expect(card).to_contain_text("no map is stored")
    desk.page.get_by_text("What each rule does").click()
    rule = desk.page.locator("#rules tbody tr", has=desk.page.get_by_role("rowheader", name="frozen", exact=True))
    expect(rule).to_contain_text("gate")


def test_they_are_chosen_and_shown_on_the_image_page(desk: Visit) -> None:
    desk.open("/image?model=scenes-vit&methods=gradient_norm:frozen&methods=fullgrad_plus:frozen")
    expect(desk.plate("gradient_norm:frozen")).to_contain_text("Gradient norm")
    methods(desk.page)
    squares = desk.page.locator(".picker .method-row[data-readout=fullgrad_plus]")
    expect(squares.get_by_role("checkbox", name="frozen", exact=True)).to_be_checked()
