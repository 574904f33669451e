"""Pictures of the real pages, for the README and for looking at: ``python -m tools.screenshots --out docs/screenshots``."""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.support.serving import VISITED, launched, served, wait_for_maps
from tests.browser.support.visit import view

DESK, PHONE = (1440, 1000), (390, 844)
QUALITY = 80  # quality of the WebP files


def _do_nothing(page: Page) -> None:
    """Do nothing before the screenshot."""


def _hold_strongest(page: Page) -> None:
    """Select the strongest patch or word of the last signed map, and scroll to the top of the page."""
    plates = page.locator(".plate:has(.ramp.signed):not(.difference)")
    plates.last.locator(".map-canvas, .reading").focus()
    page.keyboard.press("Home")
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def _wait_for_home(page: Page) -> None:
    """Wait until the live plate and the findings of the home page are there."""
    expect(page.locator("#findings li")).to_have_count(3, timeout=60_000)


def _open_deletion(page: Page) -> None:
    """Open the deletion test with a third of the tokens removed; on the Text page also remove two words."""
    page.locator("#removed").fill("35")
    expect(page.locator(".panels svg")).to_have_count(2, timeout=60_000)
    if page.get_by_role("button", name="Remove words").count():
        page.get_by_role("button", name="Remove words").click()
        for word in (3, 6):
            page.locator(".editing .word").nth(word).click()
        expect(page.locator("#edits")).to_have_attribute("data-edited", "2", timeout=60_000)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def _open_help(page: Page) -> None:
    """Open the help dialog on ``page``."""
    page.get_by_role("button", name="Help").click()


def _open_visit(page: Page) -> None:
    """Open the second step of the guided visit on ``page``."""
    page.get_by_role("button", name="Show me").click()
    page.get_by_role("button", name="Next").click()


def _show_words(page: Page) -> None:
    """Switch on the description of every map in words on ``page``."""
    with view(page):
        page.get_by_role("radio", name="yes").check()


def _open_word_drawers(page: Page) -> None:
    """Open all tools that only texts have on ``page``, and swap a word."""
    for name in ("wordtable", "disagree", "probe"):
        page.locator(f"#drawer-{name} summary").click()
    page.get_by_role("button", name="First names").click()
    page.get_by_role("button", name="Swap the words").click()
    expect(page.locator("#drawer-probe .found table")).to_be_visible(timeout=60_000)
    page.evaluate("() => document.getElementById('drawer-disagree').scrollIntoView()")


def _wait_for_maps(page: Page, before: str) -> None:
    """Wait until the URL of ``page`` is the one of another explanation than ``before``, and every plate is drawn."""
    page.wait_for_function("(before) => new URL(location).searchParams.get('id') !== new URL(before).searchParams.get('id')", arg=before)
    wait_for_maps(page)


def _show_versus(page: Page) -> None:
    """Show the first two classes side by side on ``page``."""
    before = page.url
    page.locator(".tick input:not(:checked)").first.check()
    _wait_for_maps(page, before)
    page.evaluate("() => { document.activeElement.blur(); document.querySelector('.pairing').scrollIntoView(); }")


def _show_regions(page: Page) -> None:
    """Choose a ready set of prompts on ``page``, and show which prompt wins which patch."""
    before = page.url
    ask_more = page.locator(".ask-more")  # on a phone the sets are behind it
    if ask_more.is_visible():
        ask_more.click()
    page.locator(".sets button").nth(1).click()
    _wait_for_maps(page, before)
    expect(page.locator(".painting [data-drawn=true]")).to_be_visible()
    page.evaluate("() => { document.activeElement.blur(); document.querySelector('.regions').scrollIntoView(); }")


def _scroll_to_question(page: Page) -> None:
    """Scroll ``page`` down to the question."""
    page.evaluate("() => { document.activeElement.blur(); document.querySelector('main h1').scrollIntoView(); }")


def _wait_for_example(page: Page) -> None:
    """Wait until the method on ``page`` has explained its sample."""
    expect(page.locator(".plate[data-state=done]")).to_be_visible(timeout=60_000)


def _open_drawer(name: str) -> Callable[[Page], Any]:
    """Return a function that opens the drawer ``name`` under the plates of a page and waits until it is filled."""

    def before(page: Page) -> None:
        tool = page.locator(f"#drawer-{name}")
        tool.locator("summary").click()
        expect(tool.locator(".plate").first).to_be_visible(timeout=120_000)
        if name == "mixer":
            tool.locator("[data-kind=attention] input").first.check()
            expect(tool.locator("fieldset.changed")).to_be_attached()
            expect(tool.locator(".numbers[aria-busy=false]")).to_be_attached(timeout=120_000)
            expect(tool.locator("tr[aria-busy=true]")).to_have_count(0, timeout=120_000)
        else:
            expect(tool.locator(".sums button").first).to_be_attached(timeout=120_000)
        tool.evaluate("(node) => { node.scrollIntoView(); document.activeElement.blur(); }")

    return before


def _open_tool(name: str) -> Callable[[Page], Any]:
    """Return a function that opens the drawer ``name`` of a page, one that compares or changes the maps on show."""

    def before(page: Page) -> None:
        tool = page.locator(f"#drawer-{name}")
        tool.locator("summary").first.click()
        expect(tool.locator(".body > *").last).to_be_visible()
        page.wait_for_load_state("networkidle")
        tool.evaluate("(node) => { node.scrollIntoView(); document.activeElement.blur(); }")

    return before


def _open_crop(page: Page) -> None:
    """Open the crop frame over the whole picture on ``page``, and make it smaller."""
    page.get_by_role("button", name="Crop").click()
    expect(page.get_by_role("dialog", name="What shall the model see?")).to_be_visible()
    for _ in range(4):
        page.keyboard.press("-")


def _show_look(page: Page) -> None:
    """Show on ``page`` the lens over the strongest patch, other colours, and the export menu of the whole figure."""
    for field, value in (("Smoothing", "bicubic"), ("For, against", "orange-purple"), ("Strength", "viridis")):
        with view(page):
            page.get_by_label(field).select_option(value)
    _hold_strongest(page)
    page.locator("#export summary").click()


def _show_compare(page: Page) -> None:
    """Compare on ``page`` with a second model, which knows other classes."""
    more = page.get_by_role("button", name="Ask more")
    if more.is_visible():
        more.click()
    page.locator("#compare").select_option("photos-vit")
    page.wait_for_function("() => new URLSearchParams(location.search).has('compare')")
    wait_for_maps(page)
    page.evaluate("() => { document.activeElement.blur(); document.querySelector('main h1').scrollIntoView(); }")


def _show_history(page: Page) -> None:
    """Explain a picture, a text and prompts on ``page``, and open the history."""
    address = page.url.partition("/image")[0]
    for name in ("image", "text", "prompt"):
        page.goto(f"{address}/{name}")
        wait_for_maps(page)
    page.goto(f"{address}/history")
    expect(page.locator(".record")).to_have_count(3)
    page.wait_for_load_state("networkidle")


@dataclass(frozen=True)
class Shot:
    """A screenshot to take.

    name    stem of its file
    path    URL path of the page
    window  width and height in pixels
    scheme  "light" or "dark"
    before  called with the page before the picture is taken
    """

    name: str
    path: str
    window: tuple[int, int] = DESK
    scheme: str = "light"
    before: Callable[[Page], Any] = _do_nothing


def shots() -> Iterator[Shot]:
    """Yield the screenshots of every page, wide and narrow, light and dark."""
    pages = {"home": ("/", _wait_for_home), "methods": ("/methods", _do_nothing), "models": ("/models", _do_nothing)}
    pages |= {name: (f"/{name}", _hold_strongest) for name in ("image", "prompt", "text")}
    pages |= {"help": ("/models", _open_help), "visit": ("/image", _open_visit), "in-words": ("/image", _show_words)}
    pages["words"] = ("/text", _open_word_drawers)
    pages |= {
        "versus": ("/image", _show_versus),
        "regions": ("/prompt", _show_regions),
        "prompt-words": ("/prompt?side=text", _scroll_to_question),
    }
    pages |= {name: ("/image", _open_drawer(name)) for name in ("mixer", "layers")}
    pages |= {name: ("/image", _open_tool(name)) for name in ("agreement", "swipe", "brush")} | {"crop": ("/image", _open_crop)}
    pages |= {
        "compare": ("/image?sample=zebra-elephant", _show_compare),
        "look": ("/image", _show_look),
        "history": ("/image", _show_history),
    }
    pages |= {f"deletion-{name}": (f"/{name}", _open_deletion) for name in ("image", "prompt", "text")}
    pages["deletion-words"] = ("/prompt?side=text", _open_deletion)
    pages["method"] = ("/methods/generic_attention", _wait_for_example)
    for name, (path, before) in pages.items():
        for scheme in ("light", "dark"):
            yield Shot(f"{name}-{scheme}", path, DESK, scheme, before)
            yield Shot(f"{name}-{scheme}-narrow", path, PHONE, scheme, before)


def take(browser: Browser, address: str, shot: Shot, out: Path) -> Path:
    """Take the screenshot ``shot`` of the server at ``address`` in ``browser``, write it as a WebP file into ``out``, and return the
    path.
    """
    width, height = shot.window
    scheme: Any = shot.scheme
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
    if shot.before is not _open_visit:
        context.add_init_script(VISITED)
    page = context.new_page()
    page.goto(address + shot.path)
    page.wait_for_load_state("networkidle")
    if page.locator("#plates").count():
        wait_for_maps(page)
    shot.before(page)
    picture = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
    context.close()
    path = out / f"{shot.name}.webp"
    picture.convert("RGB").save(path, quality=QUALITY, method=6)
    return path


@contextmanager
def _server(address: str | None) -> Iterator[str]:
    if address is not None:
        yield address
        return
    with tempfile.TemporaryDirectory() as home, served(Path(home)) as url:
        yield url


def main() -> None:
    """Take the screenshots that ``--only`` names (default: all), write them to the folder of ``--out``, and print their paths."""
    names = [shot.name for shot in shots()]
    views = sorted({name.removesuffix("-narrow").rpartition("-")[0] for name in names})
    parser = argparse.ArgumentParser(description="Take pictures of the real pages.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--address", help="a server that runs already; otherwise one of its own is started")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=[*views, *names],
        default=views,
        help=f"some of: {', '.join(views)}; image-dark-narrow: one picture",
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    with _server(args.address) as address, sync_playwright() as playwright, launched(playwright) as browser:
        for shot in shots():
            if {shot.name, shot.name.removesuffix("-narrow").rpartition("-")[0]} & set(args.only):
                print(take(browser, address, shot, args.out), flush=True)


if __name__ == "__main__":
    main()
