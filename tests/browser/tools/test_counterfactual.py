"""What would change the answer: found next to the answer, and shown as the server says it."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.browser.support.accessibility import no_violation_anywhere
from tests.browser.support.number_format import percent
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit


@pytest.mark.trained
@pytest.mark.parametrize("path", ["/image", "/text", "/molecule"])
def test_two_presses_say_what_would_change_the_answer(desk: Visit, path: str) -> None:
    page = desk.open(path, folded=True)
    document = desk.document()
    to = document["top"][1]["label"]
    page.get_by_text("What would change it?").click()
    expect(page.locator("#change-to")).to_be_focused()
    page.keyboard.type(to)
    page.keyboard.press("Enter")
    panel = page.locator(".counterfactual")
    expect(panel.get_by_role("heading")).to_have_text(f"What would change the answer to “{to}”?")
    expect(panel.locator(".now")).to_contain_text("comes first", timeout=90_000)
    found = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/counterfactual", json={"to": to}, timeout=90).json()
    assert found["reached"]
    expect(panel).to_have_attribute("data-hidden", str(len(found["hidden"])))
    expect(panel.locator("tbody tr").first).to_contain_text(to)
    answer = panel.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=document["top"][0]["label"], exact=True))
    expect(answer.locator("td").first).to_have_text(percent(document["top"][0]["probability"]))  # the answer as it was
    if path == "/text":
        expect(panel.locator("del")).to_have_count(len(found["hidden"]))
    assert desk.query["counterfactual.to"] == [to]
    no_violation_anywhere(page)
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()
    assert "counterfactual.to" not in desk.query


@pytest.mark.trained
def test_what_would_make_another_prompt_fit_best_is_said_on_prompt(desk: Visit) -> None:
    page = desk.open("/prompt?sample=photo-cat-coffee-prompts", folded=True)
    best, other = sorted(desk.document()["targets"], key=lambda target: -target["probability"])
    button = page.get_by_text("What would change it?")
    button.click()
    expect(page.locator(".why")).to_contain_text(f"“{best['label']}” fits best. Choose another prompt")
    expect(page.locator(".why [role=option]")).to_have_count(1)  # the best is no choice
    no_violation_anywhere(page)
    page.get_by_role("option", name=other["label"]).click()
    panel = page.locator(".counterfactual")
    expect(panel.get_by_role("heading")).to_have_text(f"What would make “{other['label']}” fit best?")
    expect(panel.locator(".now")).to_contain_text("comes first", timeout=90_000)
    found = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/counterfactual", json={"to": other["label"]}, timeout=90).json()
    assert found["reached"]
    expect(panel).to_have_attribute("data-hidden", str(len(found["hidden"])))
    expect(panel.locator("thead th").first).to_have_text("prompt")
    no_violation_anywhere(page)
    page.locator(".prompts input").nth(1).fill("")  # one prompt has no other that could fit better
    page.get_by_role("button", name="Look for").click()
    expect(button).to_be_hidden()


@pytest.mark.trained
def test_no_more_answers_are_promised_than_are_certain(desk: Visit) -> None:
    """Of each step's total the page says that it is at least so many, and the last one is what the search took."""
    page = desk.open("/image", folded=True)
    to = desk.document()["top"][1]["label"]
    path = f"{desk.address}/api/explanations/{desk.id}/counterfactual"
    with HTTP.stream("POST", path, json={"to": to}, headers={"accept": "text/event-stream"}, timeout=90) as events:
        data = [json.loads(line.removeprefix("data: ")) for line in events.iter_lines() if line.startswith("data: ")]
    totals = [each["total"] for each in data if "total" in each]
    assert totals
    assert max(totals) <= data[-1]["asked"] + 1  # one more for the probabilities on show
    expect(page.locator("#overview")).not_to_be_empty()


@pytest.mark.trained
def test_the_first_row_of_maps_of_three_prompts_is_in_sight(desk: Visit) -> None:
    """The difference of two of them has its name over it, on the row below."""
    page = desk.open("/prompt?sample=fruit-prompts", folded=True)
    boxes = [box for node in page.locator(".matrix .line:not(.head) .map-canvas").all()[:4] if (box := node.bounding_box())]
    assert all(box["y"] < 420 and box["y"] + box["height"] <= 900 and box["width"] >= 260 for box in boxes[:3])
    assert boxes[3]["y"] > boxes[0]["y"] + boxes[0]["height"]
    expect(page.locator(".difference .caption").first).to_have_text("a photo of a strawberry rather than a photo of a banana")
    expect(page.locator(".difference .caption").first).to_be_visible()
    page.get_by_label("Difference: this one").select_option(label="a photo of an apple")
    expect(page.locator(".difference .caption").first).to_have_text("a photo of an apple rather than a photo of a banana")
    no_violation_anywhere(page)


@pytest.mark.trained
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_what_a_model_cannot_read_is_said_once_and_its_prompt_stays_on_a_line(desk: Visit, width: int, height: int) -> None:
    desk.page.set_viewport_size({"width": width, "height": height})
    page = desk.open("/prompt?sample=photo-dogs-prompts&prompt=qwertz asdf&prompt=a photo of a dog", folded=True)
    said = "The model learned from no picture named “qwertz”"
    expect(page.locator("#overview")).to_contain_text(said)
    assert page.locator("main").inner_text().count(said) == 1
    name = page.locator(".painting .legend .unfound span:not(.num)").bounding_box()
    assert name is not None
    assert name["height"] < 30
    no_violation_anywhere(page)


@pytest.mark.trained
@pytest.mark.parametrize(("size", "low"), [((1440, 900), 420), ((390, 844), 844)])
def test_the_first_row_of_maps_of_two_prompts_is_in_sight(desk: Visit, size: tuple[int, int], low: int) -> None:
    """At 1440 px it begins above 420 px and maps are 260 px wide; on a phone the recommended map ends in sight."""
    desk.page.set_viewport_size({"width": size[0], "height": size[1]})
    page = desk.open("/prompt?sample=photo-cat-coffee-prompts", folded=True)
    boxes = [box for node in page.locator(".matrix .line canvas").all()[:2] if (box := node.bounding_box())]
    assert len(boxes) == 2
    for box in boxes:
        assert box["y"] + box["height"] <= size[1]
        if size[0] == 1440:
            assert box["y"] < low
            assert box["width"] >= 260
    first = page.locator(".painting canvas").bounding_box()
    assert first is not None
    assert first["y"] < boxes[0]["y"]
