"""Which plate is recommended, and the two pairs of maps that are most and least alike."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import FloatRect, Page, expect

from tests.browser.support.number_format import percent
from tests.browser.support.visit import Visit

SIZES = {1440: 900, 390: 844}


def box_of(page: Page, where: str) -> FloatRect:
    box = page.locator(where).first.bounding_box()
    assert box is not None, where
    return box


@pytest.mark.trained
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("path", ["/image", "/prompt", "/prompt?sample=photo-cat-prompts", "/text"])
def test_the_first_map_is_whole_on_the_first_screen(desk: Visit, path: str, width: int) -> None:
    """Without a press: the maps of the first row on a desktop, the first of them on a phone."""
    height = SIZES[width]
    desk.page.set_viewport_size({"width": width, "height": height})
    page = desk.open(path, folded=True)
    assert page.evaluate("() => [scrollY, document.documentElement.scrollWidth]") == [0, width]
    expect(page.locator("#results-problem [role=alert]")).to_have_count(0)
    where = ".regions .map-canvas" if path == "/prompt" else ".recommended :is(.map-canvas, .reading)"
    first = box_of(page, where)
    assert first["y"] >= 0
    assert first["y"] + first["height"] <= height
    if width == 1440:
        assert first["y"] < 420
        assert first["width"] >= 260
        for map_canvas in page.locator(".plate[data-group=best] :is(.map-canvas)").all():
            box = map_canvas.bounding_box()
            assert box is not None
            assert (box["y"], box["width"]) == (first["y"], first["width"])


@pytest.mark.trained
def test_somebody_new_finds_which_method_to_look_at_first_and_why(desk: Visit) -> None:
    page = desk.open("/prompt", folded=True)
    document = desk.document()
    lead = page.locator(".advice.lead")
    first = page.locator(".matrix .line:not(.head)").first
    expect(first.locator(".mark")).to_have_text("Recommended")
    expect(lead).to_contain_text(f"Look at {first.locator('h2').inner_text()} first.")
    listed = desk.get(f"/api/methods?model={document['model']}")["standing"]
    best = listed["ranks"][first.get_attribute("data-row") or ""]
    for share in (best["value"], listed["random"]):
        expect(lead).to_contain_text(percent(share))
    expect(page.locator("#regions-method")).to_have_value(first.get_attribute("data-row") or "")  # the first picture is of its maps
    assert [target.get("abstention") for target in document["targets"]] == [None, None]
    expect(page.locator("#overview")).to_contain_text("It found “a photo of a cat” and “a photo of a cup of coffee”.")
    for line in page.locator("#prompts .likeness").all_inner_texts():
        assert line.startswith("found\n")  # a small share of a thing that is there reads as if it were not


def test_a_plate_has_a_name_a_legend_and_one_line_and_the_rest_on_press(desk: Visit) -> None:
    spec = "rollout"
    page = desk.open(f"/image?methods={spec}&methods=fullgrad_plus:libra", folded=True)
    plate = desk.plate(spec)
    for seen in ("h2", ".ramp", ".meaning", ".plainly"):
        expect(plate.locator(seen)).to_be_visible()
    hidden = (".standing", ".facts:not(.after)", ".note", ".take", ".ends")
    for rest in hidden:
        expect(plate.locator(rest)).to_be_hidden()
    button = plate.get_by_role("button", name="rank, time and notes")
    button.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    for rest in hidden:
        expect(plate.locator(rest)).to_be_visible()
    expect(desk.plate("fullgrad_plus:libra").locator(".facts:not(.after)")).to_be_hidden()
    button.press("Enter")
    expect(plate.locator(".note")).to_be_hidden()
    expect(page.locator(".rules")).to_contain_text("Libra: ")  # said once for all plates


def test_the_rank_of_a_map_in_doubt_is_said_to_be_of_other_inputs(desk: Visit) -> None:
    desk.open("/image?model=scenes-vit&methods=rollout&methods=fullgrad_plus:libra")
    plate = desk.plate("rollout")
    expect(plate.locator(".standing b")).to_be_visible()
    expect(plate.locator(".elsewhere")).to_be_hidden()
    plate.locator(".note").evaluate("(note) => note.classList.add('doubtful')")  # as where the map of this input is in doubt
    expect(plate.locator(".elsewhere")).to_be_visible()
    expect(desk.plate("fullgrad_plus:libra").locator(".elsewhere")).to_be_hidden()


def test_under_the_first_plates_stand_the_pairs_of_the_page_and_a_press_lays_them_over_each_other(desk: Visit) -> None:
    page = desk.open("/image", folded=True)
    document = desk.document()
    alike = desk.get(f"/api/explanations/{document['id']}/agreement")
    titles = {attribution["method"]: attribution["title"] for attribution in document["maps"]}
    pairs = [
        (value, {titles[alike["methods"][row]], titles[alike["methods"][column]]}, {alike["methods"][row], alike["methods"][column]})
        for row, values in enumerate(alike["correlations"])
        for column, value in enumerate(values[:row])
        if value is not None and "random" not in (alike["methods"][row], alike["methods"][column])
    ]
    lines = page.locator(".map-similarity .pair")
    expect(lines).to_have_count(2)
    for line, best in ((lines.first, max), (lines.last, min)):
        end = best(value for value, _, _ in pairs)
        said = line.inner_text().replace("\n", " ")
        assert f"{end:.2f}".replace("-", "\u2212") in said
        assert any(all(title in said for title in names) for value, names, _ in pairs if np.isclose(value, end))
        expect(line.locator("canvas")).to_have_count(2)
        assert all(
            line.locator("canvas").evaluate_all(
                "(all) => all.map((one) => new Set(one.getContext('2d').getImageData(0, 0, 96, 96).data).size > 2)"
            )
        )
    expect(page.locator(".plate").first.locator(".mark")).to_have_text("Recommended")
    expect(page.locator(".plate .mark")).to_have_count(1)
    lines.last.click()
    expect(page.locator("#drawer-swipe")).to_have_attribute("open", "")
    chosen = {page.locator(f"#swipe-{name}").input_value() for name in ("first", "second")}
    least = min(value for value, _, _ in pairs)
    assert chosen in [specs for value, _, specs in pairs if np.isclose(value, least)]


def test_what_is_said_of_rules_is_of_plates_in_sight(desk: Visit) -> None:
    """A line on a rule whose plates are folded away comes with them: under the plates, or on one that another is like."""
    page = desk.open("/image", folded=True)
    listed = desk.get(f"/api/methods?model={desk.document()['model']}")
    own, lines = {}, {}
    for method in listed["methods"]:
        shortest = min((pair["line"] for pair in method["pairs"]), key=len)
        for pair in method["pairs"]:
            own[pair["spec"]], lines[pair["spec"]] = shortest, pair["line"]

    def rules(specs: list[str]) -> set[str]:
        return {lines[spec].removeprefix(own[spec]).strip() for spec in specs} - {""}

    visible = "(nodes) => nodes.filter((node) => node.checkVisibility()).map((node) => node.dataset.spec)"
    first = page.locator(".plate").evaluate_all(visible)
    everything = page.locator(".plate").evaluate_all("(nodes) => nodes.map((node) => node.dataset.spec)")
    assert rules(first) < rules(everything)  # else this shows nothing

    def said() -> str:
        return " ".join(page.locator(".rules:visible, .plate:visible .plainly p").all_inner_texts())

    for line in rules(everything):
        assert (line in said()) == (line in rules(first))
    page.get_by_role("button", name="more methods").click()
    expect(page.locator(".plate:visible")).to_have_count(len(everything))
    for line in rules(everything):
        assert line in said()


def test_a_plate_that_is_opened_leaves_the_others_as_high_as_they_are(desk: Visit) -> None:
    page = desk.open("/image", folded=True)
    plates = page.locator(".plate:visible")
    heights = "(nodes) => nodes.map((node) => Math.round(node.getBoundingClientRect().height))"
    before = plates.evaluate_all(heights)
    assert len(before) == 4
    plates.nth(1).get_by_role("button", name="rank, time and notes").click()
    after = plates.evaluate_all(heights)
    assert after[1] > before[1] + 40
    assert all(now <= then for i, (now, then) in enumerate(zip(after, before, strict=True)) if i != 1)
