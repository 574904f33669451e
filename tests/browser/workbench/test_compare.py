"""Two models side by side, tiny ones: one with 4 x 4 patches, one with 8 x 8 and other classes; and two readers of texts."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.number_format import percent, shown_range, shown_score
from tests.browser.support.serving import load_models, played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.gated_models import MAKES, USUAL_METHODS, GatedModels, image_model, text_model

FIRST, SECOND = "scenes-vit", "timm/listed"
ACROSS = "(calls) => script('plates/modelpairs.js').then((pairs) => calls.map(([name, ...args]) => pairs[name](...args)))"


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    makes = {**MAKES, SECOND: partial(image_model, ("Zebra", "lion", "owl"), 4), "timm/other": text_model}
    with GatedModels(makes=makes).in_registry() as models, played(tmp_path_factory.mktemp("compare"), models) as address:
        load_models(address, SECOND, "timm/other")
        yield address


@pytest.fixture
def stage(browser: Browser, playing: str) -> Iterator[Visit]:
    yield from visit(browser, playing)


@pytest.fixture
def small(browser: Browser, playing: str) -> Iterator[Visit]:
    yield from visit(browser, playing, 390, "dark")


def explained(stage: Visit, seed: int, **fields: Any) -> Any:
    """Have the first model explain something new, and open its page."""
    document = stage.explained(png(seed), **{"model": FIRST, "methods": USUAL_METHODS, **fields})
    stage.open(f"/image?id={document['id']}")
    return document


def compared(stage: Visit, name: str = SECOND, before: str | None = None) -> Any:
    """Choose the other model, if it is not chosen yet; gives its explanation once its maps are there."""
    if before is None:
        stage.page.get_by_label("Compare with").select_option(name)
    stage.page.wait_for_function("(before) => ![null, before].includes(new URLSearchParams(location.search).get('compare'))", arg=before)
    stage.maps()
    return stage.get(f"/api/explanations/{stage.query['compare'][0]}")


def titles_of(stage: Visit) -> dict[str, str]:
    """What models are called, by name."""
    return {model["name"]: model["title"] for model in stage.get("/api/models")["models"]}


def check(stage: Visit, documents: list[Any]) -> None:
    """A column a model: what it says, what is explained, and its own map by every method."""
    heads = stage.page.locator(".model-head")
    titles = titles_of(stage)
    for side, document in enumerate(documents):
        expect(heads.nth(side).locator(".name")).to_have_text(titles[document["model"]])
        said = [f"{answer['label']}{percent(answer['probability'])}" for answer in document["top"][:3]]
        expect(heads.nth(side).locator("li")).to_have_text([*said, *["\u00a0"] * (3 - len(said))])
        expect(heads.nth(side)).to_contain_text(f"explained: {document['targets'][0]['label']}")
        for attribution in document["maps"]:
            plate = stage.plate(attribution["method"]).nth(side)
            expect(plate.locator(".facts:not(.after)")).to_contain_text(shown_range(attribution))


def test_the_same_picture_through_two_models_and_in_one_figure(stage: Visit) -> None:
    first = explained(stage, 1)
    second = compared(stage)
    assert (first["model"], second["model"]) == (FIRST, SECOND)
    assert (first["targets"][0]["label"], second["targets"][0]["label"]) == ("zebra", "Zebra")  # the label that both know
    assert sorted(attribution["method"] for attribution in second["maps"]) == sorted(USUAL_METHODS)  # asked in the order of the plates
    check(stage, [first, second])
    # what is in focus in one is marked in the other where it lies: four rows and columns of patches against eight
    attribution, other = (
        next(attribution for attribution in document["maps"] if attribution["method"] == USUAL_METHODS[0]) for document in (first, second)
    )
    canvases = stage.plate(attribution["method"]).locator(".map-canvas")
    canvases.nth(0).focus()
    canvases.nth(0).press("Home")
    patch = int(stage.query["focus"][0])
    row, column = divmod(patch, 4)
    across = (2 * row + 1) * 8 + 2 * column + 1  # the centre of a patch lies on the corner of four: the lower right one has it
    expect(canvases.nth(0).locator(".value")).to_have_text(shown_score(attribution["scores"][patch], attribution["signed"]))
    expect(canvases.nth(1).locator(".value")).to_have_text(shown_score(other["scores"][across], other["signed"]))
    box = canvases.nth(1).bounding_box()
    assert box is not None
    canvases.nth(0).press("Escape")
    canvases.nth(1).hover(position={"x": box["width"] * 0.9, "y": box["height"] * 0.05})  # its first row, last column
    expect(canvases.nth(1).locator(".value")).to_have_text(shown_score(other["scores"][7], other["signed"]))
    expect(canvases.nth(0).locator(".value")).to_have_text(shown_score(attribution["scores"][3], attribution["signed"]))
    # the figure names both, and what each explained
    menu = stage.page.locator("#export .menu")
    menu.locator("summary").click()
    with stage.page.expect_download() as waiting:
        menu.get_by_text("SVG of the whole figure").click()
    written = [node.text or "" for node in ET.parse(waiting.value.path()).getroot().iter("{http://www.w3.org/2000/svg}text")]
    for document in (first, second):
        target = document["targets"][0]
        assert any(
            line.startswith(f"{document['model']} · {target['label']}: logit ") and percent(target["probability"]) in line
            for line in written
        )
        assert any(document["weights_digest"][:12] in line for line in written)
        assert sum(line == f"{titles_of(stage)[document['model']]}: {target['label']}" for line in written) == len(document["maps"])


def test_a_class_that_only_one_model_knows(stage: Visit) -> None:
    first = explained(stage, 2, target="elephant")
    second = compared(stage)
    assert second["targets"][0]["label"] == second["top"][0]["label"] == "Zebra"
    check(stage, [first, second])
    expect(stage.page.locator(".model-head").nth(1)).to_contain_text("it has no class “elephant”")
    # another class of the first is asked of both: the second was asked for it already
    stage.page.locator("#classes li button", has_text="zebra").click()
    stage.next_maps(first["id"])
    third = stage.document()
    assert third["targets"][0]["label"] == "zebra"
    expect(stage.page.locator(".model-head").nth(1)).not_to_contain_text("it has no class")
    check(stage, [third, stage.get(f"/api/explanations/{stage.query['compare'][0]}")])


def test_a_link_opens_both_again_and_one_goes_back_to_one(stage: Visit) -> None:
    first = explained(stage, 3)
    second = compared(stage)
    stage.page.reload()
    stage.maps()
    assert (stage.id, stage.query["compare"]) == (first["id"], [second["id"]])
    check(stage, [first, second])
    expect(stage.page.get_by_label("Compare with")).to_have_value(SECOND)
    moved, what = stage.shift()
    assert moved < 0.01, what
    stage.page.get_by_label("Compare with").select_option("")
    stage.maps()
    expect(stage.page.locator(".model-head")).to_have_count(0)
    expect(stage.page.locator(".plate")).to_have_count(len(USUAL_METHODS))
    assert "compare" not in stage.query


def test_a_model_that_is_gone_says_so(stage: Visit) -> None:
    first = explained(stage, 4)
    stage.open(f"/image?id={first['id']}&compare=nothing-of-this-name")
    expect(stage.page.locator("#results-problem [role=alert]")).to_contain_text("nothing-of-this-name")
    expect(stage.page.locator(".plate")).to_have_count(len(USUAL_METHODS))
    stage.refused(404)


def test_places_are_found_across_crops_and_cuttings(stage: Visit) -> None:
    page = stage.open("/history", maps=False)
    whole = {"input": {"width": 400, "height": 200, "crop": [0, 0, 400, 200]}, "grid": [2, 4]}
    centre = {"input": {"width": 800, "height": 400, "crop": [200, 0, 600, 400]}, "grid": [4, 4]}  # twice as large, its middle
    across = page.evaluate(ACROSS, [["patchAcross", at, whole, centre] for at in range(-1, 8)])
    assert across == [-1, -1, 5, 7, -1, -1, 13, 15, -1]
    assert page.evaluate(ACROSS, [["patchAcross", 4, centre, whole]]) == [1]
    words = {"units": [{"start": 0, "end": 4}, {"start": 5, "end": 12}]}
    pieces = {"units": [{"start": 0, "end": 2}, {"start": 2, "end": 4}, {"start": 5, "end": 6}, {"start": 6, "end": 12}]}
    assert page.evaluate(ACROSS, [["unitAcross", at, words, pieces] for at in (-1, 0, 1)]) == [-1, 0, 3]
    assert page.evaluate(ACROSS, [["unitAcross", at, pieces, words] for at in range(4)]) == [0, 0, 1, 1]


def test_a_review_through_two_models_on_a_phone(small: Visit) -> None:
    first = small.explained(model="reviews-bert", text="a dull film, nothing more", methods=USUAL_METHODS)
    small.open(f"/text?id={first['id']}")
    small.page.get_by_role("button", name="Ask more").click()
    second = compared(small, "timm/other")
    check(small, [first, second])
    assert small.page.evaluate("() => document.documentElement.scrollWidth") == 390
    readings = small.plate("rollout").locator(".reading")
    expect(readings).to_have_count(2)
    readings.nth(1).focus()
    readings.nth(1).press("Home")
    expect(readings.nth(0).locator(".on")).to_have_text(readings.nth(1).locator(".on").inner_text())
