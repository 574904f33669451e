"""The Image page against the numbers of the API."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.support.image_plates import check_plates, colours, shown_class
from tests.browser.support.number_format import percent, shown_score
from tests.browser.support.visit import FEW, Visit, methods, model_path, view, visit


@pytest.mark.trained
def test_an_example_is_explained_when_the_page_opens(desk: Visit) -> None:
    desk.open("/image")
    document = desk.document()
    assert document["state"] == "done"
    assert document["model"] == "photos-vit"  # the page begins with a photo
    default = [
        variant["spec"] for variant in desk.get("/api/methods?model=photos-vit")["variants"] if variant["default"] and not variant["reason"]
    ]
    assert {attribution["method"] for attribution in document["maps"]} == set(default)
    assert len(default) > 8
    expect(desk.page.locator("#answer")).to_have_text(document["targets"][0]["label"])
    rows = desk.page.locator("#classes li button")
    expect(rows).to_have_count(5)
    for row, answer in zip(rows.all(), document["top"], strict=False):
        expect(row.locator("span").first).to_have_text(shown_class(desk, document, answer["label"]))
        expect(row.locator(".num")).to_have_text(percent(answer["probability"]))
    expect(desk.page.locator("#classes [aria-pressed=true]")).to_contain_text(document["targets"][0]["label"])
    check_plates(desk, document)
    moved, what = desk.shift()
    assert moved < 0.01, what


@pytest.mark.parametrize("arrives", [True, False], ids=["it arrives", "it fails"])
def test_a_page_opened_while_the_model_for_photos_loads_waits_for_it(desk: Visit, arrives: bool) -> None:
    """That is what somebody sees who has just started the server. Where the model fails, another one answers, and the page says why."""
    models = desk.get("/api/models")
    photos = next(model for model in models["models"] if model["photos"])
    photos["state"] = "loading"
    problem = {"title": "No room", "detail": "There is no memory left.", "send": "Close something."}

    def tell(route: Route) -> None:
        photos.update({"state": "loaded"} if arrives else {"state": "failed", "problem": problem})
        body = "event: loaded\ndata: {}\n\n" if arrives else f"event: failed\ndata: {json.dumps(problem)}\n\n"
        route.fulfill(body=body, content_type="text/event-stream")

    desk.page.route("**/api/models", lambda route: route.fulfill(json=models))
    desk.page.route("**/api/models/events*", tell)
    desk.open("/image?methods=random")
    assert desk.document()["model"] == (photos["name"] if arrives else "scenes-vit")
    if not arrives:
        expect(desk.page.locator("#results-problem")).to_contain_text("There is no memory left. Close something.")


def test_a_model_that_the_address_names_may_still_load(desk: Visit) -> None:
    """What kind a folder's model is, the server knows only once it is loaded."""
    models = desk.get("/api/models")
    named = next(model for model in models["models"] if model["name"] == "scenes-vit")
    named.update(state="loading", kind=None)

    def tell(route: Route) -> None:
        named.update(state="loaded", kind="image")
        route.fulfill(body="event: loaded\ndata: {}\n\n", content_type="text/event-stream")

    desk.page.route("**/api/models", lambda route: route.fulfill(json=models))
    desk.page.route("**/api/models/events*", tell)
    desk.open("/image?model=scenes-vit&methods=random")
    assert desk.document()["model"] == "scenes-vit"


@pytest.mark.trained
def test_a_class_is_picked_from_the_list_and_by_typing(desk: Visit) -> None:
    desk.open(f"/image?{FEW}")
    first = desk.document()
    label = first["top"][1]["label"]
    desk.page.locator("#classes li button", has_text=label).click()
    desk.next_maps(first["id"])
    second = desk.document()
    assert second["targets"][0]["label"] == label
    check_plates(desk, second)

    classes = desk.get(model_path(second["model"]))["classes"]
    asked_or_top = {answer["label"] for answer in (*second["top"], *second["targets"])}
    rare = next(entry["label"] for entry in reversed(classes) if entry["label"] not in asked_or_top)
    typed = rare[:-1].lower()
    field = desk.page.get_by_role("combobox", name="Another class")
    field.press_sequentially(typed)
    listed = desk.page.locator("#other-class-list [role=option]")
    expect(listed.first).to_be_visible()
    options = listed.evaluate_all("(all) => all.map((option) => option.dataset.label)")
    groups = {group for entry in classes for group in entry.get("groups", [])}
    matching = {entry["label"] for entry in classes if any(typed in name.lower() for name in (entry["label"], *entry.get("synonyms", [])))}
    assert not any(typed in group for group in groups)  # else groups would be found too: test_groups
    assert set(options) == matching
    assert rare in matching
    while desk.page.locator("#other-class-list [aria-selected=true]").get_attribute("data-label") != rare:
        field.press("ArrowDown")
    field.press("Enter")
    expect(field).to_have_value("")  # what was typed was taken
    desk.next_maps(second["id"])
    third = desk.document()
    assert third["targets"][0]["label"] == rare
    pressed = desk.page.locator("#classes [aria-pressed=true]")
    expect(pressed).to_have_text(f"{shown_class(desk, third, rare)}{percent(third['targets'][0]['probability'])}")
    for before, after in zip(second["maps"], third["maps"], strict=True):
        if not before["class_specific"]:
            assert before["scores"] == after["scores"]
    assert any(before["scores"] != after["scores"] for before, after in zip(second["maps"], third["maps"], strict=True))
    check_plates(desk, third)


def test_methods_are_chosen(desk: Visit) -> None:
    desk.open(f"/image?{FEW}")
    before = desk.id
    variants = desk.get("/api/methods?model=scenes-vit")["variants"]
    extra = next(variant["spec"] for variant in variants if not variant["default"] and not variant["slow"] and not variant["reason"])
    methods(desk.page)
    boxes = desk.page.locator(".chooser .cells input")
    checked = boxes.evaluate_all("(nodes) => nodes.filter((node) => node.checked).map((node) => node.value)")
    for spec in checked[1:]:
        desk.page.locator(f'.chooser input[value="{spec}"]').uncheck()
    desk.page.locator(f'.chooser input[value="{extra}"]').check()
    desk.page.get_by_role("button", name="Show 2 methods").click()
    desk.next_maps(before)
    document = desk.document()
    assert {attribution["method"] for attribution in document["maps"]} == {checked[0], extra}
    check_plates(desk, document)
    able = len({checked[0], extra} - {"random"})  # a map drawn at random is counted apart
    expect(desk.page.locator("#choose-methods")).to_contain_text(f"Methods {able}")


def test_a_link_opens_the_same_view_again(desk: Visit, browser: Browser, address: str) -> None:
    desk.open(f"/image?{FEW}")
    before = desk.id
    desk.page.locator("#classes li button").nth(1).click()
    desk.next_maps(before)
    with view(desk.page):
        desk.page.get_by_label("Smoothing").select_option("patches")
        desk.page.get_by_role("radio", name="for", exact=True).check()
    map_canvas = desk.page.locator(".map-canvas").first
    map_canvas.focus()
    map_canvas.press("Home")
    url, document = desk.page.url, desk.document()
    spec = document["maps"][-1]
    painted = colours(desk, spec)
    for other in visit(browser, address):
        sent: list[str] = []
        other.page.on("request", lambda request, sent=sent: sent.append(request.method))
        other.open(url.removeprefix(address))
        assert other.page.url == url
        assert set(sent) == {"GET"}
        expect(other.page.locator("#answer")).to_have_text(document["targets"][0]["label"])
        expect(other.page.get_by_label("Smoothing")).to_have_value("patches")
        check_plates(other, document)
        np.testing.assert_array_equal(colours(other, spec), painted)
        value = other.plate(spec["method"]).locator(".value")
        expect(value).to_have_text(shown_score(spec["scores"][int(other.query["focus"][0])], spec["signed"]))
        # and one can go on from there
        other.page.locator("#classes li button").first.click()
        other.next_maps(document["id"])
        after = other.document()
        assert after["targets"][0]["label"] == document["top"][0]["label"]
        assert (after["top"], after["input"]) == (document["top"], document["input"])  # the same picture, to the last bit
        expect(other.page.locator("#notes li")).to_have_count(0)


def test_an_answer_that_comes_too_late_is_dropped(desk: Visit) -> None:
    desk.open(f"/image?{FEW}")
    document = desk.document()
    slow, quick = document["top"][1]["label"], document["top"][2]["label"]
    held: list[Route] = []

    def hold(route: Route) -> None:
        if not held and slow in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    desk.page.route("**/api/explanations", hold)
    with desk.page.expect_request("**/api/explanations"):
        desk.page.locator("#classes li button", has_text=slow).click()
    desk.page.locator("#classes li button", has_text=quick).click()
    desk.next_maps(document["id"])
    assert len(held) == 1
    after = desk.document()
    assert after["targets"][0]["label"] == quick
    expect(desk.page.locator("#answer")).to_have_text(quick)
    check_plates(desk, after)


@pytest.fixture
def night_phone(browser: Browser, address: str) -> Iterator[Visit]:
    yield from visit(browser, address, 390, "dark")


def test_a_phone_at_night(night_phone: Visit) -> None:
    night_phone.open(f"/image?{FEW}")
    assert night_phone.page.evaluate("() => document.documentElement.scrollWidth") == 390
    check_plates(night_phone, night_phone.document())
    methods(night_phone.page)
    expect(night_phone.page.locator(".chooser .cells label span").first).to_be_visible()
    expect(night_phone.page.locator(".chooser .heads")).to_be_hidden()  # each square has its rule beside it
    assert night_phone.page.evaluate("() => document.documentElement.scrollWidth") == 390
