"""Two servers, of tiny and of embedded models, and one Chromium for all these tests.

Each test has a profile that remembers no other, and no error on the console goes unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from server.jobs.model_source import ModelSource
from tests.browser.serving import HTTP, VISITED, launched, played, served, wait_for_maps
from tests.browser.tiny_models import tiny_server
from tests.browser.typefaces import DEJAVU, font_files
from tests.embedded_models import loaded
from tests.server.fake_engine import FakeEngine

HEIGHT = 900  # pixels of a window
PATIENCE = 30_000  # milliseconds that a page may take to show something: a busy machine is no fault of the page
expect.set_options(timeout=PATIENCE)
#: tabs that nobody has, each in a profile of its own, by browser, address of the server, width and colour scheme
TABS: dict[tuple[Browser, str, int, str], list[Page]] = {}
NOTHING = "/api/limits"  # the address of an idle tab, which is no page's
#: for tests that need no more: the control, a map of strength alone, a signed one
FEW = "methods=random&methods=rollout&methods=fullgrad_plus:libra"
WALLS = ("/image", "/prompt", "/text")  # the pages with plates
# Sums up every layout shift that the person did not cause, with what moved.
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (!entry.hadRecentInput) window.shifts.push([entry.value, entry.sources.map((source) => source.node?.className ?? "")]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
# In a page, `script("core/stats.js")` is a script of the pages, as the page itself imports it.
SCRIPT = r"""
window.script = (file) => import(document.querySelector("script[type=module]").src.replace(/(\/static\/\w+\/).+/, `$1${file}`));
"""

# Ends a visit: what is under way stops. The page stays: opening an empty one in its place costs an eighth of a page with maps.
LEAVE = """(nowhere) => {
  window.stop();
  window.name = "left"; // which the next document of the tab finds
  history.replaceState(null, "", nowhere);
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}"""
# Before all else of a document: forgets what the visit before stored.
FORGET = """
if (window.name === "left") {
  window.name = "";
  localStorage.clear();
  sessionStorage.clear();
}
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A browser test that fails is run once more. The summary names it: see CONTRIBUTING.md."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.flaky(reruns=1))


class SharedModels:
    """Where the models come from."""

    def source(self) -> ModelSource:
        """Those of ``explainers``, with the embedded models that other tests of this process load or have loaded."""
        return ModelSource(load=lambda name, device=None: loaded(name))


@pytest.fixture(scope="package")
def trained_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on the embedded models: in this process, which has imported what models need for the tiny ones."""
    with served(tmp_path_factory.mktemp("server"), SharedModels()) as url:
        yield url


@pytest.fixture(scope="module")
def fake_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, FakeEngine]]:
    """The address of a server on the stand-in engine, and that engine."""
    engine = FakeEngine()
    with played(tmp_path_factory.mktemp("fake"), engine) as address:
        yield address, engine


@pytest.fixture(scope="package")
def tiny_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tiny_server(tmp_path_factory.mktemp("tiny")) as address:
        yield address


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """A server of tiny models, which answer at once; for tests marked ``trained`` that of the embedded ones."""
    is_trained = request.node.get_closest_marker("trained") is not None
    return str(request.getfixturevalue("trained_address" if is_trained else "tiny_address"))


@pytest.fixture(scope="package")
def browsers() -> Iterator[Callable[[str], Browser]]:
    """A Chromium for each of the typefaces that are asked for, one each."""
    with sync_playwright() as playwright, ExitStack() as stack:
        yield cache(lambda typeface: stack.enter_context(launched(playwright, typeface)))
        TABS.clear()  # they close with their browser; others may follow, where a run leaves these tests and comes back


@pytest.fixture(scope="package")
def browser(browsers: Callable[[str], Browser]) -> Browser:
    return browsers(DEJAVU)


@pytest.fixture(scope="package")
def scripts(browser: Browser, tiny_address: str) -> Iterator[Page]:
    """A page to ask the pages' scripts on what they compute: ``script("core/stats.js")``. Tests share it, so they change nothing of it."""
    for visitor in visit(browser, tiny_address):
        yield visitor.open("/history", maps=False)


@dataclass
class Visit:
    """A page of the server in a profile of its own, and the API beside it."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)  # errors on the console, and exceptions

    def open(self, path: str, maps: bool = True, folded: bool = False) -> Page:
        """A page; the plates with their numbers, and all of them, unless they are to be ``folded`` as a visitor finds them."""
        if not folded and path.startswith(WALLS):
            more = [f"{name}=shown" for name in ("numbers", "more") if f"{name}=" not in path]
            path = "&".join([path if "?" in path else f"{path}?", *more]).replace("?&", "?")
        self.page.goto(self.address + path)
        if maps:
            self.maps()
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
        """The explanation on show, as the API gives it."""
        assert self.id is not None
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

    def plate(self, spec: str) -> Any:
        return self.page.locator(f'.plate[data-spec="{spec}"]')

    def shift(self) -> tuple[float, Any]:
        """How much moved on its own, and what."""
        shifts = self.page.evaluate("() => window.shifts")
        return sum(value for value, _ in shifts), shifts


@contextmanager
def view(page: Page) -> Iterator[None]:
    """With the menu open that says how maps are drawn."""
    menu = page.locator("#controls .menu")
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
    context.add_init_script(FORGET)
    context.add_init_script(SHIFTS)
    context.add_init_script(SCRIPT)
    context.add_init_script(UNDERWAY)
    if not first:
        context.add_init_script(VISITED)
    context.set_default_timeout(2 * PATIENCE)
    return context


@contextmanager
def listening(page: Page) -> Iterator[None]:
    """Whatever listens to the page from now on stops listening in the end."""
    listeners: list[tuple[str, Callable[..., Any]]] = []
    on = page.on

    def remember(event: Any, listener: Callable[..., Any]) -> None:
        listeners.append((event, listener))
        on(event, listener)

    page.on = remember  # type: ignore[method-assign]
    yield
    del page.on
    for event, listener in listeners:
        page.remove_listener(event, listener)


def reset(page: Page, address: str, width: int, scheme: str) -> None:
    """Make a tab forget all that a visit left, but for the files of the pages: what is stored when the next page is opened."""
    page.unroute_all(behavior="ignoreErrors")
    if not page.url.startswith(address):
        page.goto(address + NOTHING)
    scheme_before = page.evaluate(LEAVE, NOTHING)
    for other in page.context.pages:
        if other is not page:
            other.close()
    page.context.clear_permissions()
    if page.viewport_size != (window := {"width": width, "height": HEIGHT}):
        page.set_viewport_size(window)
    if scheme != scheme_before:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.mouse.move(0, 0)


@contextmanager
def lent_tab(browser: Browser, address: str, width: int, scheme: str) -> Iterator[Page]:
    """A tab that nobody has. A tab that had a page of the server before shows the next one for half of what a new tab costs."""
    idle = TABS.setdefault((browser, address, width, scheme), [])
    page = idle.pop() if idle else new_profile(browser, width, scheme).new_page()
    yield page
    reset(page, address, width, scheme)
    idle.append(page)


@pytest.fixture(autouse=True, scope="module")
def _idle_tabs() -> Iterator[None]:
    """Close, after each module, the tabs of the servers that ended with it."""
    yield
    for key in list(TABS):
        try:
            HTTP.get(key[1] + NOTHING)
        except httpx.ConnectError:
            for page in TABS.pop(key):
                page.context.close()


def visit(
    browser: Browser, address: str, width: int = 1440, scheme: str = "light", *, first: bool = False, fresh: bool = False
) -> Iterator[Visit]:
    """A page in a profile that no other visit has at this time: a new one for the ``first`` visit of a person, and for a ``fresh`` one."""
    with ExitStack() as stack:
        if first or fresh:
            page = stack.enter_context(new_profile(browser, width, scheme, first)).new_page()
        else:
            page = stack.enter_context(lent_tab(browser, address, width, scheme))
        visitor = Visit(page, address)
        with listening(page):
            page.on("console", lambda message: visitor.complaints.append(message.text) if message.type in {"error", "warning"} else None)
            page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
            yield visitor
    assert not visitor.complaints, visitor.complaints


@pytest.fixture
def fresh() -> bool:
    """Whether ``desk`` and ``phone`` have no files of the pages yet. A module that looks at first loads overrides it."""
    return False


def typeface_of(request: pytest.FixtureRequest) -> str:
    """The typeface that a test was parametrised with, else DejaVu. Skips where Liberation, which only the system brings, is missing."""
    typeface: str = getattr(request, "param", DEJAVU)
    if not font_files(typeface):
        pytest.skip(f"the {typeface} fonts are not installed: `make chromium` installs them on Debian as root")
    return typeface


@pytest.fixture
def desk(browsers: Callable[[str], Browser], address: str, fresh: bool, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A desktop, 1440 pixels wide; ``parametrize("desk", TYPEFACES, indirect=True)`` runs a test with each of the system's typefaces."""
    yield from visit(browsers(typeface_of(request)), address, fresh=fresh)


@pytest.fixture
def phone(browsers: Callable[[str], Browser], address: str, fresh: bool, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A phone, 390 pixels wide; see ``desk`` for typefaces."""
    yield from visit(browsers(typeface_of(request)), address, 390, fresh=fresh)


def model_path(name: str) -> str:
    return f"/api/models/{quote(name)}"
