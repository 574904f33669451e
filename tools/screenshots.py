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
QUALITY = 80  # of the WebP files


def _stay(page: Page) -> None:
    """Nothing to do first."""


def _hold_strongest(page: Page) -> None:
    """Hold the strongest patch or word of the last signed map, and go back to the top of the page."""
    plates = page.locator(".plate:has(.ramp.signed):not(.difference)")
    plates.last.locator(".map-canvas, .reading").focus()
    page.keyboard.press("Home")
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def _doors(page: Page) -> None:
    """Until the live plate and the findings are there."""
    expect(page.locator("#findings li")).to_have_count(3, timeout=60_000)


def _taken_away(page: Page) -> None:
    """The deletion test, a third of the tokens removed, and on the Text page two words clicked away."""
    page.locator("#removed").fill("35")
    expect(page.locator(".panels svg")).to_have_count(2, timeout=60_000)
    if page.get_by_role("button", name="Remove words").count():
        page.get_by_role("button", name="Remove words").click()
        for word in (3, 6):
            page.locator(".editing .word").nth(word).click()
        expect(page.locator("#edits")).to_have_attribute("data-edited", "2", timeout=60_000)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")


def _help(page: Page) -> None:
    """The help dialog, open."""
    page.get_by_role("button", name="Help").click()


def _visit(page: Page) -> None:
    """The second step of the guided visit."""
    page.get_by_role("button", name="Show me").click()
    page.get_by_role("button", name="Next").click()


def _in_words(page: Page) -> None:
    """Every map told in words."""
    with view(page):
        page.get_by_role("radio", name="yes").check()


def _word_drawers(page: Page) -> None:
    """What lies under the plates of a text alone, all of it open, and a word swapped."""
    for name in ("wordtable", "disagree", "probe"):
        page.locator(f"#drawer-{name} summary").click()
    page.get_by_role("button", name="First names").click()
    page.get_by_role("button", name="Swap the words").click()
    expect(page.locator("#drawer-probe .found table")).to_be_visible(timeout=60_000)
    page.evaluate("() => document.getElementById('drawer-disagree').scrollIntoView()")


def _next_maps(page: Page, before: str) -> None:
    """Until the address names another explanation than ``before`` did, and every plate is drawn."""
    page.wait_for_function("(before) => new URL(location).searchParams.get('id') !== new URL(before).searchParams.get('id')", arg=before)
    wait_for_maps(page)


def _versus(page: Page) -> None:
    """The first two classes side by side."""
    before = page.url
    page.locator(".tick input:not(:checked)").first.check()
    _next_maps(page, before)
    page.evaluate("() => { document.activeElement.blur(); document.querySelector('.pairing').scrollIntoView(); }")


def _regions(page: Page) -> None:
    """A ready set of prompts, and who wins which patch."""
    before = page.url
    ask_more = page.locator(".ask-more")  # on a phone the sets are behind it
    if ask_more.is_visible():
        ask_more.click()
    page.locator(".sets button").nth(1).click()
    _next_maps(page, before)
    page.locator(".regions summary").click()
    expect(page.locator(".painting [data-drawn=true]")).to_be_visible()
    page.evaluate("() => { document.activeElement.blur(); document.querySelector('.regions').scrollIntoView(); }")


def _from_the_question(page: Page) -> None:
    """From the question on down."""
    page.evaluate("() => { document.activeElement.blur(); document.querySelector('main h1').scrollIntoView(); }")


def _example(page: Page) -> None:
    """Until the method stands on its sample."""
    expect(page.locator(".plate[data-state=done]")).to_be_visible(timeout=60_000)


def _drawer(name: str) -> Callable[[Page], Any]:
    """A drawer under the plates, open and full."""

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


def _tool(name: str) -> Callable[[Page], Any]:
    """A drawer that compares or changes what is on show."""

    def before(page: Page) -> None:
        tool = page.locator(f"#drawer-{name}")
        tool.locator("summary").first.click()
        expect(tool.locator(".body > *").last).to_be_visible()
        page.wait_for_load_state("networkidle")
        tool.evaluate("(node) => { node.scrollIntoView(); document.activeElement.blur(); }")

    return before


def _crop(page: Page) -> None:
    """The frame over the whole picture, made smaller."""
    page.get_by_role("button", name="Crop").click()
    expect(page.get_by_role("dialog", name="What shall the model see?")).to_be_visible()
    for _ in range(4):
        page.keyboard.press("-")


def _look(page: Page) -> None:
    """The lens over the strongest patch, other colours, and the menu of the whole figure."""
    for field, value in (("Smoothing", "bicubic"), ("For, against", "orange-purple"), ("Strength", "viridis")):
        with view(page):
            page.get_by_label(field).select_option(value)
    _hold_strongest(page)
    page.locator("#export summary").click()


def _compare(page: Page) -> None:
    """The same picture through a second model, which knows other classes."""
    more = page.get_by_role("button", name="Ask more")
    if more.is_visible():
        more.click()
    page.locator("#compare").select_option("photos-vit")
    page.wait_for_function("() => new URLSearchParams(location.search).has('compare')")
    wait_for_maps(page)
    page.evaluate("() => { document.activeElement.blur(); document.querySelector('main h1').scrollIntoView(); }")


def _history(page: Page) -> None:
    """After a picture, a text and prompts were explained."""
    address = page.url.partition("/image")[0]
    for name in ("image", "text", "prompt"):
        page.goto(f"{address}/{name}")
        wait_for_maps(page)
    page.goto(f"{address}/history")
    expect(page.locator(".record")).to_have_count(3)
    page.wait_for_load_state("networkidle")


@dataclass(frozen=True)
class Shot:
    """One picture: its name, the page, the window, the colours, and what to do before it is taken."""

    name: str
    path: str
    window: tuple[int, int] = DESK
    scheme: str = "light"
    before: Callable[[Page], Any] = _stay


def shots() -> Iterator[Shot]:
    """Every page, wide and narrow, light and dark."""
    pages = {"home": ("/", _doors), "methods": ("/methods", _stay), "models": ("/models", _stay)}
    pages |= {name: (f"/{name}", _hold_strongest) for name in ("image", "prompt", "text")}
    pages |= {"help": ("/models", _help), "visit": ("/image", _visit), "in-words": ("/image", _in_words)}
    pages["words"] = ("/text", _word_drawers)
    pages |= {"versus": ("/image", _versus), "regions": ("/prompt", _regions), "prompt-words": ("/prompt?side=text", _from_the_question)}
    pages |= {name: ("/image", _drawer(name)) for name in ("mixer", "layers")}
    pages |= {name: ("/image", _tool(name)) for name in ("agreement", "swipe", "brush")} | {"crop": ("/image", _crop)}
    pages |= {"compare": ("/image?sample=zebra-elephant", _compare), "look": ("/image", _look), "history": ("/image", _history)}
    pages |= {f"deletion-{name}": (f"/{name}", _taken_away) for name in ("image", "prompt", "text")}
    pages["deletion-words"] = ("/prompt?side=text", _taken_away)
    pages["method"] = ("/methods/generic_attention", _example)
    for name, (path, before) in pages.items():
        for scheme in ("light", "dark"):
            yield Shot(f"{name}-{scheme}", path, DESK, scheme, before)
            yield Shot(f"{name}-{scheme}-narrow", path, PHONE, scheme, before)


def take(browser: Browser, address: str, shot: Shot, out: Path) -> Path:
    """Take one picture and write it as a WebP file."""
    width, height = shot.window
    scheme: Any = shot.scheme
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
    if shot.before is not _visit:
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
    """Take the pictures that are asked for."""
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
