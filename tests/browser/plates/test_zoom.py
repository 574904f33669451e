"""A plate at full size: the same numbers, linked to the page, by pointer and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.support.number_format import shown_score
from tests.browser.support.serving import VISITED, wait_for_maps
from tests.browser.support.visit import Visit

FEW = "methods=raw_attention&methods=fullgrad_plus:libra&methods=generic_attention"
SPEC = "fullgrad_plus:libra"
# The mean colour of each patch of the first canvas of a node, read from the canvas.
COLOURS = """
(canvas, [rows, columns]) => {
  const small = new OffscreenCanvas(columns, rows).getContext("2d", { willReadFrequently: true });
  small.imageSmoothingQuality = "high";
  small.drawImage(canvas, 0, 0, columns, rows);
  return [...small.getImageData(0, 0, columns, rows).data];
}
"""


def dialog(visit: Visit) -> Any:
    return visit.page.locator("dialog.zoom")


def test_a_plate_at_full_size_shows_the_same_map_and_stays_linked(desk: Visit) -> None:
    page = desk.open(f"/image?grid=patches&{FEW}")
    attribution = next(attribution for attribution in desk.document()["maps"] if attribution["method"] == SPEC)
    scores, (_, columns) = attribution["scores"], attribution["grid"]
    best = max(range(len(scores)), key=lambda i: abs(scores[i]))
    plate = desk.plate(SPEC).first
    plate.hover()
    plate.get_by_role("button", name="full size").click()
    large = dialog(desk)
    expect(large).to_be_visible()
    assert "focus" not in desk.query  # the click held no patch
    map_canvas = large.locator(".map-canvas")
    expect(map_canvas).to_be_focused()
    assert map_canvas.bounding_box()["width"] > 2 * plate.locator(".map-canvas").bounding_box()["width"]
    expect(large.locator("h2")).to_have_text(attribution["title"])

    page.keyboard.press("Home")
    said = shown_score(scores[best], attribution["signed"])
    expect(map_canvas.locator(".value")).to_have_text(said)
    expect(plate.locator(".value")).to_have_text(said)
    expect(page).to_have_url(re.compile(rf"[?&]focus={best}(&|$)"))
    page.keyboard.press("ArrowRight" if best % columns < columns - 1 else "ArrowLeft")
    beside = best + (1 if best % columns < columns - 1 else -1)
    expect(map_canvas.locator(".value")).to_have_text(shown_score(scores[beside], attribution["signed"]))
    rows = len(scores) // columns
    page.keyboard.press("Escape")
    expect(large).to_have_count(0)
    expect(plate.locator(".map-canvas")).to_be_focused()
    expect(page).to_have_url(re.compile(rf"[?&]focus={beside}(&|$)"))  # what is held stays held
    page.keyboard.press("Escape")  # on the plate, it lets go
    expect(page).not_to_have_url(re.compile(r"[?&]focus="))

    page.keyboard.press("Enter")
    expect(large.locator(".map-canvas")).to_be_focused()
    box = large.locator(".map-canvas").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"] / columns, box["y"] + 0.5 * box["height"] / rows)
    expect(plate.locator(".value")).to_have_text(shown_score(scores[0], attribution["signed"]))


def test_the_large_canvas_has_the_colours_of_the_small_one_and_follows_the_controls(desk: Visit) -> None:
    page = desk.open(f"/image?model=scenes-vit&grid=patches&opacity=100&{FEW}")
    plate = desk.plate(SPEC).first
    grid = next(attribution for attribution in desk.document()["maps"] if attribution["method"] == SPEC)["grid"]
    plate.locator(".map-canvas").focus()
    page.keyboard.press("Enter")
    canvas = dialog(desk).locator("canvas").first
    expect(dialog(desk).locator("[data-drawn=true]")).to_be_visible()

    def apart() -> float:
        small, large = (drawn.evaluate(COLOURS, grid) for drawn in (plate.locator("canvas").first, canvas))
        return sum(abs(a - b) for a, b in zip(small, large, strict=True)) / len(small)

    assert apart() < 4
    before = canvas.evaluate(COLOURS, grid)
    page.evaluate("() => document.querySelector('[name=view-evidence][value=against]').click()")
    assert canvas.evaluate(COLOURS, grid) != before
    assert apart() < 4


@pytest.mark.parametrize(("path", "model"), [("/image", "scenes-vit"), ("/text", "reviews-bert")])
def test_what_the_deletion_test_removed_is_removed_at_full_size_too(desk: Visit, path: str, model: str) -> None:
    page = desk.open(f"{path}?model={model}&{FEW}")
    page.locator("#removed").fill("30")
    plate = desk.plate(SPEC)
    lost = plate.locator(".cover[data-removed]" if path == "/image" else "[data-removed]")
    expect(lost.first).to_be_attached(timeout=60_000)
    count = page.locator(".removal output").inner_text().split("·")[1].strip()  # "59 of 196"
    read = "(canvas) => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    small = lost.evaluate(read) if path == "/image" else lost.all_inner_texts()
    plate.locator(".enlarge").click()
    shown = dialog(desk)
    expect(shown.locator(".bar")).to_contain_text(f"most relevant removed: {count}")
    if path == "/image":
        expect(shown.locator(".cover")).to_have_attribute("data-removed", count.split()[0])
        assert shown.locator(".cover").evaluate(read) == small
    else:
        assert shown.locator("[data-removed]").all_inner_texts() == small


def test_page_keys_go_from_plate_to_plate_and_another_picture_closes_it(desk: Visit) -> None:
    page = desk.open(f"/image?{FEW}")
    names = page.locator(".plate h2").all_inner_texts()
    page.locator(".plate .map-canvas").first.focus()
    page.keyboard.press("Enter")
    heading = dialog(desk).locator("h2")
    expect(heading).to_have_text(names[0])
    page.keyboard.press("PageDown")
    expect(heading).to_have_text(names[1])
    dialog(desk).get_by_role("button", name="The plate before").click()
    page.keyboard.press("PageUp")
    expect(heading).to_have_text(names[2])  # round the end
    dialog(desk).get_by_role("button", name="Close").click()
    expect(page.locator(".plate .map-canvas").nth(2)).to_be_focused()

    before = desk.id
    page.keyboard.press("Enter")
    expect(dialog(desk)).to_be_visible()
    page.locator("#samples button[aria-pressed=false]").first.evaluate("(button) => button.click()")
    expect(dialog(desk)).to_have_count(0)
    desk.next_maps(before)


@pytest.mark.parametrize("path", [f"/image?model=scenes-vit&{FEW}", f"/text?{FEW}"], ids=["/image", "/text"])
def test_on_a_phone_it_fills_the_window(phone: Visit, path: str) -> None:
    page = phone.open(path)
    page.locator(".plate .enlarge").first.click()
    box = dialog(phone).bounding_box()
    assert (box["x"], box["width"]) == (0, 390)
    assert dialog(phone).evaluate("(node) => node.scrollWidth <= node.clientWidth")
    dialog(phone).get_by_role("button", name="Close").click()
    expect(dialog(phone)).to_have_count(0)


def check_buttons(page: Page, address: str, least: int, press: Callable[[Locator], None]) -> None:
    """On every page, the button of each plate lies beside its map, has this many pixels at least, and works."""
    for path in ("/image?model=scenes-vit&", "/prompt?", "/text?"):
        page.goto(f"{address}{path}{FEW}")
        wait_for_maps(page)
        covered = page.locator("#plates .plate").evaluate_all(
            """(plates) => plates.map((plate) => {
              const [button, map] = [".enlarge", ".map-canvas, .reading"]
                .map((which) => plate.querySelector(which).getBoundingClientRect());
              return !(button.bottom <= map.top || button.top >= map.bottom || button.right <= map.left || button.left >= map.right);
            })"""
        )
        assert covered
        assert not any(covered)
        button = page.locator("#plates .enlarge").first
        box = button.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= least
        press(button)
        expect(page.locator("dialog.zoom")).to_be_visible()


def test_the_button_covers_nothing_of_a_map(desk: Visit) -> None:
    check_buttons(desk.page, desk.address, 24, Locator.click)


def test_the_button_covers_nothing_of_a_map_where_it_is_touched(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.add_init_script(VISITED)
    check_buttons(context.new_page(), address, 32, Locator.tap)
    context.close()
