"""The maps that somebody looks at are made first, and while they are made it is said how long they take still, and they can be stopped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from explainers.methods import METHODS
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.gated_models import GatedModels, image_model
from vitrine_server import registries

MODEL = "scenes-vit"
#: What is made where nobody chose, not in the order of the page.
USUAL = registries.default_methods(replace(image_model(), name=MODEL))
COST = 10.0  # seconds that each takes, as the table of costs of the server says


class Course:
    """A server whose maps wait at gates, and a page."""

    def __init__(self, desk: Visit, models: GatedModels) -> None:
        self.desk, self.models = desk, models

    @property
    def page(self) -> Page:
        return self.desk.page

    def give(self, seed: int) -> None:
        self.page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(seed)})

    @property
    def shown(self) -> list[str]:
        """The specs of the plates, in their order."""
        specs: list[str] = self.page.evaluate("() => [...document.querySelectorAll('#plates .plate')].map((node) => node.dataset.spec)")
        return specs

    @property
    def made(self) -> list[str]:
        """The specs of the maps that are there, in the order in which they came."""
        document = self.desk.document()
        return [document["maps"][place]["method"] for place in document.get("made", range(len(document["maps"])))]


@pytest.fixture
def course(browser: Browser, tmp_path: Path) -> Iterator[Course]:
    (tmp_path / "costs.json").write_text(json.dumps({MODEL: {spec: [COST, 0] for spec in USUAL}}))
    with GatedModels().in_registry() as models, played(tmp_path, models, grace=1) as address:
        for desk in visit(browser, address):
            yield Course(desk, models)
        models.open_all()


def pill(page: Page) -> Any:
    return page.locator(".over .waits").first


def open_at(course: Course, held: str, seed: int = 1) -> None:
    """A picture whose maps are made up to the backward pass that is ``held``."""
    gate = course.models.gate(held)
    course.desk.open("/image", maps=False, folded=True)
    course.give(seed)
    gate.wait()
    expect(course.page.locator("#plates .plate")).to_have_count(len(USUAL))


def test_maps_are_made_in_the_order_of_the_wall(course: Course) -> None:
    course.desk.open("/image", maps=False, folded=True)
    course.give(1)
    expect(course.page.locator("#status")).to_contain_text(re.compile(r" in \d"))
    assert course.shown != USUAL
    assert course.made == course.shown


def test_what_one_opens_and_scrolls_to_comes_next(course: Course) -> None:
    open_at(course, "backward")  # of the first of the page
    last = course.shown[-1]

    def is_wish(response: Any) -> bool:
        wished = response.request.post_data_json["methods"] if response.request.method == "PUT" else []
        return last in wished and wished.index(last) < wished.index(course.shown[1])

    with course.page.expect_response(is_wish):
        course.page.get_by_role("button", name="more methods").click()
        course.page.locator(f"#plates [data-spec='{last}']").scroll_into_view_if_needed()
        course.page.wait_for_function("(spec) => document.querySelector(`#plates [data-spec='${spec}']`).checkVisibility()", arg=last)
        course.page.evaluate("(spec) => document.querySelector(`#plates [data-spec='${spec}']`).scrollIntoView()", last)
    course.models.open_all()
    expect(course.page.locator("#status")).to_contain_text(" in ")
    order = course.made
    assert order[0] == course.shown[0]
    assert order.index(last) < order.index(course.shown[1])


def test_it_is_said_how_long_the_maps_take_and_they_can_be_stopped(course: Course) -> None:
    open_at(course, "backward 1")
    before = [spec for spec in course.made if spec != "random"]
    place = len(course.made)
    methods = len(USUAL) - 1
    # those without a rule, and the first of each rule whose pass is not there yet; the others read maps off such a pass
    rules = [METHODS[spec.partition(":")[0]].rule and (spec.partition(":")[2] or METHODS[spec].rule) for spec in course.shown]
    pays = [rule is None or rule not in rules[:number] for number, rule in enumerate(rules)][place:]
    seconds = int(COST) * sum(pays)
    about = "|".join(str(seconds - passed) for passed in range(0, 25, 5))
    expect(pill(course.page)).to_contain_text(re.compile(rf"{len(before)} of {methods} methods · about ({about}) s left"))
    expect(course.page.locator("#status")).to_have_text(f"{len(before)} of {methods} methods")
    size = course.page.viewport_size
    assert size is not None
    course.page.set_viewport_size({"width": 390, "height": 844})  # on a phone it covers no map and no sentence
    course.page.evaluate("() => scrollTo(0, 0)")
    box, main = pill(course.page).bounding_box(), course.page.locator("main").bounding_box()
    assert box is not None
    assert main is not None
    assert box["y"] + box["height"] <= main["y"]
    course.page.set_viewport_size(size)
    pill(course.page).get_by_role("button", name="Stop").click()
    expect(pill(course.page)).to_contain_text("Stopping")
    held = course.shown[place]
    course.models.open_all()
    expect(pill(course.page)).to_contain_text(f"Stopped: {len(before) + 1} of {methods} methods")  # what was begun is finished
    document = course.desk.document()
    assert document["state"] == "done"
    assert {entry["method"] for entry in document["maps"]} - {"random"} == {*before, held}
    # what is there can be worked with, and the rest be had
    expect(course.page.locator("#drawer-agreement summary")).to_be_enabled()
    stopped = course.desk.id
    pill(course.page).get_by_role("button", name="Go on").click()
    expect(course.page.locator("#plates .plate[data-state=done]")).to_have_count(len(USUAL))
    expect(pill(course.page)).to_be_hidden()
    assert course.desk.id != stopped
    assert len(course.desk.document()["maps"]) == len(USUAL)


def test_nothing_is_said_of_what_is_there_at_once(course: Course) -> None:
    course.desk.open("/image", maps=False, folded=True)
    course.give(1)
    expect(course.page.locator("#status")).to_contain_text(" in ")
    expect(pill(course.page)).to_be_hidden()
