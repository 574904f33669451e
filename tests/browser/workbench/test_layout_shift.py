"""On a phone, where everything lies in one column, nothing that is seen moves on its own: whatever arrives finds its room kept."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.support.typefaces import LIBERATION
from tests.browser.support.visit import Visit

TWO_FRAMES = "() => new Promise((run) => requestAnimationFrame(() => requestAnimationFrame(run)))"
MOST = 0.01  # cumulative layout shift; a page is called good below 0.1
# where a page does not say which model: a small one, with as many patches
MODELS = {"image": "&model=scenes-vit"}
USUAL = "methods=random&methods=fullgrad_plus:libra"
DRAWERS = {"image": ("mixer", "layers"), "prompt": (), "text": ("wordtable", "disagree", "probe")}
PATHS = [pytest.param(path, marks=[] if path == "prompt" else pytest.mark.trained) for path in DRAWERS]


def check(visitor: Visit, before: float = 0) -> float:
    visitor.page.evaluate(TWO_FRAMES)
    moved, what = visitor.shift()
    assert moved - before < MOST, what
    return moved


def came(visitor: Visit, before: int) -> float:
    """How much moved until the drawer that was opened is there, of which ``before`` shifts are older: at most those below it, once.

    A browser counts that only where it comes more than half a second after the press: on a busy machine.
    """
    visitor.page.evaluate(TWO_FRAMES)
    moved, shifts = visitor.shift()
    assert all(set(what) == {"drawer"} for _, what in shifts[before:]), shifts
    assert len(shifts) - before <= 1, shifts
    return moved


def opened(phone: Visit, path: str) -> float:
    """A page as it loads for the first time, with the next sample explained; how much moved."""
    phone.open(f"/{path}?{USUAL}{MODELS.get(path, '')}", folded=True)
    moved = check(phone)
    before = phone.id
    phone.page.locator("#samples button").nth(2).click()
    phone.next_maps(before)
    return check(phone, moved)


@pytest.mark.parametrize("phone", [LIBERATION], indirect=True)
@pytest.mark.parametrize("path", PATHS)
def test_a_page_finds_its_room_whatever_stands_in_for_its_fonts(phone: Visit, path: str) -> None:
    """Until the fonts of a page arrive, texts have one of the system's; from then on it makes no difference."""
    opened(phone, path)


@pytest.mark.parametrize("path", PATHS)
def test_what_arrives_finds_its_room(phone: Visit, path: str) -> None:
    """While a page loads, another sample is explained, drawers are opened one after the other, and the deletion test is begun.

    The Prompt page has tiny models: the deletion test of each prompt would take long.
    """
    moved, page = opened(phone, path), phone.page
    for name in DRAWERS[path]:
        drawer = page.locator(f"#drawer-{name}")
        _, shifts = phone.shift()
        drawer.locator("summary").first.click()
        expect(drawer.locator(".body > *").first).to_be_visible(timeout=60_000)
        moved = came(phone, len(shifts))
        phone.settled()
        moved = check(phone, moved)
        drawer.locator("summary").first.click()
    page.locator("#removed").fill("20")
    expect(page.locator(".said")).to_contain_text("shares measured", timeout=60_000)
    check(phone, moved)
