"""Tabs that the browser tests hand on."""

from __future__ import annotations

from playwright.sync_api import Browser

from tests.browser.conftest import HEIGHT, visit

WIDTH = 1001  # pixels; no other test asks for such a tab
STORED = "() => [localStorage.kept ?? null, sessionStorage.kept ?? null]"
STORE = "() => { localStorage.kept = 'here'; sessionStorage.kept = 'here'; }"
IS_DARK = "() => matchMedia('(prefers-color-scheme: dark)').matches"


def test_a_tab_remembers_its_own_visit_and_none_before(browser: Browser, tiny_address: str) -> None:
    tabs = []
    for _ in range(2):
        for visitor in visit(browser, tiny_address, WIDTH):
            page = visitor.open("/history", maps=False)
            tabs.append(page)
            assert page.evaluate(STORED) == [None, None]
            assert page.evaluate("() => [innerWidth, innerHeight]") == [WIDTH, HEIGHT]
            assert not page.evaluate(IS_DARK)
            page.evaluate(STORE)
            page.set_viewport_size({"width": 500, "height": 400})
            page.emulate_media(color_scheme="dark")
            visitor.open("/models", maps=False)
            assert page.evaluate(STORED) == ["here", "here"]
            assert page.evaluate(IS_DARK)
    assert tabs[0] is tabs[1]
