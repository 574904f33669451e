"""A review longer than the model reads, on the Text page: explained whole, with a mark where each window lies."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.number_format import percent
from tests.browser.support.visit import Visit, view

METHODS = ["input_x_gradient", "rollout"]
# Of each mark of a plate: its kind, its window, and the word beside it.
MARKS = """
(plate) => [...plate.querySelectorAll(".reading .edge")].map((mark) => {
  const isStart = mark.classList.contains("begins");
  const word = (isStart ? mark.nextElementSibling : mark.previousElementSibling).closest("[data-w]");
  return [isStart, Number(mark.dataset.window), word && Number(word.dataset.w)];
})
"""


def long_text(visit: Visit) -> str:
    """A review somewhat longer than the model reads."""
    limit: int = visit.get("/api/models/reviews-bert")["details"]["max_tokens"]
    return " ".join(f"A good film {number}." for number in range(limit // 4))


def explain_long(visit: Visit) -> None:
    """Open the page at two quick methods, paste a long review, and explain it."""
    document = visit.explained(model="reviews-bert", text="a fine film", methods=METHODS)
    visit.open(f"/text?id={document['id']}")
    before = visit.id
    visit.page.get_by_label("The review to explain").fill(long_text(visit))
    visit.page.get_by_role("button", name="Explain this review").click()
    visit.next_maps(before)


@pytest.mark.parametrize("width", ["desk", "phone"])  # with a desktop and with a phone
def test_a_long_review_is_read_whole_in_windows_that_the_page_shows_and_a_short_one_has_none(
    width: str, request: pytest.FixtureRequest
) -> None:
    visit: Visit = request.getfixturevalue(width)
    explain_long(visit)
    document, page = visit.document(), visit.page
    windows, words = document["windows"], document["input"]["words"]
    assert len(windows) == 2
    assert document["input"]["text"] == long_text(visit)
    assert (windows[0]["start"], windows[-1]["end"]) == (0, len(document["input"]["text"]))
    assert windows[1]["start"] < windows[0]["end"]
    expect(page.locator("#notes")).to_contain_text("it was read in 2 overlapping windows")
    starts = [next(i for i, word in enumerate(words) if word["end"] > window["start"]) for window in windows]
    lasts = [max(i for i, word in enumerate(words) if word["start"] < window["end"]) for window in windows]
    said = [
        f"Words {first + 1} to {last + 1}: {window['label']} {percent(window['probability'])}"
        for first, last, window in zip(starts, lasts, windows, strict=True)
    ]
    expect(page.get_by_role("list", name="The windows in which the model read the text").locator("li")).to_have_text(said)
    marks = {(True, 1, starts[0]), (True, 2, starts[1]), (False, 1, lasts[0]), (False, 2, lasts[1])}
    for spec in METHODS:
        plate = visit.plate(spec)
        assert {tuple(mark) for mark in plate.evaluate(MARKS)} == marks
        assert plate.locator(".reading").evaluate("(node) => node.textContent") == document["input"]["text"]
        assert plate.locator(".unread").count() == 0
    no_violation(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    with view(page):
        page.get_by_role("radio", name="sentences").check()
    expect(page.locator(".plate .edge.begins")).to_have_count(2 * len(METHODS))
    before = visit.id
    page.get_by_label("The review to explain").fill("A short and good film.")
    page.get_by_role("button", name="Explain this review").click()
    visit.next_maps(before)
    expect(page.locator("#windows")).to_be_hidden()
    expect(page.locator(".edge")).to_have_count(0)


@pytest.mark.parametrize("width", ["desk", "phone"])
def test_a_long_review_hangs_once_with_a_switch_between_methods(width: str, request: pytest.FixtureRequest) -> None:
    visit: Visit = request.getfixturevalue(width)
    text = " ".join(f"A good film {number}." for number in range(120))
    document = visit.explained(model="reviews-bert", text=text, methods=[*METHODS, "generic_attention"])
    page = visit.open(f"/text?id={document['id']}")
    expect(page.locator(".plate:visible")).to_have_count(1)
    switch = page.get_by_role("group", name="Coloured by")
    expect(switch.get_by_role("button")).to_have_count(3)
    expect(switch.locator("[aria-pressed=true]")).to_have_count(1)
    shown = page.locator(".plate:visible")
    first = shown.get_attribute("data-spec")
    other = next(spec for spec in METHODS if spec != first)
    shown.locator(".reading").evaluate("(node) => (node.scrollTop = 80)")
    at = shown.locator(".reading").evaluate("(node) => node.scrollTop")
    assert at > 0
    switch.locator(f"[data-spec='{other}']").click()
    expect(shown).to_have_attribute("data-spec", other)
    assert shown.locator(".reading").evaluate("(node) => node.scrollTop") == at  # the same lines
    assert visit.query["coloured.method"] == [other]
    assert page.evaluate("() => document.documentElement.scrollHeight") < 4 * page.viewport_size["height"]  # type: ignore[index]
    tools = page.locator("#drawers").bounding_box()
    assert tools is not None
    page.reload()
    visit.maps()
    expect(page.locator(".plate:visible")).to_have_attribute("data-spec", other)
    page.locator(".plate:visible .reading").focus()
    page.keyboard.press("Home")
    expect(page.locator(".plate:visible .reading .on")).to_be_in_viewport()
    no_violation(page)
    before = visit.id
    page.get_by_label("The review to explain").fill("A short and good film.")
    page.get_by_role("button", name="Explain this review").click()
    visit.next_maps(before)
    expect(page.locator(".plate:visible")).to_have_count(3)
    expect(switch).to_be_hidden()
