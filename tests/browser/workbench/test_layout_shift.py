"""On a phone, where everything lies in one column, nothing that is seen moves on its own: whatever arrives finds its room kept."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.typefaces import TYPEFACES

MOST = 0.01  # cumulative layout shift; a page is called good below 0.1
DRAWERS = {"image": ("mixer", "layers"), "prompt": (), "text": ("wordtable", "disagree", "probe")}


@pytest.fixture
def fresh() -> bool:
    return True


def check(visitor: Visit, before: float = 0) -> float:
    visitor.page.evaluate("() => new Promise((run) => requestAnimationFrame(() => requestAnimationFrame(run)))")
    moved, what = visitor.shift()
    assert moved - before < MOST, what
    return moved


@pytest.mark.parametrize("phone", TYPEFACES, indirect=True)
@pytest.mark.parametrize("path", DRAWERS)
def test_what_arrives_finds_its_room(phone: Visit, path: str) -> None:
    """While a page loads, another sample is explained, drawers are opened one after the other, and the deletion test is begun."""
    page = phone.open(f"/{path}?methods=random&methods=fullgrad_plus:libra", folded=True)
    moved = check(phone)
    before = phone.id
    page.locator("#samples button").nth(2).click()
    phone.next_maps(before)
    moved = check(phone, moved)
    for name in DRAWERS[path]:
        drawer = page.locator(f"#drawer-{name}")
        drawer.locator("summary").first.click()
        expect(drawer.locator(".body > *").first).to_be_visible(timeout=60_000)
        expect(drawer.locator("[aria-busy=true]")).to_have_count(0, timeout=60_000)
        page.wait_for_load_state("networkidle")
        moved = check(phone, moved)
        drawer.locator("summary").first.click()
    page.locator("#gone").fill("20")
    expect(page.locator(".said")).to_contain_text("asked at", timeout=60_000)
    check(phone, moved)


def height_in_sight(phone: Visit) -> float:
    """How much of the first map is seen above the dock."""
    first, dock = (phone.page.locator(where).first.bounding_box() for where in ("#plates :is(.face, .reading)", ".dock"))
    assert first is not None
    assert dock is not None
    assert first["y"] >= 0
    return dock["y"] - first["y"]


@pytest.mark.parametrize("path", ["/image", "/prompt", "/text"])
def test_the_maps_are_in_sight_at_once(phone: Visit, path: str) -> None:
    """The first maps begin above the dock, without scrolling; what else can be asked waits behind a button."""
    page = phone.open(path, folded=True)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => scrollY") == 0
    assert height_in_sight(phone) > 40
    more = page.get_by_role("button", name="Ask more")
    expect(page.get_by_label("What is explained")).to_be_hidden()
    more.click()
    expect(more).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_label("What is explained")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("path", DRAWERS)
def test_the_maps_that_were_asked_for_are_in_sight(phone: Visit, path: str) -> None:
    page = phone.open(f"/{path}", folded=True)
    page.set_viewport_size({"width": 390, "height": 844})
    before = phone.id
    page.locator("#samples button").nth(2).click()
    phone.next_maps(before)
    assert height_in_sight(phone) > 100


def test_the_specimen_is_reached_whole_in_a_low_window(desk: Visit) -> None:
    """It stays in view beside the plates, so what does not fit into the window must be reached without the end of the page."""
    page = desk.open("/image")
    page.set_viewport_size({"width": 1440, "height": 620})
    page.evaluate("() => scrollTo(0, 0)")
    box = page.locator(".specimen").bounding_box()
    assert box is not None
    assert box["height"] <= 620
    page.locator(".specimen").hover()
    page.mouse.wheel(0, 2000)
    page.wait_for_function("() => document.querySelector('.specimen').scrollTop > 0")
    expect(page.get_by_label("Compare with")).to_be_in_viewport()


def test_help_begins_at_its_beginning(phone: Visit) -> None:
    page = phone.open("/models", maps=False)
    page.get_by_role("button", name="Help").click()
    expect(page.get_by_role("heading", name="Help")).to_be_in_viewport()
