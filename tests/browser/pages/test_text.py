"""The Text page against the numbers of the API."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Route, expect

import explainers
from tests.browser.support.number_format import colour_ends, percent, shown_range, shown_score
from tests.browser.support.serving import played
from tests.browser.support.tiny_models import TinyModels
from tests.browser.support.typefaces import DEJAVU
from tests.browser.support.visit import FEW, Visit, view, visit
from tests.browser.support.word_scores import word_scores
from tests.families import FAMILIES
from tests.server.support.tiny_models import make_tiny
from tests.support.vocabularies import whole_text_unigram
from vitrine_server.jobs.catalogue.model_source import ModelSource

REVIEW = "The plot is thin, I admit. And yet: what a wonderful, warm film! I laughed until it hurt, and I loved every minute."
# What a plate shows: the text of each unit, its kind (for, against, strength), the depth of its colour, its underline.
UNITS_ON_SHOW = """
(plate) => [...plate.querySelectorAll(".reading [data-w]")].map((span) => ({
  text: span.textContent,
  kind: span.className.split(" ").find((name) => ["pro", "con", "mag"].includes(name)) ?? "",
  depth: Number(span.style.getPropertyValue("--a")),
  line: Number.parseFloat(getComputedStyle(span).borderBottomWidth),
  style: getComputedStyle(span).borderBottomStyle,
  colour: getComputedStyle(span).borderBottomColor.match(/[\\d.]+/g).map(Number),
}))
"""


def check_words(desk: Visit, document: dict[str, Any]) -> None:
    words = [word["text"] for word in document["input"]["words"]]
    for attribution in document["maps"]:
        plate = desk.plate(attribution["method"])
        assert plate.locator(".reading").evaluate("(node) => node.textContent") == document["input"]["text"]
        shown = plate.evaluate(UNITS_ON_SHOW)
        assert [unit["text"] for unit in shown] == words
        scores = word_scores(document, attribution)
        low, high = colour_ends(scores, attribution["signed"])
        start = 0.0 if attribution["signed"] else low
        place = np.clip((scores - start) / (high - start), -1, 1).clip(None if attribution["signed"] else 0) if high > low else 0 * scores
        np.testing.assert_allclose([unit["depth"] for unit in shown], np.abs(place), atol=0.002)
        for unit, at in zip(shown, place, strict=True):
            assert unit["kind"] == ("" if at == 0 else "mag" if not attribution["signed"] else "pro" if at > 0 else "con")
            assert abs(unit["line"] - 4 * abs(at)) <= 0.51  # the underline is as thick as the score is large
            if unit["line"] > 0 and attribution["signed"]:
                red, _, blue = unit["colour"][:3]
                assert (red > blue) == (at > 0)
                assert unit["style"] == ("solid" if at > 0 else "dotted")
        assert shown_range(attribution) in plate.locator(".facts").inner_text()


@pytest.mark.trained
def test_an_example_is_explained_when_the_page_opens(desk: Visit) -> None:
    desk.open("/text")
    document = desk.document()
    assert document["model"] == "reviews-bert"
    sample = next(sample for sample in desk.get("/api/samples")["samples"] if sample["kind"] == "text")
    assert document["input"]["text"] == sample["text"]
    rows = desk.page.locator("#classes li button")
    for i, answer in enumerate(document["top"]):
        expect(rows.nth(i)).to_have_text(f"{answer['label']}{percent(answer['probability'])}")
    check_words(desk, document)
    moved, what = desk.shift()
    assert moved < 0.01, what


def test_what_is_written_while_the_page_opens_stays(desk: Visit) -> None:
    held: list[Route] = []
    desk.page.route("**/api/samples", lambda route: held.append(route))
    with desk.page.expect_request("**/api/samples"):
        page = desk.open("/text?methods=random", maps=False)
    field = page.get_by_label("The review to explain")
    field.fill("Dull, from its first")
    held.pop().continue_()
    desk.maps()
    assert "Dull" not in desk.document()["input"]["text"]
    expect(field).to_have_value("Dull, from its first")
    page.locator("#samples button").last.click()
    expect(field).not_to_have_value("Dull, from its first")


@pytest.mark.trained
def test_a_review_is_explained_for_either_side(desk: Visit) -> None:
    desk.open(f"/text?{FEW}")
    before = desk.id
    desk.page.get_by_label("The review to explain").fill(REVIEW)
    desk.page.get_by_role("button", name="Explain this review").click()
    desk.next_maps(before)
    first = desk.document()
    assert first["input"]["text"] == REVIEW
    assert first["top"][0]["label"] == "positive"
    check_words(desk, first)
    other = first["top"][1]["label"]
    desk.page.locator("#classes li button", has_text=other).click()
    desk.next_maps(first["id"])
    second = desk.document()
    assert second["targets"][0]["label"] == other
    expect(desk.page.locator("#answer")).to_have_text(other)
    check_words(desk, second)


def test_a_word_is_looked_at_in_every_plate(desk: Visit) -> None:
    desk.open(f"/text?{FEW}")
    document = desk.document()
    words = document["input"]["words"]
    attribution = next(m for m in document["maps"] if m["signed"])
    plate = desk.plate(attribution["method"])

    def values(at: int) -> None:
        for other in document["maps"]:
            value = shown_score(float(word_scores(document, other)[at]), other["signed"])
            expect(desk.plate(other["method"]).locator(".value")).to_have_text(value)
            expect(desk.plate(other["method"]).locator(".reading .on")).to_have_text(words[at]["text"])

    plate.locator("[data-w]").nth(4).hover()
    values(4)
    desk.page.mouse.move(2, 2)
    expect(desk.page.locator(".value:not(:empty)")).to_have_count(0)
    reading = plate.locator(".reading")
    reading.focus()
    order = np.argsort(-np.abs(word_scores(document, attribution)), kind="stable")
    reading.press("Home")
    values(int(order[0]))
    reading.press("ArrowDown")
    values(int(order[1]))
    expect(desk.page.locator("#reading")).to_contain_text(f"2 of {len(words)} by strength")
    reading.press("ArrowLeft")
    values(max(0, int(order[1]) - 1))
    reading.press("Escape")
    expect(desk.page.locator(".value:not(:empty)")).to_have_count(0)


def test_the_grain_of_the_text(desk: Visit) -> None:
    desk.open("/text?methods=fullgrad_plus:libra")
    before = desk.id
    desk.page.get_by_label("The review to explain").fill(REVIEW)
    desk.page.keyboard.press("Control+Enter")
    desk.next_maps(before)
    document = desk.document()
    attribution = next(m for m in document["maps"] if m["signed"])
    plate = desk.plate(attribution["method"])
    scores = np.array(attribution["scores"])

    def check(texts: list[str], expected: list[float]) -> None:
        shown = plate.evaluate(UNITS_ON_SHOW)
        assert [unit["text"] for unit in shown] == texts
        limit = np.quantile(np.abs(expected), 0.99)
        np.testing.assert_allclose([unit["depth"] for unit in shown], np.clip(np.abs(expected) / limit, 0, 1), atol=0.002)

    with view(desk.page):
        desk.page.get_by_role("radio", name="pieces").check()
    tokens = document["input"]["tokens"]
    pieces = [(t, s) for t, s in zip(tokens, scores, strict=True) if not t["special"]]
    check([REVIEW[t["start"] : t["end"]] for t, _ in pieces], [s for _, s in pieces])
    with view(desk.page):
        desk.page.get_by_role("radio", name="sentences").check()
    ends = (REVIEW.index(" And yet"), REVIEW.index(" I laughed"))
    sentences = [REVIEW[: ends[0]], REVIEW[ends[0] + 1 : ends[1]], REVIEW[ends[1] + 1 :]]
    spans = [(REVIEW.index(text), REVIEW.index(text) + len(text)) for text in sentences]
    words = document["input"]["words"]
    check(sentences, [sum(scores[i] for w in words if a <= w["start"] < b for i in w["tokens"]) for a, b in spans])
    assert desk.query["grain"] == ["sentences"]


def test_an_empty_review_says_what_to_send(desk: Visit) -> None:
    desk.open("/text?methods=random")
    before = desk.page.url
    desk.page.get_by_label("The review to explain").fill("   ")
    desk.page.get_by_role("button", name="Explain this review").click()
    expect(desk.page.locator("#input-problem [role=alert]")).to_contain_text("Send at least one word")
    assert desk.page.url == before
    expect(desk.page.locator('.plate:not([data-state="done"])')).to_have_count(0)
    desk.refused(422)


@pytest.mark.trained
def test_a_text_that_is_too_long_is_cut_and_said_so(desk: Visit) -> None:
    limit = desk.explain_too_long()
    document = desk.document()
    tokens = [token for token in document["input"]["tokens"] if not token["special"]]
    assert limit - 8 <= len(document["input"]["tokens"]) <= limit
    expect(desk.page.locator("#notes li")).to_have_text(document["notes"])
    assert "the middle" in document["notes"][0]
    ends = [(token["end"], other["start"]) for token, other in itertools.pairwise(tokens)]
    start, stop = max(ends, key=lambda pair: pair[1] - pair[0])
    unread = desk.page.locator(".plate").first.locator(".unread")
    assert unread.evaluate_all("(nodes) => nodes.map((node) => node.textContent)") == [document["input"]["text"][start:stop]]
    with view(desk.page):
        desk.page.get_by_role("radio", name="sentences").check()
    assert unread.evaluate_all("(nodes) => nodes.map((node) => node.textContent)") == [document["input"]["text"][start:stop]]


def test_characters_beyond_two_bytes_move_no_word(desk: Visit) -> None:
    """The API counts them as one, a string of JavaScript as two."""
    desk.open(f"/text?{FEW}")
    before = desk.id
    desk.page.get_by_label("The review to explain").fill("a 😀 good 👍🏽 film. not bad 🎬🎬")
    desk.page.keyboard.press("Control+Enter")
    desk.next_maps(before)
    check_words(desk, desk.document())


@pytest.fixture(scope="module")
def without_numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose text model has a tokenizer that calls every text one word."""

    class Engines(TinyModels):
        def source(self) -> ModelSource:
            def load(name: str, device: str | None = None) -> explainers.Model:
                if name != "reviews-bert":
                    return make_tiny(name, device)
                labels = ["negative", "positive", "neither"]
                tokenizer = whole_text_unigram(40)
                return explainers.wrap(FAMILIES["bert"].build(), name=name, tokenizer=tokenizer, labels=labels, device=device)

            return replace(super().source(), load=load)

    with played(tmp_path_factory.mktemp("words"), Engines(), device="cpu") as address:
        yield address


def test_a_tokenizer_that_calls_the_text_one_word_shows_its_words(browsers: Callable[[str], Browser], without_numbers: str) -> None:
    for desk in visit(browsers(DEJAVU), without_numbers):
        text = "a good film, not 好看 movie"
        document = desk.explained(model="reviews-bert", text=text, methods=FEW.replace("methods=", "").split("&"))
        assert [word["text"] for word in document["input"]["words"]] == ["a", "good", "film,", "not", "好", "看", "movie"]
        desk.open(f"/text?id={document['id']}")
        check_words(desk, document)


def test_markup_in_a_review_stays_text(desk: Visit) -> None:
    desk.open("/text?methods=random")
    before = desk.id
    text = 'A <b>bold</b> film & a <img src=x onerror="document.title=1"> mess.'
    desk.page.get_by_label("The review to explain").fill(text)
    desk.page.get_by_role("button", name="Explain this review").click()
    desk.next_maps(before)
    assert desk.page.locator(".reading b, .reading img").count() == 0
    assert desk.page.locator(".reading").first.evaluate("(node) => node.textContent") == text


def test_a_link_opens_the_same_review_again(desk: Visit) -> None:
    desk.open(f"/text?evidence=against&{FEW}")
    document = desk.document()
    desk.page.reload()
    desk.maps()
    assert desk.id == document["id"]
    expect(desk.page.get_by_label("The review to explain")).to_have_value(document["input"]["text"])
    with view(desk.page):
        expect(desk.page.get_by_role("radio", name="against")).to_be_checked()
    kinds = {unit["kind"] for unit in desk.plate(next(m for m in document["maps"] if m["signed"])["method"]).evaluate(UNITS_ON_SHOW)}
    assert "pro" not in kinds
    assert "con" in kinds


@pytest.mark.trained
def test_the_sample_reviews(desk: Visit) -> None:
    desk.open("/text?methods=random")
    samples = [sample for sample in desk.get("/api/samples")["samples"] if sample["model"] == "reviews-bert"]
    assert len(samples) > 3
    for number, sample in enumerate(samples):
        if number:
            before = desk.id
            desk.page.locator("#samples button").nth(number).click()
            desk.next_maps(before)
        expect(desk.page.locator("#remark")).to_contain_text(sample["title"])
        assert desk.document()["input"]["text"] == sample["text"]
