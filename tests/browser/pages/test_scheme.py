"""Light or dark: as the system has it until a person chooses, and then as chosen, on every page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.support.visit import Visit, visit

PAPER = {"light": "rgb(250, 248, 243)", "dark": "rgb(21, 23, 26)"}
# What the first frame of a page is drawn on, told by the page itself before any script of its body has run.
FIRST_FRAME = """
requestAnimationFrame(() => { window.firstPaper = getComputedStyle(document.documentElement).getPropertyValue("--paper"); });
"""


def paper(page: Page) -> str:
    colour: str = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return colour


@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_choice_holds_on_every_page_and_after_a_reload(browser: Browser, address: str, system: str) -> None:
    other = {"light": "dark", "dark": "light"}[system]
    for visitor in visit(browser, address, scheme=system):
        page = visitor.open("/leaderboard", maps=False)
        switch = page.get_by_label("Light or dark")
        expect(switch).to_have_value("system")
        assert paper(page) == PAPER[system]
        switch.select_option(other)
        assert paper(page) == PAPER[other]
        page.add_init_script(FIRST_FRAME)
        for path in ("/leaderboard", "/methods"):
            visitor.open(path, maps=False)
            expect(page.get_by_label("Light or dark")).to_have_value(other)
            assert paper(page) == PAPER[other]
            page.wait_for_function("() => window.firstPaper")
            assert page.evaluate("() => window.firstPaper") == PAPER[other]
            assert page.locator("meta[name=color-scheme]").get_attribute("content") == other
        page.get_by_label("Light or dark").select_option("system")
        assert paper(page) == PAPER[system]


def test_what_is_painted_follows_the_choice(desk: Visit) -> None:
    """The patches that are taken away are painted in the colour of the paper."""
    page = desk.open("/image?model=scenes-vit&methods=random")
    page.locator("#removed").fill("50")
    painted = """(wanted) => {
      const cover = document.querySelector(".plate canvas.cover");
      if (!cover) return false;
      const { data } = cover.getContext("2d").getImageData(0, 0, cover.width, cover.height);
      const seen = new Set();
      for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(`rgb(${data[i]}, ${data[i + 1]}, ${data[i + 2]})`);
      return seen.size === 1 && seen.has(wanted);
    }"""
    page.wait_for_function(painted, arg=PAPER["light"], timeout=60_000)
    page.get_by_label("Light or dark").select_option("dark")
    page.wait_for_function(painted, arg=PAPER["dark"])
    expect(page.locator(".said")).to_contain_text("shares measured", timeout=60_000)
