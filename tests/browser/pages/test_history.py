"""The history: what was explained from this browser, to open again, compare and delete."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.number_format import percent, shown_range
from tests.browser.support.questions import explained
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit
from tests.server.conftest import png


def fill(desk: Visit) -> tuple[Any, Any, Any]:
    """Explain a text and then a picture for two classes, and go to the history; the explanations, newest first."""
    desk.open("/text?methods=random")
    text = desk.document()
    desk.open("/image?methods=random")
    first = desk.document()
    desk.page.locator("#classes li button").nth(1).click()
    desk.next_maps(first["id"])
    second = desk.document()
    desk.open("/history", maps=False)
    expect(desk.page.locator(".record")).to_have_count(3)
    return second, first, text


def listed(desk: Visit) -> tuple[Any, Any, Any]:
    """A text and two pictures in the history, newest first: any may be older than this test, for other tests ask the same."""
    ids = [explained(desk, "text"), *(explained(desk, "image", png(number)) for number in (1, 2))]
    desk.open("/history", maps=False)
    desk.page.evaluate("(ids) => localStorage.setItem('vitrine.history', JSON.stringify(ids))", ids)
    desk.page.reload()
    expect(desk.page.locator(".record")).to_have_count(3)
    documents = (desk.get(f"/api/explanations/{one}") for one in ids)
    newest, middle, oldest = sorted(documents, key=lambda document: str(document["created"]), reverse=True)
    return newest, middle, oldest


def test_a_question_that_was_taken_back_is_not_listed(desk: Visit) -> None:
    newest, middle, oldest = listed(desk)
    summary = f"/api/explanations/{middle['id']}/summary"
    cancelled = {**desk.get(summary), "state": "cancelled"}
    answers = [cancelled]
    desk.page.route(f"**{summary}", lambda route: route.fulfill(json=answers[0]) if answers else route.continue_())
    for _ in range(2):
        desk.open("/history", maps=False)
        expect(desk.page.locator(".record")).to_have_count(2)
        ids = desk.page.locator(".record").evaluate_all("(nodes) => nodes.map((node) => node.dataset.id)")
        assert ids == [newest["id"], oldest["id"]]
        answers.clear()  # it left the list for good


@pytest.mark.trained
def test_what_was_explained_is_listed_and_compared(desk: Visit) -> None:
    desk.open("/history", maps=False)
    expect(desk.page.locator("#status")).to_contain_text("Nothing here yet")
    second, first, text = fill(desk)
    records = desk.page.locator(".record")
    assert records.evaluate_all("(nodes) => nodes.map((node) => node.dataset.id)") == [second["id"], first["id"], text["id"]]
    titles = {model["name"]: model["title"] for model in desk.get("/api/models")["models"]}
    for i, document in enumerate((second, first, text)):
        expect(records.nth(i)).to_contain_text(document["targets"][0]["label"])
        expect(records.nth(i)).to_contain_text(percent(document["targets"][0]["probability"]))
        expect(records.nth(i)).to_contain_text(titles[document["model"]])
        assert records.nth(i).locator("time").get_attribute("datetime") == document["created"]
    expect(records.nth(2).locator(".excerpt")).to_contain_text(text["input"]["text"][:40])
    drawn = "(image) => image.decode().then(() => Math.max(image.naturalWidth, image.naturalHeight))"
    assert records.nth(0).locator("img").evaluate(drawn) == 160
    no_violation(desk.page)

    compare = desk.page.get_by_role("button", name="Compare the two")
    records.nth(0).get_by_label("compare").check()
    expect(compare).to_be_disabled()
    records.nth(2).get_by_label("compare").check()
    expect(compare).to_be_disabled()  # a picture and a text
    expect(desk.page.locator("#chosen")).to_contain_text("same page")
    records.nth(2).get_by_label("compare").uncheck()
    records.nth(1).get_by_label("compare").check()
    with desk.page.expect_navigation(url=lambda url: urlsplit(url).path == "/image") as going:
        compare.click()
    assert going.value.url.endswith(f"/image?id={second['id']}&compare={first['id']}")
    desk.maps()
    # both are by one model: a column each, with its own question and map
    heads = desk.page.locator(".model-head")
    title = titles[second["model"]]
    expect(heads.locator(".name")).to_have_text([f"{title}, first", f"{title}, second"])
    for side, document in enumerate((second, first)):
        expect(heads.nth(side)).to_contain_text(f"explained: {document['targets'][0]['label']}")
        expect(heads.nth(side)).not_to_contain_text("it has no class")
        (attribution,) = document["maps"]
        expect(desk.plate("random").nth(side).locator(".facts:not(.after)")).to_contain_text(shown_range(attribution))
    # another question has one answer by this model
    desk.page.locator("#classes li button").nth(2).click()
    desk.next_maps(second["id"])
    expect(heads).to_have_count(0)
    expect(desk.plate("random")).to_have_count(1)

    desk.open("/history", maps=False)
    records.nth(3).get_by_role("link", name="Open").click()
    desk.maps()
    assert desk.id == text["id"]


def remembering(desk: Visit, ids: list[str]) -> None:
    """Go to the history of a browser that made these explanations."""
    desk.open("/history", maps=False)
    desk.page.evaluate("(ids) => localStorage.setItem('vitrine.history', JSON.stringify(ids))", ids)
    desk.page.reload()
    expect(desk.page.locator(".record")).to_have_count(len(ids))


def record(desk: Visit, explanation: str) -> Locator:
    """The record of an explanation, wherever it stands on the list."""
    return desk.page.locator(f'.record[data-id="{explanation}"]')


def test_two_that_cannot_be_set_side_by_side_say_why(desk: Visit) -> None:
    several = desk.explained(png(1), model="scenes-vit", methods="random", target=["0", "1"])["id"]
    image, *prompts = (explained(desk, page, png(number)) for page, number in (("image", 2), ("prompt", 1), ("prompt", 2)))
    remembering(desk, [several, image, *prompts])
    reason, compare = desk.page.locator("#chosen"), desk.page.get_by_role("button", name="Compare the two")
    for two, says in (((several, image), "already shows several classes side by side"), (prompts, "one explanation at a time")):
        for explanation in two:
            record(desk, explanation).get_by_label("compare").check()
        expect(reason).to_contain_text(says)
        expect(compare).to_be_disabled()
        for explanation in two:
            record(desk, explanation).get_by_label("compare").uncheck()


@pytest.mark.trained
def test_what_the_model_says_in_place_of_an_answer_stands_in_place_of_a_share(desk: Visit) -> None:
    text = "when are bears bears and"
    document = desk.explained(model="reviews-bert", text=text, methods="random")
    assert document["abstention"]["says"] == "no opinion"
    known = explained(desk, "text")
    remembering(desk, [document["id"], known])
    expect(record(desk, document["id"]).locator("h2 .num")).to_have_text("“no opinion”")
    expect(record(desk, known).locator("h2 .num")).to_contain_text("%")


def test_of_several_it_is_said_which_one_a_share_is_of(desk: Visit) -> None:
    several = desk.explained(png(1), model="scenes-vit", methods="random", target=["0", "1"])
    prompts = desk.get(f"/api/explanations/{explained(desk, 'prompt', png(1))}")
    remembering(desk, [several["id"], prompts["id"]])
    first, best = several["targets"][0], max(prompts["targets"], key=lambda target: float(target["probability"]))
    share, doubt = percent(best["probability"]), several.get("abstention")
    says = f"“{doubt['says']}”" if doubt else f"“{first['label']}”: {percent(first['probability'])}"  # a doubt is about the picture
    expect(record(desk, several["id"]).locator("h2 .num")).to_have_text(says)
    expect(record(desk, prompts["id"]).locator("h2 .num")).to_have_text(f"“{best['label']}”: {share} among the prompts")


def test_deleting_and_what_the_server_forgot(desk: Visit) -> None:
    newest, middle, _ = listed(desk)
    records = desk.page.locator(".record")
    records.nth(1).get_by_role("button", name="Delete").click()
    records.nth(1).get_by_role("button", name="Keep").click()
    expect(records).to_have_count(3)
    records.nth(1).get_by_role("button", name="Delete").click()
    records.nth(1).get_by_role("button", name="for good").click()
    expect(records).to_have_count(2)
    expect(desk.page.locator("#comparing")).to_be_visible()
    assert HTTP.get(f"{desk.address}/api/explanations/{middle['id']}").status_code == 404

    HTTP.delete(f"{desk.address}/api/explanations/{newest['id']}")
    desk.open("/history", maps=False)
    expect(desk.page.locator("#status")).to_contain_text("The server no longer has 1 explanation")
    expect(records).to_have_count(1)
    desk.refused(404)
    desk.open("/history", maps=False)
    expect(desk.page.locator("#status")).to_have_text("1 explanation")
    expect(desk.page.locator("#comparing")).to_be_hidden()  # there is nothing to compare it with


def test_a_thumbnail_is_the_answers_map_and_those_of_one_picture_stand_together_by_time(desk: Visit) -> None:
    one = png(5)
    older = explained(desk, "image", one, methods=["fullgrad_plus:libra", "random"])
    other = explained(desk, "image", png(6), methods=["random"])
    newer = explained(desk, "image", one, methods=["rollout"])
    text = explained(desk, "text", methods=["fullgrad_plus:libra"])
    desk.open("/history", maps=False)
    desk.page.evaluate("(ids) => localStorage.setItem('vitrine.history', JSON.stringify(ids))", [older, text, other, newer])  # as looked at
    desk.page.reload()
    records = desk.page.locator(".record")
    expect(records).to_have_count(4)
    assert records.evaluate_all("(nodes) => nodes.map((node) => node.dataset.id)") == [text, newer, older, other]
    expect(desk.page.locator(".group")).to_have_count(1)
    expect(desk.page.locator(".group > p")).to_have_text("2 explanations of one picture")
    assert desk.page.locator(".group .record").evaluate_all("(nodes) => nodes.map((node) => node.dataset.id)") == [newer, older]
    sources = {node: desk.page.locator(f'[data-id="{node}"] img').get_attribute("src") or "" for node in (older, newer, other)}
    assert "/maps/fullgrad_plus%3Alibra.png" in sources[older]  # not the control's
    assert "/maps/rollout.png" in sources[newer]
    assert sources[other].endswith("/thumbnail.jpg")  # random numbers are no map of an answer
    expect(desk.page.locator(f'[data-id="{text}"] .words span.s4')).to_have_count(1)

    desk.page.get_by_label("Search").fill("rollout")
    expect(records).to_have_count(1)
    expect(desk.page.locator("#status")).to_have_text("1 of 4 explanations")
    desk.page.get_by_label("Search").fill("no such thing")
    expect(records).to_have_count(0)


def test_all_is_deleted_after_a_second_word(desk: Visit) -> None:
    ids = [document["id"] for document in listed(desk)]
    desk.page.get_by_role("button", name="Delete all", exact=True).click()
    expect(desk.page.get_by_role("button", name="Keep them")).to_be_focused()
    desk.page.get_by_role("button", name="Keep them").click()
    expect(desk.page.locator(".record")).to_have_count(3)
    desk.page.get_by_role("button", name="Delete all", exact=True).click()
    desk.page.get_by_role("button", name="Delete all 3 for good").click()
    expect(desk.page.locator("#status")).to_contain_text("3 explanations deleted. Nothing here yet")
    expect(desk.page.locator(".record")).to_have_count(0)
    assert {HTTP.get(f"{desk.address}/api/explanations/{one}").status_code for one in ids} == {404}
    assert desk.page.evaluate("() => localStorage.getItem('vitrine.history')") == "[]"


def test_the_history_on_a_phone(phone: Visit) -> None:
    phone.open("/text?methods=random")
    phone.open("/history", maps=False)
    expect(phone.page.locator(".record")).to_have_count(1)
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") == 390


@pytest.mark.trained
def test_what_the_model_says_in_place_of_a_share_fits_a_phone(phone: Visit) -> None:
    phone.open("/prompt?methods=random&prompt=eine Katze")
    page = phone.open("/history", maps=False)
    expect(page.locator(".record .num").first).to_have_text("“a language I don't read”")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
