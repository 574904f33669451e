"""A classifier that somebody brought may read two texts: the Text page has a field for the second one behind a button."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from explainers import Model
from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import load_models, played
from tests.browser.support.visit import Visit, visit
from tests.server.support.gated_models import MAKES, GatedModels, text_model

OWN = "timm/other"
TOPICS = "timm/topics"  # which names no opinion


def topic_model() -> Model:
    return replace(text_model(), labels=("sport", "trade"))


@pytest.fixture
def desk(browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    with played(tmp_path / "server", GatedModels(makes={**MAKES, OWN: text_model, TOPICS: topic_model})) as address:
        load_models(address, OWN)
        yield from visit(browser, address, 390)


def test_a_second_text_is_asked_about_and_left_out_again(desk: Visit) -> None:
    page = desk.open(f"/text?model={OWN}&methods=random&methods=rollout", maps=False)
    second = page.get_by_label("The second text")
    page.get_by_role("button", name="Add a second text").click()
    expect(second).to_be_focused()
    page.locator("#text").fill("one two")
    second.fill("three")
    before = desk.id
    page.get_by_role("button", name="Explain this text").click()
    desk.next_maps(before)
    document = desk.document()
    assert (document["input"]["text"], document["input"]["text_pair"]) == ("one two", "three")
    words = page.locator(".plate").first.locator(".reading span")
    expect(words).to_have_text([word["text"] for word in document["input"]["words"]])
    no_violation(page)
    page.reload()
    expect(second).to_have_value("three")
    page.get_by_role("button", name="Leave the second text out").click()
    expect(page.locator("p.unsubmitted")).to_contain_text("before your change")
    before = desk.id
    page.get_by_role("button", name="Explain this text").click()
    desk.next_maps(before)
    assert desk.document()["input"].get("text_pair") is None
    expect(second).to_be_hidden()


def test_only_the_model_inside_speaks_of_reviews(desk: Visit) -> None:
    page = desk.open("/text?methods=random", maps=False)
    expect(page.get_by_role("button", name="Explain this review")).to_be_visible()
    expect(page.get_by_role("button", name="Add a second text")).to_be_hidden()
    page.locator("#model-choice").select_option(OWN)
    expect(page.get_by_role("button", name="Explain this text")).to_be_visible()
    expect(page.locator("#text")).to_have_attribute("placeholder", "Paste a text")


def test_a_model_that_does_not_judge_reviews_begins_without_one(desk: Visit) -> None:
    """Nobody chose the review; models whose classes are those of a review begin with it."""
    review = {"id": "praise", "kind": "text", "model": "reviews-bert", "title": "Praise", "expected": "positive", "text": "one two"}
    desk.page.route("**/api/samples", lambda route: route.fulfill(json={"samples": [review]}))
    load_models(desk.address, TOPICS)
    text = desk.page.locator("#text")
    for model in ("reviews-bert", OWN):
        desk.open(f"/text?model={model}&methods=random")
        expect(text).to_have_value("one two")
    page = desk.open(f"/text?model={TOPICS}&methods=random", maps=False)
    expect(text).to_have_attribute("placeholder", "Paste a text")
    expect(page.locator("#samples button")).to_have_text(["Praise"])  # it is offered
    expect(text).to_have_value("")
    assert not desk.query.get("id")
    desk.open(f"/text?model={TOPICS}&methods=random&sample=praise")  # where the address names it, it opens
    expect(text).to_have_value("one two")
