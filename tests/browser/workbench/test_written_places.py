"""The box "Place" of models that say which word comes: a word of an answer, and a word that is typed for a mask."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import played
from tests.browser.support.task_model import TaskModel
from tests.browser.support.visit import Visit, visit
from tests.support.encoder_decoders import translator
from tests.support.task_models import chatting, masked, question_answerer, writer


@pytest.fixture
def desk(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Visit]:
    with played(tmp_path / "server", TaskModel(request.param), device="cpu") as address:
        yield from visit(browser, address, 390)


@pytest.mark.parametrize("desk", [writer], indirect=True)
def test_a_word_of_the_answer_is_asked_about(desk: Visit) -> None:
    first = desk.explained(model="reviews-bert", text="a good film, not a bad movie", methods=["attcat:libra", "random"])
    page = desk.open(f"/text?id={first['id']}")
    choice = page.locator("#place")
    expect(choice.locator(".asked-about b")).to_have_text(first["input"]["answer"].strip())
    before = desk.id
    choice.locator(".places button").nth(1).click()
    desk.next_maps(before)
    assert desk.document()["place"] == first["places"][1]
    no_violation(page)


@pytest.mark.parametrize("desk", [translator], indirect=True)
def test_a_written_word_shows_the_source_and_the_words_before_it(desk: Visit) -> None:
    text = "a good film, not a bad movie"
    first = desk.explained(model="reviews-bert", text=text, methods=["input_x_gradient:libra", "random"])
    page = desk.open(f"/text?id={first['id']}")
    before = desk.id
    page.locator("#place .places button").nth(3).click()
    desk.next_maps(before)
    document = desk.document()
    assert document["place"] == first["places"][3]
    written = [place["label"].partition("#")[0] for place in first["places"][1:3]]
    plate = page.locator(".plate").first.locator(".reading")
    assert plate.locator("[data-w]").all_inner_texts() == ["a", "good", "film", ",", "not", "a", "bad", "movie", *written]
    expect(plate).to_contain_text(f"{text}\n\n{' '.join(written)}", use_inner_text=True)
    no_violation(page)
    page.get_by_role("button", name="Remove words").click()
    page.locator("button.word").nth(8).click()
    expect(page.locator("button.word").nth(8)).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("desk", [partial(chatting, writer())], indirect=True)
def test_a_chat_template_is_laid_around_the_prompt(desk: Visit) -> None:
    page = desk.open("/text?model=reviews-bert&methods=random", maps=False)
    template = page.get_by_label("with the model’s chat template around it")
    template.check()
    page.locator("#text").fill("good film")
    before = desk.id
    page.locator("#writing [type=submit]").click()
    desk.next_maps(before)
    document = desk.document()
    assert (document["chat"], document["input"]["text"]) == (True, "good film")
    assert page.locator(".plate").first.locator(".reading [data-w]").all_inner_texts() == ["good", "film"]
    no_violation(page)


@pytest.mark.parametrize("desk", [masked], indirect=True)
def test_a_word_for_a_mask_is_typed(desk: Visit) -> None:
    first = desk.explained(model="reviews-bert", text="the [MASK] film, not a [MASK] movie", methods=["attcat:libra", "random"])
    page = desk.open(f"/text?id={first['id']}")
    page.get_by_role("button", name="Ask more").click()
    before = desk.id
    page.get_by_role("combobox", name="Another class").fill("movie")
    page.get_by_role("combobox", name="Another class").press("Enter")
    desk.next_maps(before)
    document = desk.document()
    assert ([target["label"] for target in document["targets"]], document["at"]) == (["movie"], first["at"])


@pytest.mark.parametrize("desk", [question_answerer], indirect=True)
def test_a_question_and_its_text_have_a_field_each(desk: Visit) -> None:
    page = desk.open("/text?model=reviews-bert&methods=attcat:libra&methods=random", maps=False)
    first = desk.explained(model="reviews-bert", text="bad film?", text_pair="the good film", methods=["attcat:libra", "random"])
    desk.open(f"/text?id={first['id']}")
    question, context = page.get_by_label("The question"), page.get_by_label("The text that answers it")
    expect(question).to_have_value("bad film?")
    expect(context).to_have_value("the good film")
    question.fill("good film?")
    context.fill("the good movie, not the bad film")
    expect(page.locator("p.unsubmitted")).to_contain_text("before your change")
    before = desk.id
    page.get_by_role("button", name="Explain the answer").click()
    desk.next_maps(before)
    document = desk.document()
    assert (document["input"]["text"], document["input"]["text_pair"]) == ("good film?", "the good movie, not the bad film")
    words = page.locator(".plate").first.locator(".reading span")
    expect(words).to_have_text([word["text"] for word in document["input"]["words"]])  # of both texts
    choice = page.locator("#place")
    expect(choice.locator(".places button")).to_have_count(3)
    before = desk.id
    choice.get_by_role("button", name="end of the answer").click()
    desk.next_maps(before)
    assert desk.document()["at"] == "end"
    no_violation(page)
