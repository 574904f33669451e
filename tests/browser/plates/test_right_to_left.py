"""Texts that run from the right, and characters that are several pieces."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.support.visit import Visit

PLACES = "(node) => [...node.querySelectorAll('[data-w]')].map((word) => word.getBoundingClientRect().left)"


def test_a_text_in_arabic_runs_from_the_right_and_so_do_the_keys(desk: Visit) -> None:
    page = desk.open("/text?methods=random")
    page.locator("#text").fill("فيلم جميل جدا")
    page.locator("#text").press("Control+Enter")
    reading = page.locator(".plate .reading").first
    expect(reading).to_contain_text("فيلم")
    left = reading.evaluate(PLACES)
    assert left == sorted(left, reverse=True)
    assert len(left) > 1
    focused = "document.querySelector('.plate .reading .on').dataset.w"
    for _ in left:
        reading.press("ArrowRight")  # to the first word
    assert page.evaluate(focused) == "0"
    reading.press("ArrowLeft")
    assert page.evaluate(focused) == "1"


def test_a_character_of_several_pieces_is_shown_once(desk: Visit) -> None:
    desk.open("/text?methods=random")
    input_ = {
        "text": "中a",
        "tokens": [{"text": "中", "start": 0, "end": 1, "special": False}] * 3 + [{"text": "a", "start": 1, "end": 2, "special": False}],
    }
    units = desk.page.evaluate("async (given) => (await script('plates/words.js')).unitsOf(given, 'pieces')", input_)
    assert [(unit["start"], unit["end"], unit["tokens"]) for unit in units] == [(0, 1, [0, 1, 2]), (1, 2, [3])]
