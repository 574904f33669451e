"""The plates of the Image page: their colours are the scores, and a patch is looked at in all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from explainers.rendering.colours import is_two_sided, scale_ends
from tests.browser.support.image_plates import colours
from tests.browser.support.number_format import colour_ends, shown, shown_score
from tests.browser.support.visit import Visit, view


def test_the_colours_are_the_scores_and_evidence_grid_scale_and_opacity_apply_at_once(desk: Visit) -> None:
    desk.open("/image?model=scenes-vit&grid=patches&opacity=100")
    document = desk.document()
    for attribution in document["maps"]:
        scores = np.array(attribution["scores"])
        red, _, blue = colours(desk, attribution).T
        if is_two_sided(scale_ends(scores, attribution["signed"]), attribution["signed"]):
            strong = np.abs(scores) > 0.2 * np.quantile(np.abs(scores), 0.99)
            assert (np.sign(red - blue)[strong] == np.sign(scores)[strong]).all(), attribution["method"]
        else:  # the sequence goes from nearly black over purple and red to pale yellow: green grows all the way
            low, high = np.quantile(scores, (0.01, 0.99))
            top = scores >= high
            if high > low:
                assert red[top].mean() > red[scores <= np.median(scores)].mean(), attribution["method"]

    strongest = next(m for m in document["maps"] if m["signed"] and min(m["scores"]) < 0 < max(m["scores"]))
    scores = np.array(strongest["scores"])
    strong = np.abs(scores) > 0.2 * np.quantile(np.abs(scores), 0.99)
    for choice, hidden in (("for", scores < 0), ("against", scores > 0)):
        with view(desk.page):
            desk.page.get_by_role("radio", name=choice, exact=True).check()
        red, _, blue = colours(desk, strongest).T
        np.testing.assert_allclose(red[hidden], blue[hidden], atol=1)  # grey: only the picture is left
        assert (np.abs(red - blue)[strong & ~hidden] > 5).all()
        assert desk.query["evidence"] == [choice]
    with view(desk.page):
        desk.page.get_by_role("radio", name="both").check()
        desk.page.get_by_role("slider", name="Opacity").fill("0")
    red, green, blue = colours(desk, strongest).T
    np.testing.assert_allclose(red, green, atol=1)
    np.testing.assert_allclose(red, blue, atol=1)
    with view(desk.page):
        desk.page.get_by_role("slider", name="Opacity").fill("100")
        desk.page.get_by_role("radio", name="shared").check()
    families: dict[str, list[Any]] = {}
    for other in document["maps"]:
        families.setdefault(other["readout"], []).append(other)
    assert max(map(len, families.values())) > 1
    for family in families.values():
        high = shown(colour_ends(np.concatenate([m["scores"] for m in family]), family[0]["signed"])[1], 2)
        for other in family:
            assert desk.plate(other["method"]).locator(".ends").inner_text().split()[-1] == high


@pytest.mark.trained
def test_a_patch_is_looked_at_in_every_plate(desk: Visit) -> None:
    desk.open("/image?model=scenes-vit")
    maps = desk.document()["maps"]
    rows, columns = maps[0]["grid"]
    map_canvas = desk.plate(maps[0]["method"]).locator(".map-canvas")
    box = map_canvas.bounding_box()
    assert box is not None

    def values(patch: int) -> None:
        for attribution in maps:
            expect(desk.plate(attribution["method"]).locator(".value")).to_have_text(
                shown_score(attribution["scores"][patch], attribution["signed"])
            )

    patch = 5 * columns + 3
    where = {"x": box["width"] * 3.5 / columns, "y": box["height"] * 5.5 / rows}
    map_canvas.hover(position=where)
    values(patch)
    expect(desk.page.locator("#picture .region .patch")).to_be_visible()
    map_canvas.click(position=where)
    desk.page.mouse.move(2, 2)
    values(patch)  # held
    assert desk.query["focus"] == [str(patch)]
    map_canvas.focus()
    map_canvas.press("ArrowRight")
    values(patch + 1)
    map_canvas.press("ArrowDown")
    values(patch + 1 + columns)
    reached = shown_score(maps[0]["scores"][patch + 1 + columns], maps[0]["signed"])
    expect(desk.page.locator("#reading")).to_contain_text(f"row 7, column 5: {reached}")
    map_canvas.press("Home")
    values(int(np.argmax(np.abs(maps[0]["scores"]))))
    map_canvas.press("Escape")
    expect(desk.page.locator(".value:not(:empty)")).to_have_count(0)
    assert "focus" not in desk.query


def test_a_map_drawn_at_random_says_what_two_seeds_have_in_common(desk: Visit) -> None:
    desk.open("/image?methods=rise%3Fsamples=12&methods=input_x_gradient&methods=random")
    document = desk.document()
    for attribution in document["maps"]:
        seeds, row = attribution.get("seed_correlation"), desk.plate(attribution["method"]).locator(".facts div", has_text="two seeds")
        assert (row.inner_text().split("\n")[-1] == shown(seeds, 2)) if seeds is not None else row.is_hidden()
    drawn = next(one for one in document["maps"] if one["readout"] == "rise")
    assert drawn["seed_correlation"] < 0.5
    warning = desk.plate(drawn["method"]).locator(".warning")
    expect(warning).to_contain_text("This map is mostly noise: with another seed it would correlate with this one by about")
    expect(warning).to_contain_text("ask for ")
