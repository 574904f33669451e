"""A page in a browser profile of its own, with the API beside it; and what tests do on any page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.support.serving import HTTP, VISITED, wait_for_maps

HEIGHT = 900  # pixels of a window
PATIENCE = 30_000  # milliseconds that a page may take to show something: a busy machine is no fault of the page
expect.set_options(timeout=PATIENCE)
#: for tests that need no more: the control, a map of strength alone, a signed one
FEW = "methods=random&methods=rollout&methods=fullgrad_plus:libra"
WALLS = ("/image", "/prompt", "/text")  # the pages with plates
#: The pages that draw what the API lists; what comes in moves what stands below it, and a press may land elsewhere.
LISTS = ("/history", "/leaderboard", "/leaderboard/figures", "/methods", "/models", "/your-model")
# Sums up every layout shift that the person did not cause, with what moved.
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (!entry.hadRecentInput) window.shifts.push([entry.value, entry.sources.map((source) => source.node?.className ?? "")]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
# In a page, `script("export/drawing.js")` is a script of the pages, as the page itself imports it; what needs no page is asked in node.
SCRIPT = r"""
window.script = (file) => {
  const { src } = document.querySelector("script[type=module]");
  return import(src.replace(/(\/static\/\w+\/).+(\?page=\w+)/, `$1${file}$2`));
};
"""
# Counts what scripts asked for and have no answer to yet.
UNDERWAY = """
window.underway = 0;
{
  const ask = window.fetch;
  window.fetch = (...given) => {
    window.underway += 1;
    return ask(...given).finally(() => (window.underway -= 1));
  };
}
"""
# Whether nothing was on its way to a page for the last six frames: Playwright's own wait takes half a second of silence.
SETTLED = """() => {
  const missing = [...document.images].some((image) => !image.complete && image.loading !== "lazy");
  const isBusy = document.readyState !== "complete" || document.fonts.status === "loading" || missing || window.underway > 0;
  window.quiet = isBusy || document.querySelector("[aria-busy=true]") ? 0 : (window.quiet ?? 0) + 1;
  if (window.quiet < 6) return false;
  window.quiet = 0; // for the next time
  return true;
}"""
FETCHED = """
() => performance.getEntriesByType("resource").filter(({ name, transferSize }) => name.includes("/static/") && transferSize > 0)
  .map(({ name }) => name)
"""


@dataclass
class Visit:
    """A page of the server in a profile of its own, and the API beside it."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)  # errors on the console, and exceptions

    def open(self, path: str, maps: bool = True, folded: bool = False) -> Page:
        """A page; the plates with their numbers, and all of them, unless they are to be ``folded`` as a visitor finds them. A page of
        `LISTS` is given once it is drawn whole.
        """
        if not folded and path.startswith(WALLS):
            more = [f"{name}=shown" for name in ("numbers", "more") if f"{name}=" not in path]
            path = "&".join([path if "?" in path else f"{path}?", *more]).replace("?&", "?")
        self.page.goto(self.address + path)
        if maps:
            self.maps()
        elif urlsplit(path).path in LISTS:
            self.settled()
        return self.page

    def maps(self) -> None:
        """Wait until every plate is drawn."""
        wait_for_maps(self.page)

    def settled(self) -> None:
        """Wait until no answer, picture or typeface is on its way to the page, and no part of it is busy."""
        self.page.wait_for_function(SETTLED)

    def next_maps(self, before: str | None) -> None:
        """Wait until the address names another explanation than ``before``, and its plates are drawn."""
        self.page.wait_for_function("(before) => new URLSearchParams(location.search).get('id') !== before", arg=before)
        self.maps()

    def get(self, path: str) -> Any:
        answer = HTTP.get(self.address + path)
        answer.raise_for_status()
        return answer.json()

    def explained(self, image: bytes | None = None, **fields: Any) -> Any:
        """The finished explanation that the API makes of these fields and of a picture, beside the page."""
        files = None if image is None else {"image": ("picture.png", image)}
        return HTTP.post(f"{self.address}/api/explanations?wait=1", data=fields, files=files).raise_for_status().json()

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.page.url).query)

    @property
    def id(self) -> str | None:
        return self.query.get("id", [None])[0]

    def document(self) -> Any:
        """The explanation on show, as the API gives it, once the address of the page names it."""
        expect(self.page).to_have_url(re.compile(r"[?&]id=\w"))
        return self.get(f"/api/explanations/{self.id}")

    def explain_too_long(self) -> int:
        """Show, on the Text page, a review longer than the model reads, cut to what it reads; how many tokens it reads."""
        limit: int = self.get("/api/models/reviews-bert")["details"]["max_tokens"]
        text = " ".join(f"good film {number}," for number in range(limit))
        document = self.explained(model="reviews-bert", text=text, long_texts="cut", methods=["fullgrad_plus:libra", "rollout"])
        self.open(f"/text?id={document['id']}")
        return limit

    def fetched(self) -> list[str]:
        """The files of the pages that came from the server for the page on show, and not from the browser's own store."""
        files: list[str] = self.page.evaluate(FETCHED)
        return files

    def refused(self, *reasons: int | str) -> None:
        """Wait for the browser's own line about each request that got no answer or one of these statuses, and forgive them. Fails where
        there is another complaint."""
        while len(self.complaints) < len(reasons):
            self.page.wait_for_event("console", lambda message: message.type == "error")
        assert all(str(reason) in line for reason, line in zip(reasons, self.complaints, strict=True)), self.complaints
        self.complaints.clear()

    def plate(self, spec: str) -> Any:
        return self.page.locator(f'.plate[data-spec="{spec}"]')

    def shift(self) -> tuple[float, Any]:
        """How much moved on its own, and what."""
        shifts = self.page.evaluate("() => window.shifts")
        return sum(value for value, _ in shifts), shifts


@contextmanager
def view(page: Page) -> Iterator[None]:
    """With the menu open that says how maps are drawn."""
    menu = page.locator("#controls .menu:not(.why)")
    menu.locator("summary").click()
    yield
    page.keyboard.press("Escape")
    expect(menu).not_to_have_attribute("open", "")


def methods(page: Page) -> None:
    """Open the choice of methods, with the squares for experts."""
    page.locator("#choose-methods").click()
    page.locator(".experts summary").click()


def new_profile(browser: Browser, width: int, scheme: str, first: bool = False) -> BrowserContext:
    """A profile that knows nothing yet. Unless it is the ``first`` visit, the guided one is not offered, which would cover a corner."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, accept_downloads=True)  # type: ignore[arg-type]
    context.add_init_script(SHIFTS)
    context.add_init_script(SCRIPT)
    context.add_init_script(UNDERWAY)
    if not first:
        context.add_init_script(VISITED)
    context.set_default_timeout(2 * PATIENCE)
    return context


def visit(browser: Browser, address: str, width: int = 1440, scheme: str = "light", *, first: bool = False) -> Iterator[Visit]:
    """A page in a profile that no other visit has, and that is closed in the end. Fails where an error on the console went unseen."""
    with new_profile(browser, width, scheme, first) as context:
        visitor = Visit(context.new_page(), address)
        visitor.page.on(
            "console", lambda message: visitor.complaints.append(message.text) if message.type in {"error", "warning"} else None
        )
        visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
        yield visitor
    assert not visitor.complaints, visitor.complaints


def model_path(name: str) -> str:
    return f"/api/models/{quote(name)}"


def set_beside(desk: Visit, label: str) -> None:
    """Tick one more class, and wait for the maps of all."""
    before = desk.id
    desk.page.get_by_role("checkbox", name=f"{label} next to the others").check()
    desk.next_maps(before)
