"""Links, steps back, and the way from page to page: what is shown again is what was there, and what is not there is said."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit, methods, view, visit
from tests.server.support.gated_models import STEPS, USUAL_METHODS, GatedModels

USUAL = "&".join(f"methods={spec}" for spec in USUAL_METHODS)


@pytest.fixture
def quick(browser: Browser, gated_site: tuple[str, GatedModels]) -> Iterator[Visit]:
    yield from visit(browser, gated_site[0])


def photo(seed: int, size: tuple[int, int] = (90, 60)) -> dict[str, Any]:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return {"name": "photo.png", "mimeType": "image/png", "buffer": buffer.getvalue()}


def next_answer(desk: Visit, before: str | None) -> str:
    desk.page.wait_for_function("(before) => new URLSearchParams(location.search).get('id') !== before", arg=before)
    return answer(desk)


def answer(desk: Visit) -> str:
    desk.page.wait_for_function("() => / in /.test(document.getElementById('status').textContent)")
    assert desk.id is not None
    return desk.id


def give(desk: Visit, seed: int, size: tuple[int, int] = (90, 60)) -> str:
    before = desk.id
    desk.page.get_by_label("Picture file").set_input_files(photo(seed, size))
    return next_answer(desk, before)


def pick(desk: Visit, label: str) -> str:
    before = desk.id
    desk.page.locator("#classes li button", has_text=label).click()
    return next_answer(desk, before)


def read(desk: Visit, text: str) -> str:
    before = desk.id
    desk.page.locator("#text").fill(text)
    desk.page.get_by_role("button", name="Explain this review").click()
    return next_answer(desk, before)


def travel(desk: Visit, way: str, to: str) -> None:
    """Go through the browser's history to the step of this explanation, until the page is opened there."""
    desk.page.evaluate("(way) => { window.isBefore = true; setTimeout(() => history[way]()); }", way)
    arrived = """(id) => !window.isBefore && new URLSearchParams(location.search).get('id') === id
      && / in /.test(document.getElementById('status')?.textContent)"""
    desk.page.wait_for_function(arrived, arg=to)


def posts(desk: Visit) -> list[str]:
    """From now on, what the page asks the server to do."""
    sent: list[str] = []
    desk.page.on("request", lambda request: sent.append(request.url) if request.method != "GET" else None)
    return sent


def test_each_question_is_a_step_of_the_history(quick: Visit) -> None:
    page = quick.open(f"/image?{USUAL}", maps=False)
    first = give(quick, 1)
    second = pick(quick, "elephant")
    with view(page):  # a way of looking is no step
        page.get_by_role("radio", name="for", exact=True).check()
    third = give(quick, 2, (60, 90))
    with view(page):
        page.get_by_role("radio", name="against", exact=True).check()
    sent = posts(quick)
    travel(quick, "back", second)
    expect(page.locator("#answer")).to_have_text("elephant")
    expect(page.locator('[name="view-evidence"][value="for"]')).to_be_checked()
    expect(page.locator("#picture .sheet img")).to_have_attribute("src", f"/api/explanations/{second}/input.png")
    travel(quick, "back", first)
    expect(page.locator("#answer")).to_have_text("zebra")
    expect(page.locator('[name="view-evidence"][value="both"]')).to_be_checked()
    travel(quick, "forward", second)
    travel(quick, "forward", third)
    expect(page.locator('[name="view-evidence"][value="against"]')).to_be_checked()
    assert sent == []  # nothing was explained again, nothing was stopped


def test_back_during_a_run(quick: Visit, gated_site: tuple[str, GatedModels]) -> None:
    page = quick.open(f"/text?{USUAL}", maps=False)
    first = read(quick, "one two three")
    gate = gated_site[1].gate(STEPS[0])
    page.goto(quick.address + f"/text?id={first}")
    answer(quick)
    page.locator("#text").fill("four five")
    methods(page)
    page.locator(f".chooser input[value={STEPS[0]}]").check()
    page.get_by_role("button", name="Show 3 methods").click()
    gate.wait()
    page.wait_for_function("(id) => new URLSearchParams(location.search).get('id') !== id", arg=first)
    running = quick.id
    travel(quick, "back", first)
    expect(page.locator("#text")).to_have_value("one two three")
    expect(page.locator("#plates .plate")).to_have_count(2)
    gate.open()
    travel(quick, "forward", running)
    expect(page.locator("#plates .plate")).to_have_count(3)
    del gated_site[1].gates[STEPS[0]]


def test_a_picture_goes_along_and_pages_are_found_as_they_were_left(quick: Visit) -> None:
    page = quick.open(f"/text?{USUAL}", maps=False)
    text = read(quick, "left as it was")
    link = page.get_by_role("navigation").get_by_role("link", name="Image")
    link.click()
    page.wait_for_url("**/image")
    give(quick, 3, (120, 60))
    image = pick(quick, "dog")
    sent: list[bytes] = []
    page.on("request", lambda request: sent.append(request.post_data_buffer or b"") if request.method == "POST" else None)
    page.get_by_role("navigation").get_by_role("link", name="Prompt").click()
    page.wait_for_url("**/prompt?id=*")
    prompt = answer(quick)
    after, before = quick.document(), quick.get(f"/api/explanations/{image}")
    assert after["input"]["sha256"] == before["input"]["sha256"]
    assert (after["input"]["width"], after["input"]["height"]) == (120, 60)
    assert [target["label"] for target in after["targets"]] == [
        f"a photo of {'an' if answer['label'][0] in 'aeiou' else 'a'} {answer['label']}" for answer in before["top"][:3]
    ]
    assert len(sent) == 1
    assert b'name="source"' in sent[0]
    assert len(sent[0]) < 3000  # by reference: the picture was not sent again
    page.get_by_role("navigation").get_by_role("link", name="Image").click()
    page.wait_for_url(f"**/image?id={image}*")
    assert answer(quick) == image
    page.get_by_role("navigation").get_by_role("link", name="Prompt").click()
    page.wait_for_url(f"**/prompt?id={prompt}*")
    page.get_by_role("navigation").get_by_role("link", name="Text").click()
    page.wait_for_url(f"**/text?id={text}*")
    assert answer(quick) == text
    assert len(sent) == 1
    page.get_by_role("navigation").get_by_role("link", name="Text").click()  # the page's own link begins again
    page.wait_for_url("**/text")


@pytest.mark.parametrize("path", ["/image", "/prompt", "/text"])
def test_a_link_to_nothing_says_what_to_do(quick: Visit, path: str) -> None:
    page = quick.open(f"{path}?id=nothing-of-this-name", maps=False)
    problem = page.locator("#results-problem .problem")
    expect(problem).to_contain_text("This explanation does not exist here")
    expect(page.locator("#status")).to_have_text("nothing to show")
    assert quick.id == "nothing-of-this-name"  # nothing else was explained in its place
    quick.refused(404)
    if path == "/image":
        give(quick, 4)  # the page works all the same
        expect(problem).to_have_count(0)
        page.goto(f"{quick.address}{path}?id=nothing-of-this-name")
        quick.refused(404)
    problem.get_by_role("link", name="Start again").click()
    page.wait_for_url(f"**{path}")


def test_a_link_to_an_explanation_of_another_page_leads_there(quick: Visit) -> None:
    picture = photo(5)["buffer"]
    ids = {
        "/image": quick.explained(picture, model="scenes-vit", methods=USUAL_METHODS)["id"],
        "/prompt": quick.explained(picture, model="clip", prompt="a dog", methods=USUAL_METHODS)["id"],
        "/text": quick.explained(model="reviews-bert", text="good", methods=USUAL_METHODS)["id"],
    }
    for path in ids:
        for own_path, explanation_id in ids.items():
            if own_path == path:
                continue
            page = quick.open(f"{path}?id={explanation_id}", maps=False)
            problem = page.locator("#results-problem .problem")
            expect(problem).to_contain_text("This explanation belongs to another page")
            problem.get_by_role("link", name="Open it on the").click()
            page.wait_for_url(f"**{own_path}?id={explanation_id}*")
            assert answer(quick) == explanation_id


def test_an_unknown_page_is_a_page_in_a_browser_and_a_problem_elsewhere(quick: Visit) -> None:
    page = quick.open("/nothing", maps=False)
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")
    expect(page.locator("main")).to_contain_text("There is nothing at /nothing.")
    quick.open("/methods/nothing", maps=False)
    expect(page.locator("main")).to_contain_text("There is no method 'nothing'.")
    quick.refused(404, 404)
    page.get_by_role("link", name="explain a review").click()
    page.wait_for_url("**/text")
    for path, accept in (("/nothing", "*/*"), ("/api/explanations/nothing", "text/html")):
        response = HTTP.get(quick.address + path, headers={"Accept": accept})
        assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


def test_the_same_question_after_a_reload_gives_the_same_numbers(desk: Visit) -> None:
    """A photo far larger than what the server shows of it: reopened by its link, and asked about another class and back."""
    rough = np.random.default_rng(6).integers(0, 256, (260, 340, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(rough).resize((2210, 1690), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=93)
    page = desk.open("/image?methods=fullgrad_plus:libra")
    before = desk.id
    page.get_by_label("Picture file").set_input_files({"name": "photo.jpg", "mimeType": "image/jpeg", "buffer": buffer.getvalue()})
    desk.next_maps(before)
    first = desk.document()
    page.reload()
    desk.maps()
    page.locator("#classes li button").nth(1).click()
    desk.next_maps(first["id"])
    second = desk.document()
    assert second["top"] == first["top"]
    methods(page)
    page.locator(".chooser input[value='gradcam_plus']").first.check()
    page.get_by_role("button", name="Show 2 methods").click()
    desk.next_maps(second["id"])
    third = desk.document()
    assert third["top"] == first["top"]
    same = [
        next(attribution for attribution in document["maps"] if attribution["method"] == "fullgrad_plus:libra")["scores"]
        for document in (second, third)
    ]
    assert same[0] == same[1]
    query = parse_qs(urlsplit(page.url).query)
    assert query["id"] == [third["id"]]


@pytest.mark.parametrize("path", ["/image?methods=random", "/methods", "/leaderboard"])
def test_on_a_phone_the_entry_of_the_page_is_in_sight(phone: Visit, path: str) -> None:
    page = phone.open(path, maps=path.startswith("/image"))
    entry = page.locator("header nav [aria-current]").bounding_box()
    assert entry is not None
    assert entry["x"] >= 0
    assert entry["x"] + entry["width"] <= 390
