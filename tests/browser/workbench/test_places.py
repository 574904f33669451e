"""The box "Place": a word of a text, a patch of a picture, a picture to compare with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import explainers
from explainers.models.catalogue import CatalogueEntry
from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.tiny_models import make_tiny
from tests.support.task_models import TEXT, backbone, detector, heads, segmenter, token_classifier
from vitrine_server.jobs.catalogue.model_source import ModelSource

MAKES = {
    "scenes-vit": ("image", backbone),
    "reviews-bert": ("text", token_classifier),
    "clip": ("clip", partial(make_tiny, "clip")),
    "boxes": ("image", detector),
    "regions": ("image", segmenter),
    "outputs": ("image", heads),
}


class TaskModels:
    """Models with a task."""

    def load(self, name: str, device: str | None = None, /, **ways: Any) -> explainers.Model:
        return replace(MAKES[name][1](), name=name)

    def source(self) -> ModelSource:
        catalogue: Any = [CatalogueEntry(name, kind, name, "", True, "") for name, (kind, _) in MAKES.items()]  # type: ignore[arg-type]
        return ModelSource(catalogue, self.load)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with played(tmp_path_factory.mktemp("places"), TaskModels(), device="cpu") as address:
        yield address


@pytest.fixture(params=[1440, 390])
def desk(browser: Browser, server: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    yield from visit(browser, server, request.param)


def test_another_word_is_asked_about(desk: Visit) -> None:
    first = desk.explained(model="reviews-bert", text=TEXT, methods=["attcat:libra", "random"])
    page = desk.open(f"/text?id={first['id']}")
    choice = page.locator("#place")
    expect(choice.locator(".asked-about")).to_have_text(f"Asked about {first['place']['label']}")
    words = choice.locator(".places button")
    expect(words.locator("span")).to_have_text([place["label"] for place in first["places"]])
    before = desk.id
    words.get_by_text("film").click()
    desk.next_maps(before)
    expect(choice.locator(".asked-about b")).to_have_text("film")
    document = desk.document()
    assert (document["at"], document["methods"]) == ("token:8", first["methods"])
    no_violation(page)
    page.reload()
    expect(choice.locator("[aria-pressed=true]")).to_have_text(re.compile("film"))


def test_a_patch_that_is_held_is_asked_about_and_a_picture_compared(desk: Visit, server: str, tmp_path: Path) -> None:
    first = desk.explained(png(), model="scenes-vit", methods=["fullgrad_plus:libra", "random"])
    page = desk.open(f"/image?id={first['id']}")
    choice = page.locator("#place")
    expect(choice.locator(".asked-about b")).to_have_text(first["place"]["label"])
    plate = page.locator(".plate canvas").first
    box = plate.bounding_box()
    assert box is not None
    plate.click(position={"x": box["width"] * 0.6, "y": box["height"] * 0.4})  # the patch in row 2, column 3 of 4
    before = desk.id
    choice.get_by_role("button", name="Ask about the patch in row 2, column 3").click()
    desk.next_maps(before)
    assert desk.document()["at"] == "patch:1,2"
    alike = page.locator("#drawer-patchsimilarity")
    alike.locator("summary").click()
    expect(alike.locator("figcaption").last).to_contain_text("the one in row 1, column 1")
    answer = page.request.post(f"{server}/api/explanations/{desk.id}/patch-similarity", data={"patch": 0}).json()
    colours = alike.locator("canvas").first.evaluate("canvas => [...canvas.getContext('2d').getImageData(0, 0, 1, 1).data]")
    assert colours[:3] == pytest.approx([255 * share for share in answer["colours"][0]], abs=1)
    before = desk.id
    other = tmp_path / "other.png"
    other.write_bytes(png(1))
    choice.locator("input[type=file]").set_input_files(other)
    desk.next_maps(before)
    compared = desk.document()
    assert (compared["at"], compared["targets"][0]["label"]) == ("similar", "similarity to the reference")
    before = desk.id
    choice.get_by_label("Place", exact=True).fill("component:2")
    choice.get_by_role("button", name="Ask", exact=True).click()
    desk.next_maps(before)
    assert desk.document()["at"] == "component:2"
    no_violation(page)


def test_a_box_is_pressed_in_the_picture(desk: Visit) -> None:
    first = desk.explained(png(size=(64, 64)), model="boxes", methods=["fullgrad_plus:libra", "random"])
    page = desk.open(f"/image?id={first['id']}")
    boxes = page.locator("#picture .box")
    expect(boxes).to_have_count(len(first["places"]))
    other = next(i for i, place in enumerate(first["places"]) if place["at"] != first["at"])
    x0, y0, *_ = first["places"][other]["box"]
    region, drawn = page.locator("#picture .place-boxes").bounding_box(), boxes.nth(other).bounding_box()
    assert region is not None
    assert drawn is not None
    assert drawn["x"] == pytest.approx(region["x"] + max(0, x0) * region["width"], abs=2)
    assert drawn["y"] == pytest.approx(region["y"] + max(0, y0) * region["height"], abs=2)
    before = desk.id
    boxes.nth(other).dispatch_event("click")  # boxes of a random model lie over each other
    desk.next_maps(before)
    assert desk.document()["at"] == first["places"][other]["at"]
    no_violation(page)


def test_a_region_is_drawn_over_the_picture(desk: Visit) -> None:
    first = desk.explained(png(size=(64, 64)), model="regions", methods=["fullgrad_plus:libra", "random"])
    page = desk.open(f"/image?id={first['id']}")
    expect(page.locator("#place .places button")).to_have_count(len(first["places"]))
    sheet = page.locator("#picture .drawing")
    sheet.scroll_into_view_if_needed()
    box = sheet.bounding_box()
    assert box is not None
    before = desk.id
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 0.25 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"], steps=3)
    page.mouse.up()
    desk.next_maps(before)
    shares = [float(share) for share in desk.document()["at"].removeprefix("region:").split(",")]
    assert shares == pytest.approx([0.25, 0.25, 0.75, 0.5], abs=0.02)


def test_the_nearest_kinds_are_a_button(desk: Visit) -> None:
    first = desk.explained(png(size=(64, 64)), model="regions", target="dog", methods=["fullgrad_plus:libra", "random"])
    page = desk.open(f"/image?id={first['id']}")
    page.locator("#why summary", has_text="Why not").click()
    before = desk.id
    page.get_by_role("button", name="against its nearest kinds").click()
    desk.next_maps(before)
    assert desk.document()["targets"][0]["label"] == "dog (against its nearest kinds)"


def test_an_output_is_asked_about_by_its_name_in_its_unit(desk: Visit) -> None:
    first = desk.explained(png(), model="outputs", methods=["fullgrad_plus:libra", "random"])
    page = desk.open(f"/image?id={first['id']}")
    assert first["at"] == "species"
    before = desk.id
    page.locator("#place .places button").get_by_text("weight").click()
    desk.next_maps(before)
    document = desk.document()
    assert (document["at"], document["output"], document["targets"][0]["label"]) == ("weight", "regression", "weight (kg)")
    expect(page.locator("#classes")).to_contain_text(f"{document['targets'][0]['logit']:.3g}"[:5].replace("-", "\u2212"))
