"""The first page: a picture, a prompt or a sentence leads to its page with the question already asked; a live plate; findings."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Route, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.visit import Visit


def photo() -> dict[str, Any]:
    """A picture to give, made up: always the same, so that its maps are there from the second time on."""
    data = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((320, 240), Image.Resampling.BICUBIC).save(data, "PNG")
    return {"name": "mine.png", "mimeType": "image/png", "buffer": data.getvalue()}


def ready(visit: Visit) -> None:
    visit.open("/", maps=False)
    expect(visit.page.locator("#live")).to_have_attribute("aria-busy", "false", timeout=60_000)
    expect(visit.page.locator("#stage canvas")).to_have_count(2)


@pytest.mark.trained
def test_the_picture_and_the_findings_are_there_before_any_map_and_the_slider_uncovers_one_map_under_the_other(desk: Visit) -> None:
    held: list[Route] = []
    desk.page.route("**/api/explanations", lambda route: held.append(route))
    with desk.page.expect_request("**/api/explanations"):
        page = desk.open("/", maps=False)
    sample = next(sample for sample in desk.get("/api/samples")["samples"] if sample["kind"] == "image")
    picture = page.locator("#stage").get_by_role("img", name=sample["title"])
    expect(picture).to_be_visible()
    page.wait_for_function("() => { const img = document.querySelector('#stage img'); return img.complete && img.naturalWidth > 0; }")
    expect(page.locator("#findings li")).to_have_count(3)
    expect(page.locator("#prompt-where")).to_have_text(f"in the sample “{sample['title']}”")  # the picture has a name
    expect(page.locator("#live-says")).to_contain_text(sample["title"])
    before = page.locator("#stage").bounding_box(), picture.bounding_box()
    assert before[0] == before[1]
    page.wait_for_function("() => !document.querySelector('#ask-prompt [type=submit]').disabled")
    held[0].continue_()
    expect(page.locator("#stage canvas")).to_have_count(2, timeout=60_000)
    assert page.locator("#stage").bounding_box() == before[0]
    moved, what = desk.shift()
    assert moved < 0.01, what
    under, over = page.locator("#stage canvas").nth(0), page.locator("#stage canvas").nth(1)
    assert under.evaluate("(node) => node.toDataURL()") != over.evaluate("(node) => node.toDataURL()")
    slider = page.get_by_role("slider")
    for share in (0, 30, 100):
        slider.fill(str(share))
        assert over.evaluate("(node) => node.style.clipPath") in (f"inset(0px {100 - share}% 0px 0px)", f"inset(0 {100 - share}% 0 0)")
    expect(page.locator("#left-name")).to_have_text("Raw attention")
    expect(page.locator(".sheet strong")).to_have_text(["Where it looked", "What made the answer"])
    expect(page.locator(".legend")).to_have_text(["weakstrong", "againstfor"])  # as on every plate
    grounds = page.locator(".legend i").evaluate_all("(all) => all.map((node) => getComputedStyle(node).backgroundImage)")
    assert all(ground.startswith("linear-gradient") for ground in grounds)
    assert grounds[0] != grounds[1]
    findings = page.locator("#findings li").evaluate_all("(all) => all.map((node) => node.getBoundingClientRect().bottom)")
    assert max(findings) <= 900  # above the fold of a window of that height
    no_violation(page)


@pytest.mark.trained
def test_the_first_page_the_plates_and_the_leaderboard_recommend_the_same_method(desk: Visit) -> None:
    ready(desk)
    page = desk.page
    shown = page.locator("#right-name").inner_text()
    sample = page.locator("#stage").get_attribute("data-sample")
    spec = page.locator("#stage").get_attribute("data-method")
    rankings = desk.get("/api/leaderboard/rankings")["rankings"]
    first = rankings["image"]["trust"][0]
    assert (first["spec"], first["title"]) == (spec, shown)
    desk.open(f"/image?sample={sample}", folded=True)
    expect(page.locator(".plate.recommended")).to_have_attribute("data-spec", str(spec))
    expect(page.locator(".advice.lead")).to_contain_text(f"Look at {shown} first.")
    desk.open("/leaderboard", maps=False)
    expect(page.locator(".told .sentences li").first).to_contain_text(f"Trust {shown}")
    for kind, path, mark in (("text", "/text", ".plate.recommended"), ("clip", "/prompt", ".matrix .line:has(.mark)")):
        desk.open(path, folded=True)
        node = page.locator(mark).first
        name = "data-spec" if kind == "text" else "data-row"
        expect(node).to_have_attribute(name, rankings[kind]["trust"][0]["spec"])


def test_a_picture_leads_to_its_maps(desk: Visit) -> None:
    ready(desk)
    desk.page.get_by_label("Picture file").set_input_files(photo())
    desk.page.wait_for_url("**/image?id=*")
    desk.maps()
    document = desk.document()
    assert (document["input"]["width"], document["input"]["height"]) == (320, 240)
    photos = next(model["name"] for model in desk.get("/api/models")["models"] if model["photos"])
    assert document["model"] == photos
    expect(desk.page.locator("#answer")).to_have_text(document["targets"][0]["label"])


def test_a_phone_offers_its_camera(phone: Visit) -> None:
    ready(phone)
    field = phone.page.get_by_label("Photo from the camera")
    assert field.get_attribute("capture") == "environment"
    assert (field.get_attribute("accept") or "").startswith("image/*")
    field.set_input_files(photo())
    phone.page.wait_for_url("**/image?id=*")
    phone.maps()


def test_a_picture_is_dropped_and_pasted(desk: Visit) -> None:
    for event in ("drop", "paste"):
        ready(desk)
        desk.page.evaluate(
            """async ([event, sample]) => {
              const blob = await (await fetch(sample)).blob();
              const data = new DataTransfer();
              data.items.add(new File([blob], "a.png", { type: "image/png" }));
              const made = event === "drop" ? new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })
                                            : new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
              document.body.dispatchEvent(made);
            }""",
            [event, next(sample["image"] for sample in desk.get("/api/samples")["samples"] if "image" in sample)],
        )
        desk.page.wait_for_url("**/image?id=*")
        desk.maps()


def test_what_is_refused_says_why_and_stays_and_a_prompt_leads_to_where_it_was_found(desk: Visit) -> None:
    ready(desk)
    desk.page.get_by_label("Picture file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"no picture"})
    expect(desk.page.locator("#ask-problem [role=alert]")).to_be_visible()
    assert desk.page.url.endswith("/")
    desk.refused(415)
    desk.page.get_by_label("A prompt").fill("a photo of a boat")
    desk.page.get_by_role("button", name="Look for it").click()
    desk.page.wait_for_url("**/prompt?id=*")
    desk.maps()
    assert [target["prompt"] for target in desk.document()["targets"]] == ["a photo of a boat"]


def test_a_sentence_leads_to_its_words(desk: Visit) -> None:
    ready(desk)
    desk.page.get_by_label("A sentence").fill("A dull, endless film.")
    desk.page.get_by_role("button", name="Explain it").click()
    desk.page.wait_for_url("**/text?id=*")
    desk.maps()
    assert desk.document()["input"]["text"] == "A dull, endless film."
    expect(desk.page.get_by_label("The review to explain")).to_have_value("A dull, endless film.")


@pytest.mark.parametrize("number", range(3))
def test_a_finding_opens_the_page_in_its_state(desk: Visit, number: int) -> None:
    ready(desk)  # the first link names the two classes once there is an answer
    link = desk.page.locator("#findings a").nth(number)
    path = link.get_attribute("href") or ""
    link.click()
    desk.next_maps(None)
    document = desk.document()
    assert path.startswith("/text" if number == 2 else "/image")
    first = desk.get("/api/leaderboard/rankings")["rankings"]["text" if number == 2 else "image"]["trust"][0]["spec"]
    assert set(document["methods"]) == {first, "random" if number == 1 else "raw_attention"}
    if number == 0:
        first, second = (attribution["scores"] for attribution in document["maps"] if attribution["method"] == "raw_attention")
        assert first == second
        expect(desk.page.locator(".badge.same")).to_have_count(1)
    if number == 1:
        assert desk.query["removed"] == ["20"]
        expect(desk.page.locator(".panels svg")).to_have_count(2, timeout=60_000)


def test_a_sample_of_the_strip_opens_with_its_question(desk: Visit) -> None:
    page = desk.open("/", maps=False)
    samples = {sample["id"]: sample for sample in desk.get("/api/samples")["samples"]}
    links = page.locator("#strip a")
    expect(links.first).to_be_visible()
    targets = links.evaluate_all("(all) => all.map((link) => link.getAttribute('href'))")
    assert {path.split("?")[0] for path in targets} <= {"/image", "/text"}
    assert all(path.split("sample=")[1] in samples for path in targets)
    links.first.click()
    desk.maps()
    expect(page.locator("#samples button").first).to_have_attribute("aria-pressed", "true")
