"""What another package adds, on the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Visit, methods, visit
from tests.browser.serving import served
from tests.extending import install_example


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("extended")
    with served(folder / "home", PYTHONPATH=str(install_example(folder))) as address:
        yield address


@pytest.fixture
def desk(browsers: Callable[[str], Browser], extended: str) -> Iterator[Visit]:
    yield from visit(browsers("DejaVu"), extended)


def test_a_rule_and_a_method_of_another_package_are_listed(desk: Visit) -> None:
    desk.open("/methods", maps=False)
    row = desk.page.locator('#methods tr[data-spec="gradient_norm:frozen"]')
    expect(row).to_contain_text("Doe, 2026")
    rule = desk.page.locator("#rules tbody tr", has=desk.page.get_by_role("rowheader", name="frozen", exact=True))
    expect(rule).to_contain_text("gate")


def test_they_are_chosen_and_shown_on_the_image_page(desk: Visit) -> None:
    desk.open("/image?model=scenes-vit&methods=gradient_norm:frozen&methods=fullgrad_plus:frozen")
    expect(desk.plate("gradient_norm:frozen")).to_contain_text("Gradient norm")
    methods(desk.page)
    squares = desk.page.locator(".picker .readout[data-readout=fullgrad_plus]")
    expect(squares.get_by_role("checkbox", name="frozen", exact=True)).to_be_checked()
