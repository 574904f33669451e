"""What these tests themselves stand on: each begins as a visitor who was never here, though browsers keep the files of the pages."""

from __future__ import annotations

from playwright.sync_api import Browser

from tests.browser.conftest import visit

STORED = """async () => [Object.keys(localStorage), Object.keys(sessionStorage), document.cookie,
  (await navigator.permissions.query({ name: "clipboard-read" })).state, (await caches.keys()).length,
  (await indexedDB.databases()).length, innerWidth, scrollY, window.script === undefined, history.length]"""
LEAVE = """async () => {
  localStorage.setItem("vitrine-scheme", "dark");
  sessionStorage.setItem("mine", "1");
  document.cookie = "mine=1; max-age=1000";
  await caches.open("mine");
  await new Promise((run) => (indexedDB.open("mine").onsuccess = run));
}"""


def test_nothing_is_left_of_the_visitor_before(browser: Browser, address: str) -> None:
    for first in visit(browser, address):
        context = first.page.context
        before = first.open("/models", maps=False).evaluate(STORED)
        assert before[0] == ["vitrine-visit"]
        first.page.evaluate(LEAVE)
        context.grant_permissions(["clipboard-read"])
        context.route("**/api/**", lambda route: route.abort())
        context.new_page().goto(f"{address}/text")
        first.page.set_viewport_size({"width": 500, "height": 500})
        left = first.page.evaluate(STORED)
        assert all(now != then for now, then in zip(left[:7], before[:7], strict=True)), left
    for second in visit(browser, address):
        assert second.page.context is context
        assert len(context.pages) == 2  # and the one that Profile keeps
        second.open("/models", maps=False)
        assert second.page.evaluate(STORED) == before
        assert second.page.evaluate("() => document.documentElement.dataset.scheme") is None
        assert second.page.evaluate("async () => (await fetch('/api/models')).ok")
        assert not second.fetched()
    for stranger in visit(browser, address, cold=True):
        assert stranger.page.context is not context
        stranger.open("/models", maps=False)
        assert stranger.fetched()


def test_a_profile_whose_clock_was_set_is_not_used_again(browser: Browser, address: str) -> None:
    for first in visit(browser, address, width=1000):
        context = first.page.context
        first.page.clock.install()
    for second in visit(browser, address, width=1000):
        assert second.page.context is not context


def test_visits_at_the_same_time_share_nothing(browser: Browser, address: str) -> None:
    for first in visit(browser, address):
        for second in visit(browser, address):
            assert first.page.context is not second.page.context
