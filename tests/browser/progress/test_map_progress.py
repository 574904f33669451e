"""The maps that somebody looks at are made first, and while they are made it is said how long they take still, and they can be stopped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from explainers.methods import METHODS
from server import registries
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.fake_engine import FakeEngine

#: The usual methods of the stand-in, not in the order of the page.
USUAL = [
    "raw_attention",
    "random",
    "rollout",
    "saliency",
    "hirescam",
    "attcat",
    "legrad",
    "gradcam_plus:libra",
    "input_x_gradient:libra",
    "fullgrad_plus:libra",
]
COST = 20.0  # seconds that each takes, as the table of costs of the server says


class Usual(FakeEngine):
    """Lists the usual methods as such."""

    def variants(self, model: Any) -> list[dict[str, Any]]:
        return [{**variant, "default": variant["spec"] in USUAL} for variant in super().variants(model)]


class Course:
    """A server whose maps wait at gates, and a page."""

    def __init__(self, desk: Visit, engine: FakeEngine) -> None:
        self.desk, self.engine = desk, engine

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
        return [call for call in self.engine.calls if not call.startswith("load")]


@pytest.fixture
def course(browser: Browser, tmp_path: Path) -> Iterator[Course]:
    engine = Usual(usual=USUAL)
    (tmp_path / "costs.json").write_text(json.dumps({"scenes-vit": {spec: [COST, 0] for spec in USUAL}}))
    with played(tmp_path, engine, grace=1) as address:
        for desk in visit(browser, address):
            yield Course(desk, engine)
        for gate in engine.gates.values():
            gate.open()


def pill(page: Page) -> Any:
    return page.locator(".over .waits").first


def open_at(course: Course, held: str, seed: int = 1) -> None:
    """A picture whose map by the method ``held`` is made now."""
    gate = course.engine.gate(held)
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
    open_at(course, "fullgrad_plus:libra")  # the first of the page
    last = course.shown[-1]

    def is_wish(response: Any) -> bool:
        wished = response.request.post_data_json["methods"] if response.request.method == "PUT" else []
        return last in wished and wished.index(last) < wished.index(course.shown[1])

    with course.page.expect_response(is_wish):
        course.page.get_by_role("button", name="more methods").click()
        course.page.locator(f"#plates [data-spec='{last}']").scroll_into_view_if_needed()
        course.page.wait_for_function("(spec) => document.querySelector(`#plates [data-spec='${spec}']`).checkVisibility()", arg=last)
        course.page.evaluate("(spec) => document.querySelector(`#plates [data-spec='${spec}']`).scrollIntoView()", last)
    course.engine.gate("fullgrad_plus:libra").open()
    expect(course.page.locator("#status")).to_contain_text(" in ")
    order = course.made
    assert order[0] == "fullgrad_plus:libra"
    assert order.index(last) < order.index(course.shown[1])


def test_it_is_said_how_long_the_maps_take_and_they_can_be_stopped(course: Course) -> None:
    open_at(course, "hirescam")
    before = [spec for spec in course.made if spec not in ("hirescam", "random")]
    methods = len(USUAL) - 1
    # those without a rule, and the first of each rule whose pass is not there yet; the others read maps off such a pass
    rules = [METHODS[spec.partition(":")[0]].rule and (spec.partition(":")[2] or METHODS[spec].rule) for spec in course.shown]
    place = course.shown.index("hirescam")
    pays = [rule is None or rule not in rules[:number] for number, rule in enumerate(rules)][place:]
    seconds = int(COST) * sum(pays)
    about = "|".join(str(seconds - passed) for passed in range(0, 25, 5))
    expect(pill(course.page)).to_contain_text(re.compile(rf"{len(before)} of {methods} methods · about ({about}) s left"))
    expect(course.page.locator("#status")).to_have_text(f"{len(before)} of {methods} methods")
    pill(course.page).get_by_role("button", name="Stop").click()
    expect(pill(course.page)).to_contain_text("Stopping")
    course.engine.gate("hirescam").open()
    expect(pill(course.page)).to_contain_text(f"Stopped: {len(before)} of {methods} methods")
    document = course.desk.document()
    assert document["state"] == "done"
    assert {entry["method"] for entry in document["maps"]} - {"random"} == set(before)
    # what is there can be worked with, and the rest be had
    expect(course.page.locator("#drawer-agreement summary")).to_be_enabled()
    stopped = course.desk.id
    pill(course.page).get_by_role("button", name="Go on").click()
    expect(course.page.locator("#plates .plate[data-state=done]")).to_have_count(len(USUAL))
    expect(pill(course.page)).to_be_hidden()
    assert course.desk.id != stopped
    assert len(course.desk.document()["maps"]) == len(USUAL)


def test_nothing_is_said_of_what_is_there_at_once(course: Course) -> None:
    for spec in USUAL:
        course.engine.gate(spec).open()
    course.desk.open("/image", maps=False, folded=True)
    course.give(1)
    expect(course.page.locator("#status")).to_contain_text(" in ")
    expect(pill(course.page)).to_be_hidden()


def test_the_methods_of_the_course_are_real() -> None:
    assert set(USUAL) <= {pair["spec"] for method in registries.methods(None) for pair in method["pairs"]}
