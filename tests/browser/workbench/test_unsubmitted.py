"""What is written and not asked: the answer before it is marked as old, until it is asked or written back; and dead links."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.support.questions import explained
from tests.browser.support.visit import Visit

TEXT = "A warm and wonderful film."


def marked(page: Page, is_old: bool) -> None:
    expect(page.locator("main.unsubmitted")).to_have_count(int(is_old))
    note = page.locator("p.unsubmitted")
    expect(note).to_be_visible() if is_old else expect(note).to_be_hidden()
    opacity = page.locator("#overview").evaluate("(node) => getComputedStyle(node).opacity")
    assert (float(opacity) < 1) == is_old


def test_a_text_that_is_edited_marks_the_answer_as_old(desk: Visit) -> None:
    page = desk.open(f"/text?id={explained(desk, 'text', text=TEXT)}")
    marked(page, False)
    page.locator("#text").press_sequentially("x")
    marked(page, True)
    expect(page.locator("p.unsubmitted")).to_contain_text("are of the input before your change")
    page.locator("#text").fill(TEXT)
    marked(page, False)
    before = desk.id
    page.locator("#text").fill("bad film")
    marked(page, True)
    page.get_by_role("button", name="Explain this review").click()
    desk.next_maps(before)
    marked(page, False)


def test_a_text_that_is_on_its_way_is_submitted(desk: Visit) -> None:
    """While it waits nobody is told to ask for it."""
    page = desk.open(f"/text?id={explained(desk, 'text', text=TEXT)}")
    page.route("**/api/explanations", lambda route: None)
    page.locator("#text").fill("bad film")
    expect(page.locator("p.unsubmitted")).to_be_visible()
    page.get_by_role("button", name="Explain this review").click()
    expect(page.locator("p.unsubmitted")).to_be_hidden()
    page.locator("#text").fill("bad")
    expect(page.locator("p.unsubmitted")).to_be_visible()


def test_prompts_that_are_edited_mark_the_answer_as_old(desk: Visit) -> None:
    page = desk.open(f"/prompt?id={explained(desk, 'prompt', prompt=['a film', 'a good film'])}")
    marked(page, False)
    field = page.locator("#prompts input").first
    field.fill("a bad film")
    marked(page, True)
    field.fill("a film")
    marked(page, False)
    page.get_by_role("button", name="Remove this prompt").first.click()
    marked(page, True)
    before = desk.id
    page.get_by_role("button", name="Look for these").click()
    desk.next_maps(before)
    marked(page, False)


@pytest.mark.parametrize("path", ["/image", "/prompt", "/text"])
def test_a_dead_link_takes_back_that_the_model_is_asked(desk: Visit, path: str) -> None:
    """At once, also while the model of the page is not there yet."""
    held: list[Route] = []
    desk.page.route("**/api/methods?*", lambda route: held.append(route))
    page = desk.open(f"{path}?id=none", maps=False)
    expect(page.locator("#results-problem")).to_contain_text("This explanation does not exist here")
    expect(page.locator("#overview")).to_have_text("")
    assert held
    desk.refused(404)
    for route in held:
        route.continue_()
    expect(page.locator("#status")).to_have_text("nothing to show")
