"""The box "Place": a word of a text, a patch of a picture, a picture to compare with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import explainers
from server.jobs.model_source import ModelSource
from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.turnstile import Gated
from tests.support.task_models import TEXT, backbone, token_classifier


class TaskModels:
    """A token classifier in the place of the model of texts, and a backbone in that of the model of pictures."""

    def load(self, name: str, device: str | None = None, /, **ways: Any) -> explainers.Model:
        makes = {"scenes-vit": backbone, "reviews-bert": token_classifier}
        return replace(makes[name](), name=name) if name in makes else Gated().load(name, device)

    def source(self) -> ModelSource:
        return replace(Gated().source(), load=self.load)


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


def test_a_classifier_has_no_such_box(desk: Visit) -> None:
    first = desk.explained(model="clip", image=png(), prompt="a dog", methods=["random"])
    page = desk.open(f"/prompt?id={first['id']}")
    expect(page.locator("#place")).to_have_count(0)
