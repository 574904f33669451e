"""Two browsers on one server where visitors are apart, and a page whose server has too many questions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.support.serving import HTTP, played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.gated_models import STEPS, GatedModels

BUSY = {"type": "urn:vitrine:problem:queue-full", "title": "Queue full", "status": 429, "detail": "Many wait.", "send": "Ask again."}
METHODS = "/image?methods=rollout&methods=fullgrad_plus:libra"


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, GatedModels]]:
    with GatedModels().in_registry() as models, played(tmp_path_factory.mktemp("apart"), models, visitors="apart") as address:
        yield address, models


@pytest.fixture
def desk(browser: Browser, apart: tuple[str, GatedModels]) -> Iterator[Visit]:
    yield from visit(browser, apart[0])


def give(page: Page, seed: int) -> None:
    page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(seed)})


def finished(page: Page) -> None:
    expect(page.locator("#status")).to_contain_text(" in ")


@contextmanager
def another(browser: Browser, address: str) -> Iterator[Visit]:
    with ExitStack() as stack:
        yield stack.enter_context(contextmanager(visit)(browser, address))


def test_another_browser_reads_by_the_link_and_finds_nothing(desk: Visit, browser: Browser) -> None:
    page = desk.open(METHODS, maps=False)
    give(page, 1)
    finished(page)
    page.get_by_role("button", name="Name it").click()
    page.get_by_label("A name of your own").fill("Anna's zebra")
    page.get_by_role("button", name="Save the name").click()
    expect(page.locator(".own-title")).to_have_text("Anna's zebra")
    link, one = page.url.removeprefix(desk.address), desk.id
    page = desk.open("/history", maps=False)
    expect(page.locator(".record")).to_have_count(1)
    with another(browser, desk.address) as ben:
        ben.open("/history", maps=False)
        expect(ben.page.locator("#status")).to_contain_text("Nothing here yet")
        ben.open(METHODS, maps=False)
        give(ben.page, 1)
        finished(ben.page)
        assert ben.id != one
        expect(ben.page.locator(".own-title")).to_be_hidden()
        ben.open(link)
        assert ben.id == one
        expect(ben.page.locator(".own-title")).to_have_text("Anna's zebra")
        expect(ben.page.locator("#notes")).to_contain_text("Somebody shared this")
        expect(ben.page.get_by_role("button", name="Name it")).to_be_disabled()
        refusals = ben.page.evaluate(
            """async (path) => {
              const headers = { "content-type": "application/json" };
              const calls = [["DELETE", null], ["PATCH", JSON.stringify({ title: "Ben's" })]];
              const asked = calls.map(([method, body]) => fetch(path, { method, body, headers }).then(({ status }) => status));
              return [...await Promise.all(asked), document.cookie];
            }""",
            f"/api/explanations/{one}",
        )
        assert refusals == [403, 403, ""]  # the cookie is for no script
        ben.refused(403, 403)
        ben.page.locator("#classes li button", has_text="dog").click()  # another question about the same picture
        expect(ben.page.locator("#results-problem")).to_contain_text("somebody else")
        ben.refused(403)
    page.reload()
    expect(page.locator(".record h2")).to_contain_text("Anna's zebra")


def test_a_busy_server_is_asked_again_and_the_place_in_the_queue_is_shown(desk: Visit, apart: tuple[str, GatedModels]) -> None:
    address, models = apart
    page, waits = desk.open(METHODS, maps=False), desk.page.locator(".over .waits").first
    give(page, 1)
    finished(page)
    seen: list[Any] = []

    def answer(route: Route) -> None:
        seen.append(route.request)
        if len(seen) < 2:
            headers = {"Retry-After": "1", "content-type": "application/problem+json"}
            return route.fulfill(status=429, headers=headers, json=BUSY)
        return route.continue_()

    page.route("**/api/explanations", answer)
    gate = models.gate(STEPS[0])
    HTTP.post(f"{address}/api/explanations", data={"model": "scenes-vit", "methods": STEPS[0]}, files={"image": png(7)})
    gate.wait()
    give(page, 2)
    expect(waits).to_contain_text("asking again in 1 s")
    expect(waits).to_have_text("Waiting: 1 before yoursStop")
    expect(page.locator("#status")).to_have_text("waiting, 1 before you")
    gate.open()
    finished(page)
    expect(waits).to_be_hidden()
    assert len(seen) == 2
    desk.refused(429)


def test_who_does_not_wait_for_a_busy_server_keeps_what_is_on_show(desk: Visit) -> None:
    page, waits = desk.open(METHODS, maps=False), desk.page.locator(".over .waits").first
    give(page, 1)
    finished(page)
    before, seen = desk.id, []

    def answer(route: Route) -> None:
        seen.append(route.request)
        route.fulfill(status=429, headers={"Retry-After": "300", "content-type": "application/problem+json"}, json=BUSY)

    page.route("**/api/explanations", answer)
    page.locator("#classes li button", has_text="dog").click()
    expect(waits).to_contain_text("asking again in")
    waits.get_by_role("button", name="Stop").click()
    expect(waits).to_be_hidden()
    expect(page.locator("#status")).to_have_text("stopped")
    expect(page.locator("#main")).not_to_have_class("pending")
    assert (desk.id, len(seen)) == (before, 1)
    desk.refused(429)
