"""The pages bring their own fonts: whatever the system has, they are drawn with these."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.support.serving import HTTP
from tests.browser.support.typefaces import ALL_FONTS, TYPEFACES
from tests.browser.support.visit import Visit
from tests.conftest import ROOT

FONTS = ROOT / "static" / "fonts"
USED = {"serif": ".mark", "sans": ".top nav a", "mono": "#status"}


def test_the_fonts_are_small_and_licensed() -> None:
    files = list(FONTS.glob("*.woff2"))
    assert len(files) == 5
    assert sum(file.stat().st_size for file in files) < ALL_FONTS
    for file in files:
        licence = (FONTS / f"{file.name.split('-v')[0]}-OFL.txt").read_text("utf-8")
        assert "SIL OPEN FONT LICENSE Version 1.1" in licence


def test_browsers_keep_fonts_and_ask_again_about_the_rest(address: str) -> None:
    for file in FONTS.glob("*.woff2"):
        answer = HTTP.get(f"{address}/static/fonts/{file.name}")
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-type"] == "font/woff2"
    assert HTTP.get(f"{address}/static/styles/fonts.css").headers["cache-control"] == "no-cache"


def test_a_page_fetches_each_file_once(desk: Visit) -> None:
    """What is asked for ahead is what scripts and style sheets use; the page after it takes them from the browser's own store."""
    desk.open("/image?methods=random")
    files = desk.fetched()
    assert len(files) == len(set(files)) > 10
    assert len({url.split("/static/")[1].split("/")[0] for url in files}) == 1  # all of one version
    desk.open("/image?methods=random")
    assert not desk.fetched()


@pytest.mark.parametrize("desk", TYPEFACES, indirect=True)
def test_pages_are_drawn_with_their_own_fonts(desk: Visit) -> None:
    """Chromium names the font files that it drew each text with."""
    page = desk.open("/image?methods=random")
    loaded = page.evaluate("() => [...document.fonts].filter(({ status }) => status === 'loaded').map(({ family }) => family)")
    own_families = sorted(family for family in loaded if " like " not in family)  # what stands in for them is of the system
    assert own_families == ["Source Code Pro", "Source Sans 3", *3 * ["Source Serif 4"]]
    session = page.context.new_cdp_session(page)
    session.send("DOM.enable")
    session.send("CSS.enable")
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    for where in USED.values():
        expect(page.locator(where).first).to_be_visible()
        node = session.send("DOM.querySelector", {"nodeId": root, "selector": where})["nodeId"]
        fonts = session.send("CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]
        assert [font["familyName"].split()[0] for font in fonts] == ["Source"], fonts
        assert all(font["isCustomFont"] for font in fonts)


@pytest.mark.parametrize("desk", TYPEFACES, indirect=True)
def test_until_the_fonts_are_there_texts_are_as_wide(desk: Visit) -> None:
    """What stands in for a font is scaled to it, so that hardly a line breaks elsewhere when the font arrives."""
    page = desk.open("/leaderboard", maps=False)
    page.evaluate("() => document.fonts.ready")
    width = """(family) => {
      const span = document.createElement("span");
      span.style.cssText = `font: 20px ${family}; position: absolute; white-space: nowrap`;
      span.textContent = "Which patches made the model say so, and how far can each of these maps be trusted?";
      document.body.append(span);
      const { width } = span.getBoundingClientRect();
      span.remove();
      return width;
    }"""
    for name in USED:
        family, *rest = page.evaluate("(name) => getComputedStyle(document.documentElement).getPropertyValue(name)", f"--{name}").split(
            ", "
        )
        page.evaluate("(family) => document.fonts.load(`20px ${family}`)", family)
        assert page.evaluate(width, ", ".join(rest)) == pytest.approx(page.evaluate(width, family), rel=0.03), name
