"""What opens under the plates of a picture: which methods agree, two maps at one place, patches hidden with a brush."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Locator, Route, expect

from tests.browser.support.accessibility import no_violation_anywhere
from tests.browser.support.number_format import MINUS, percent, shown_score
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit

SPECS = ["raw_attention", "fullgrad_plus:libra", "generic_attention"]
FEW = "&".join(f"methods={spec}" for spec in SPECS)
PIXELS = """
(canvas) => {
  const small = new OffscreenCanvas(64, 64).getContext("2d", { willReadFrequently: true });
  small.drawImage(canvas, 0, 0, 64, 64);
  return [...small.getImageData(0, 0, 64, 64).data];
}
"""


def pixels(canvas: Locator) -> NDArray[np.float64]:
    """(64, 64, 3) of a canvas."""
    return np.array(canvas.evaluate(PIXELS), float).reshape(64, 64, 4)[..., :3]


def drawer(visit: Visit, name: str) -> Any:
    tool = visit.page.locator(f"#drawer-{name}")
    if tool.get_attribute("open") is None:
        tool.locator("summary").first.click()
    return tool


def rounded(value: float) -> str:
    return f"{abs(value):.2f}" if value >= 0 or f"{value:.2f}" == "-0.00" else f"{MINUS}{abs(value):.2f}"


def test_the_table_of_agreement_says_what_the_server_says_and_opens_two_maps(desk: Visit) -> None:
    page = desk.open(f"/image?{FEW}")
    agreement = desk.get(f"/api/explanations/{desk.id}/agreement")
    table = drawer(desk, "agreement")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(3)
    titles = {spec: desk.plate(spec).locator("h2").inner_text() for spec in SPECS}
    for i, spec in enumerate(agreement["methods"]):
        expect(rows.nth(i).locator("th")).to_contain_text(titles[spec])
        shown = ["1" if i == k else rounded(value) for k, value in enumerate(agreement["correlations"][i])]
        assert rows.nth(i).locator("td").all_inner_texts() == shown
    best = max((agreement["correlations"][i][k], i, k) for i in range(3) for k in range(i))
    expect(table.locator(".correlation")).to_contain_text(f"({rounded(best[0])})")

    table.locator("td button").first.focus()  # row 1, column 2
    page.keyboard.press("ArrowDown")  # over the diagonal
    expect(table.locator("button[data-row='2'][data-column='1']")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    swipe = page.locator("#drawer-swipe")
    expect(swipe.locator("[data-drawn=true]")).to_be_visible()
    assert [swipe.locator(f"#swipe-{name}").input_value() for name in ("first", "second")] == [
        agreement["methods"][2],
        agreement["methods"][0],
    ]
    assert desk.query["swipe.first"] == [agreement["methods"][2]]


def test_a_cell_of_a_text_opens_where_the_two_disagree(desk: Visit) -> None:
    desk.open(f"/text?{FEW}")
    agreement = desk.get(f"/api/explanations/{desk.id}/agreement")
    drawer(desk, "agreement").locator("button[data-row='0'][data-column='2']").click()
    other = desk.page.locator("#drawer-disagree")
    expect(other.locator("#disagree-first")).to_have_value(agreement["methods"][0])
    expect(other.locator("#disagree-second")).to_have_value(agreement["methods"][2])
    drawer(desk, "agreement").locator("button[data-row='1'][data-column='2']").click()
    expect(other.locator("#disagree-first")).to_have_value(agreement["methods"][1])


def test_wiping_shows_the_first_map_at_the_left_and_the_second_at_the_right(desk: Visit) -> None:
    page = desk.open(f"/image?grid=patches&opacity=100&{FEW}&open=swipe&swipe.first=raw_attention&swipe.second=fullgrad_plus:libra")
    tool = page.locator("#drawer-swipe")
    canvas = tool.locator(".map-canvas > canvas")
    expect(tool.locator("[data-drawn=true]")).to_be_visible()
    desk.settled()  # the finer picture
    slider = tool.get_by_label("Wipe")
    slider.fill("100")
    first = pixels(canvas)
    slider.fill("0")
    second = pixels(canvas)
    assert np.abs(first - second).mean() > 10
    for spec, drawn in (("raw_attention", first), ("fullgrad_plus:libra", second)):
        assert np.abs(pixels(desk.plate(spec).locator("canvas").first) - drawn).mean() < 6
    slider.fill("25")
    both = pixels(canvas)
    np.testing.assert_array_equal(both[:, :15], first[:, :15])
    np.testing.assert_array_equal(both[:, 17:], second[:, 17:])
    assert desk.query["swipe.border"] == ["25"]

    tool.locator(".map-canvas").scroll_into_view_if_needed()
    edge = tool.locator(".edge").bounding_box()
    box = tool.locator(".map-canvas").bounding_box()
    page.mouse.move(edge["x"] + edge["width"] / 2, edge["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.75 * box["width"], edge["y"] + 60)
    page.mouse.up()
    expect(slider).to_have_value(re.compile("7[456]"))

    map_canvas = tool.locator(".map-canvas")
    map_canvas.focus()
    page.keyboard.press("Home")
    at = int(desk.query["focus"][0])
    for attribution in desk.document()["maps"]:
        if attribution["method"] not in ("raw_attention", "fullgrad_plus:libra"):
            continue
        expect(tool.locator("[role=status]")).to_contain_text(shown_score(attribution["scores"][at], attribution["signed"]))
    page.keyboard.press("Space")
    expect(tool.locator(".seen-now")).to_have_text(re.compile("^shown FullGrad"))
    np.testing.assert_array_equal(pixels(canvas), second)
    page.keyboard.press("Space")
    np.testing.assert_array_equal(pixels(canvas), first)


def test_blinking_is_slow_and_ends_and_is_not_there_where_less_motion_is_asked_for(desk: Visit) -> None:
    page = desk.page
    page.clock.install()
    desk.open(f"/image?{FEW}&open=swipe")
    tool = page.locator("#drawer-swipe")
    expect(tool.locator("[data-drawn=true]")).to_be_visible()
    tool.get_by_label("Change").select_option("2")
    rates = tool.get_by_label("Change").locator("option").evaluate_all("(nodes) => nodes.map((node) => Number(node.value))")
    assert max(rates) / 2 < 3  # two changes are one flash
    tool.get_by_role("button", name="Blink").click()
    seen = tool.locator(".seen-now")
    said = [seen.inner_text()]
    for _ in range(4):
        page.clock.run_for(500)
        said.append(seen.inner_text())
    assert len(set(said)) == 2
    assert all(a != b for a, b in pairwise(said))
    tool.get_by_role("button", name="Blink").click()
    before = seen.inner_text()
    page.clock.run_for(3000)
    assert seen.inner_text() == before

    page.emulate_media(reduced_motion="reduce")
    desk.open(f"/image?{FEW}&open=swipe")
    expect(tool.locator("[data-drawn=true]")).to_be_visible()
    expect(tool.get_by_role("button", name="Blink")).to_be_disabled()
    expect(tool).to_contain_text("asks for less motion")
    before = seen.inner_text()
    tool.get_by_role("button", name="Show the other").click()
    assert seen.inner_text() != before


def answer(desk: Visit, hidden: list[int], **way: str) -> Any:
    response = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/deletion-test", json={"remove": hidden, **way})
    response.raise_for_status()
    return response.json()


def check_answer(desk: Visit, tool: Any, hidden: set[int]) -> None:
    """The page says what the model says without these patches."""
    expect(tool.locator(".now")).to_have_attribute("data-hidden", str(len(hidden)))
    expected = answer(desk, sorted(hidden))
    expect(tool.locator(".now b")).to_have_text(percent(expected["probability"]))
    expect(tool.locator("tbody tr").first).to_contain_text(f"{expected['top'][0]['label']}")
    expect(tool.locator(".cover")).to_have_attribute("data-hidden", str(len(hidden)))


def full_brush(desk: Visit) -> Any:
    """The brush, opened; its table is full before the first answer comes."""
    held: list[Route] = []
    desk.page.route("**/deletion-test", lambda route: held.append(route))
    with desk.page.expect_request("**/deletion-test"):
        tool = drawer(desk, "brush")
    expect(tool.locator("tbody th")).to_have_text([answer["label"] for answer in desk.document()["top"]])
    assert set(tool.locator("tbody td:last-child").all_inner_texts()) == {"0 points"}
    for route in held:
        route.continue_()
    desk.page.unroute_all(behavior="ignoreErrors")
    expect(tool.locator(".now b")).to_have_text(percent(desk.document()["targets"][0]["probability"]))
    expect(tool).to_contain_text("Hidden patches are taken out")
    return tool


@pytest.mark.trained
def test_patches_are_hidden_by_keyboard_and_by_painting_and_the_answer_follows(desk: Visit) -> None:
    page = desk.open(f"/image?model=scenes-vit&{FEW}")
    rows, columns = desk.document()["maps"][0]["grid"]
    tool = full_brush(desk)
    sheet = tool.locator(".canvas")
    sheet.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Space"):
        page.keyboard.press(key)
    check_answer(desk, tool, {columns + 1})
    expect(sheet).to_have_attribute("aria-label", re.compile("1 patch hidden, at row 2, column 2, hidden"))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    check_answer(desk, tool, {columns + 1, columns + 2})
    page.keyboard.press("Control+z")
    check_answer(desk, tool, {columns + 1})
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    check_answer(desk, tool, set())

    sheet.scroll_into_view_if_needed()
    box = sheet.bounding_box()

    def move(row: int, column: int, steps: int = 1) -> None:
        page.mouse.move(box["x"] + (column + 0.5) * box["width"] / columns, box["y"] + (row + 0.5) * box["height"] / rows, steps=steps)

    move(2, 2)
    page.mouse.down()
    move(2, 6, steps=12)
    page.mouse.up()
    first = {row * columns + column for row in (1, 2, 3) for column in range(1, 8)}
    check_answer(desk, tool, first)
    tool.get_by_label("brings back").check(force=True)
    tool.get_by_role("radio", name="1 patch").check(force=True)
    move(2, 2)
    page.mouse.down()
    page.mouse.up()
    check_answer(desk, tool, first - {2 * columns + 2})
    tool.get_by_role("button", name="Undo").click()
    check_answer(desk, tool, first)
    tool.get_by_role("button", name="Hide the rest").click()
    check_answer(desk, tool, set(range(rows * columns)) - first)

    page.reload()
    desk.maps()
    check_answer(desk, tool, set(range(rows * columns)) - first)
    tool.get_by_role("button", name="Bring all back").click()
    check_answer(desk, tool, set())


@pytest.mark.trained
def test_patches_taken_out_or_painted_grey_and_what_the_other_way_gives(desk: Visit) -> None:
    page = desk.open(f"/image?model=scenes-vit&{FEW}")
    patches = len(desk.document()["maps"][0]["scores"])
    tool = full_brush(desk)
    tool.locator(".canvas").focus()
    page.keyboard.press("Space")
    tool.get_by_role("button", name="Hide the rest").click()
    hidden = list(range(1, patches))
    check_answer(desk, tool, set(hidden))
    target = desk.document()["targets"][0]
    removed, painted = answer(desk, hidden), answer(desk, hidden, how="painted")
    assert (removed["how"], painted["how"]) == ("removed", "painted")
    other = tool.locator(".other-way")
    expect(other).to_contain_text(percent(painted["probability"]))
    falls = [outcome["probability"] < target["probability"] for outcome in (removed, painted)]
    expect(other).to_contain_text("If they were painted grey" if falls[0] == falls[1] else "The two ways disagree")
    tool.get_by_role("radio", name="painted grey").check(force=True)
    expect(tool.locator(".now b")).to_have_text(percent(painted["probability"]))
    expect(tool.locator(".now")).to_contain_text(f"{len(hidden)} of {patches} patches painted grey")
    expect(tool).to_contain_text("Hidden patches are painted grey, in the mean colour")
    expect(other).to_contain_text(percent(removed["probability"]))
    page.reload()
    desk.maps()
    expect(tool.get_by_role("radio", name="painted grey")).to_be_checked()
    tool.get_by_role("radio", name="taken out").check(force=True)
    check_answer(desk, tool, set(hidden))
    tool.get_by_role("button", name="Bring all back").click()
    check_answer(desk, tool, set())
    expect(other).to_have_text("\u00a0")


LEAST_DRAWERS = {"/image": 5, "/prompt": 5, "/text": 5, "/molecule": 4}


@pytest.mark.parametrize("path", LEAST_DRAWERS)
def test_no_open_drawer_has_a_violation_that_axe_finds(desk: Visit, path: str) -> None:
    page = desk.open(path, folded=True)
    drawers = page.locator("#drawers > details:visible")
    assert drawers.count() >= LEAST_DRAWERS[path]
    for drawer in drawers.all():
        drawer.locator("summary").first.click()
        expect(drawer).to_have_attribute("open", "")
        desk.settled()
    no_violation_anywhere(page)


@pytest.mark.parametrize("path", LEAST_DRAWERS)
def test_no_open_panel_has_a_violation_that_axe_finds(desk: Visit, path: str) -> None:
    """The menus over the maps, the deletion test, a large plate and the help."""
    page = desk.open(path, folded=True)
    page.locator("#removed").fill("20")
    expect(page.locator(".panels svg")).to_have_count(2)
    no_violation_anywhere(page)
    for place in ("#controls", "#export", "#why"):
        for menu in page.locator(f"{place} details").all():
            menu.locator("summary").first.click()
            expect(menu).to_have_attribute("open", "")
            no_violation_anywhere(page, within=place)
            page.keyboard.press("Escape")
    for opener in (page.locator(".enlarge:visible").first, page.get_by_role("button", name="Help")):
        opener.click()
        expect(page.locator("dialog[open]")).to_be_visible()
        no_violation_anywhere(page, within="dialog[open]")
        page.keyboard.press("Escape")


@pytest.mark.parametrize("path", ["/image", "/prompt"])
def test_the_dialog_of_the_crop_has_no_violation_that_axe_finds(desk: Visit, path: str) -> None:
    page = desk.open(f"{path}?{FEW}", folded=True)
    page.get_by_role("button", name="Crop").click()
    expect(page.get_by_role("dialog", name="What shall the model see?")).to_be_visible()
    no_violation_anywhere(page, within="dialog[open]")


@pytest.mark.parametrize("path", LEAST_DRAWERS)
def test_the_dialog_with_exported_lines_has_no_violation_that_axe_finds(desk: Visit, path: str) -> None:
    """It shows where the browser does not let a page copy."""
    page = desk.open(f"{path}?{FEW}", folded=True)
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
    page.locator("#export summary").click()
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.locator("dialog[open]")).to_be_visible()
    no_violation_anywhere(page, within="dialog[open]")
