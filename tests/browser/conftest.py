"""One server and one Chromium for all these tests; a fresh profile a test; no error on the console goes unseen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.serving import VISITED, launch, served, wait_for_maps

# Sums up every layout shift that the person did not cause, with what moved.
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) {
    if (!one.hadRecentInput) window.shifts.push([one.value, one.sources.map((source) => source.node?.className ?? "")]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""


@pytest.fixture(scope="package")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@dataclass
class Visit:
    """A page of the server in a profile of its own, and the API beside it."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)  # errors on the console, and exceptions

    def open(self, path: str, maps: bool = True) -> Page:
        self.page.goto(self.address + path)
        if maps:
            self.maps()
        return self.page

    def maps(self) -> None:
        """Wait until every plate is drawn."""
        wait_for_maps(self.page)

    def next_maps(self, before: str | None) -> None:
        """Wait until the address names another explanation than ``before``, and its plates are drawn."""
        self.page.wait_for_function("(before) => new URLSearchParams(location.search).get('id') !== before", arg=before)
        self.maps()

    def get(self, path: str) -> Any:
        answer = httpx.get(self.address + path)
        answer.raise_for_status()
        return answer.json()

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.page.url).query)

    @property
    def id(self) -> str | None:
        return self.query.get("id", [None])[0]

    def document(self) -> Any:
        """The explanation on show, as the API gives it."""
        assert self.id is not None
        return self.get(f"/api/explanations/{self.id}")

    def explain_too_long(self) -> int:
        """Explain, on the Text page, a review longer than the model reads; how many tokens it reads."""
        before = self.id
        limit: int = self.get("/api/models/reviews-bert")["details"]["max_tokens"]
        self.page.get_by_label("The review to explain").fill(" ".join(f"good film {number}," for number in range(limit)))
        self.page.get_by_role("button", name="Explain this review").click()
        self.next_maps(before)
        return limit

    def plate(self, spec: str) -> Any:
        return self.page.locator(f'.plate[data-spec="{spec}"]')

    def shift(self) -> tuple[float, Any]:
        """How much moved on its own, and what."""
        shifts = self.page.evaluate("() => window.shifts")
        return sum(value for value, _ in shifts), shifts


def visit(browser: Browser, address: str, width: int = 1440, scheme: str = "light", first: bool = False) -> Iterator[Visit]:
    """A page in a profile of its own. Unless it is the ``first`` visit, the guided one is not offered, which would cover a corner."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True)  # type: ignore[arg-type]
    context.add_init_script(SHIFTS)
    if not first:
        context.add_init_script(VISITED)
    page = context.new_page()
    one = Visit(page, address)
    page.on("console", lambda message: one.complaints.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: one.complaints.append(str(error)))
    yield one
    context.close()
    assert not one.complaints, one.complaints


@pytest.fixture
def desk(browser: Browser, address: str) -> Iterator[Visit]:
    """A desktop, 1440 pixels wide."""
    yield from visit(browser, address)


@pytest.fixture
def phone(browser: Browser, address: str) -> Iterator[Visit]:
    """A phone, 390 pixels wide."""
    yield from visit(browser, address, 390)


def model_path(name: str) -> str:
    return f"/api/models/{quote(name)}"
