"""Which plate is recommended, and the two pairs of maps that are most and least alike."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.support.number_format import percent
from tests.browser.support.visit import Visit


@pytest.mark.trained
@pytest.mark.parametrize("width", [1440, 390])
def test_somebody_new_finds_which_method_to_look_at_first_and_why(desk: Visit, width: int) -> None:
    """On the first screen, without a press: what was found, which map to look at first, what was measured of it, and that map."""
    desk.page.set_viewport_size({"width": width, "height": 900 if width > 390 else 844})
    page = desk.open("/prompt", folded=True)
    document = desk.document()
    bar = page.locator(".deletion-bar").bounding_box()
    assert bar is not None

    def height_in_sight(where: str) -> float:
        box = page.locator(where).first.bounding_box()
        assert box is not None
        return min(box["y"] + box["height"], bar["y"]) - max(box["y"], 0)

    assert page.evaluate("() => scrollY") == 0
    lead = page.locator(".advice.lead")
    first = page.locator(".matrix .line:not(.head)").first
    expect(first.locator(".mark")).to_have_text("Recommended")
    expect(lead).to_contain_text(f"Look at {first.locator('h2').inner_text()} first.")
    listed = desk.get(f"/api/methods?model={document['model']}")["standing"]
    best = listed["ranks"][first.get_attribute("data-row") or ""]
    for share in (best["value"], listed["random"]):
        expect(lead).to_contain_text(percent(share))
    box = lead.bounding_box()
    assert box is not None
    assert height_in_sight(".advice.lead") == box["height"]
    assert height_in_sight("#picture img") > 80
    assert height_in_sight(".matrix .map-canvas") > 120
    assert [target.get("abstention") for target in document["targets"]] == [None, None]
    expect(page.locator("#overview")).to_contain_text("It found “a photo of a cat” and “a photo of a cup of coffee”.")
    for line in page.locator("#prompts .likeness").all_inner_texts():
        assert line.startswith("found · ")  # a small share of a thing that is there reads as if it were not


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
    expect(page.locator(".plate").first.locator(".standing .mark")).to_have_text("Recommended")
    expect(page.locator(".standing .mark")).to_have_count(1)
    lines.last.click()
    expect(page.locator("#drawer-swipe")).to_have_attribute("open", "")
    chosen = {page.locator(f"#swipe-{name}").input_value() for name in ("first", "second")}
    least = min(value for value, _, _ in pairs)
    assert chosen in [specs for value, _, specs in pairs if np.isclose(value, least)]
