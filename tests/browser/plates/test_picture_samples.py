"""Samples of the Text page: those with a picture where a model reads one with the text, else those without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.serving import played
from tests.browser.support.task_model import TaskModel
from tests.browser.support.visit import Visit, visit
from tests.support.task_models import picture_writer

METHODS = "methods=input_x_gradient:libra&methods=random"


@pytest.fixture
def desk(browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    """A server whose model of texts writes about pictures, with the samples that ship."""
    with played(tmp_path / "server", TaskModel(picture_writer), None, device="cpu") as address:
        yield from visit(browser, address, 390)


def test_a_sample_with_a_picture_is_asked_about(desk: Visit) -> None:
    page = desk.open(f"/text?model=reviews-bert&{METHODS}", maps=False)
    buttons = page.get_by_role("toolbar", name="Samples").get_by_role("button")
    expect(buttons).to_have_count(4)
    expect(buttons.locator("img")).to_have_count(4)
    buttons.and_(page.get_by_title("The place of the tiger")).click()
    desk.next_maps(None)
    shown = desk.document()["input"]
    assert shown["text"] == "Where is the tiger?"
    assert shown["picture"]["width"] == 336
    expect(page.get_by_placeholder("What is in this picture?")).to_have_value("Where is the tiger?")
    expect(buttons.and_(page.get_by_title("The place of the tiger"))).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#remark")).to_contain_text("Do the maps find the tiger")
