"""Models that say which word comes, over HTTP: no vocabulary is sent, a word is typed, an answer is kept as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

import explainers
from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.task_models import chatting, masked, picture_writer, question_answerer, writer

PROMPT = "a good film, not a bad movie"


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    models = {"reviews-bert": masked, "timm/other": writer, "timm/listed": picture_writer, "scenes-vit": question_answerer}
    with sites(GatedModels(makes={**MAKES, **models})) as one:
        yield one


def test_a_word_at_a_mask_is_typed_and_no_vocabulary_sent(site: Site, refused: Check) -> None:
    text = "the [MASK] film"
    document = site.ask(wait=True, model="reviews-bert", text=text, methods=["random"], at="mask", target="movie", against="good").json()
    assert document["targets"][0]["label"] == "movie − good"
    assert (document["at"], document["place"]["tokens"]) == ("mask", [2, 2])
    assert site.get("/api/models/reviews-bert")["labels"] == []
    refused(site.ask(wait=True, model="reviews-bert", text="the film"), 422, "cannot-explain")


def test_an_answer_is_kept_and_asked_about_again(site: Site) -> None:
    document = site.ask(wait=True, model="timm/other", text=PROMPT, methods=["attcat:libra", "random"]).json()
    assert (document["task"], document["at"], document["output"]) == ("text-generation", "answer", "regression")
    tokens = document["input"]["tokens"]
    assert [token["part"] for token in tokens] == [0] * (len(tokens) - 4) + [2] * 4
    assert document["place"]["label"] == document["input"]["answer"].strip()
    test = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"fractions": [0, 1]}).json()
    assert test["how"] == "removed"
    assert test["curves"][0]["value"][0] == pytest.approx(document["targets"][0]["logit"], abs=1e-3)
    word = document["places"][1]
    again = site.ask(wait=True, model="timm/other", source=document["id"], methods=["random"], at=word["at"]).json()
    assert (again["place"], again["input"]["answer"]) == (word, document["input"]["answer"])
    words = site.ask(wait=True, model="timm/other", source=document["id"], methods=["random"], at="words", target=["0", "1"]).json()
    assert [target["label"] for target in words["targets"]] == [place["label"] for place in document["places"][1:3]]
    table = site.client.post(f"/api/explanations/{document['id']}/answer-table", json={"method": "attcat:libra"}).json()
    assert (table["rows"], table["answer"]) == ([place["label"] for place in document["places"][1:-1]], document["input"]["answer"])
    assert table["places"] == [place["at"] for place in document["places"][1:-1]]
    assert sum(table["logits"]) == pytest.approx(document["targets"][0]["logit"], abs=1e-3)
    assert table["scores"][0] == pytest.approx(explainers.answer_table(writer(), PROMPT, "attcat:libra").scores[0].tolist(), abs=1e-4)


def test_a_chat_template_is_laid_around_a_prompt_and_kept(sites: Sites, refused: Check) -> None:
    with sites(GatedModels(makes={**MAKES, "reviews-bert": partial(chatting, writer()), "timm/other": masked})) as site:
        assert site.get("/api/models/reviews-bert")["details"]["chat_template"] is True
        document = site.ask(wait=True, model="reviews-bert", text="good film", methods=["random"], chat=True).json()
        parts = [token["part"] for token in document["input"]["tokens"]]
        assert (document["chat"], document["input"]["text"], parts[0]) == (True, "good film", 4)
        word = document["places"][1]["at"]
        again = site.ask(wait=True, model="reviews-bert", source=document["id"], methods=["random"], at=word).json()
        assert (again["chat"], again["input"]) == (True, document["input"])
        plain = site.ask(wait=True, model="reviews-bert", text="good film", methods=["random"]).json()
        assert plain["id"] != document["id"]
        assert "chat=True," in site.get(f"/api/explanations/{document['id']}/code")["python"]
        refused(site.ask(wait=True, model="timm/other", text="the [MASK] film", methods=["random"], chat=True), 422, "cannot-explain")


def test_a_model_that_writes_nothing_has_no_table(site: Site, refused: Check) -> None:
    document = site.ask(wait=True, model="reviews-bert", text="the [MASK] film", methods=["random"]).json()
    refused(site.client.post(f"/api/explanations/{document['id']}/answer-table", json={}), 422, "cannot-answer")


def test_an_answer_about_a_picture(site: Site, refused: Check) -> None:
    prompt = "a good <image> film"
    document = site.ask(png(), wait=True, model="timm/listed", text=prompt, methods=["input_x_gradient:libra", "random"]).json()
    assert (document["task"], document["at"]) == ("image-text-to-text", "answer")
    picture = document["input"]["picture"]
    assert (picture["grid"], picture["first"], document["input"]["text"]) == ([4, 4], 4, prompt)
    assert [token["part"] for token in document["input"]["tokens"]].count(3) == 16
    assert len(document["maps"][0]["scores"]) == len(document["input"]["tokens"])
    root = f"/api/explanations/{document['id']}"
    assert site.client.get(f"{root}/input.png").headers["content-type"] == "image/png"
    assert site.client.get(f"{root}/maps/input_x_gradient%3Alibra.png").content[1:4] == b"PNG"
    test = site.client.post(f"{root}/deletion-test", json={"fractions": [0, 1]}).json()
    assert test["curves"][0]["value"][0] == pytest.approx(document["targets"][0]["logit"], abs=1e-3)
    assert test["tokens"] == sum(not token["special"] for token in document["input"]["tokens"])
    table = site.client.post(f"{root}/answer-table", json={}).json()
    assert table["columns"][0] == "(picture)"
    shares = site.client.post(f"{root}/prior-or-pixels", json={}).json()
    assert [sum(row) for row in shares["original"]["shares"]] == pytest.approx(shares["original"]["logits"], rel=1e-4)
    assert shares["original"]["shares"] != shares["grey"]["shares"]
    maps = site.client.post(f"{root}/token-maps", json={}).json()
    assert (len(maps["tokens"]), maps["grid"], {len(scores) for scores in maps["maps"]}) == (4, [4, 4], {16})
    assert site.ask(wait=True, model="timm/listed", source=document["id"], methods=["random"], at=maps["places"][1]).status_code == 200
    word = document["places"][1]
    again = site.ask(wait=True, model="timm/listed", source=document["id"], methods=["random"], at=word["at"]).json()
    assert (again["place"], again["input"]) == (word, document["input"])
    other = site.ask(wait=True, model="timm/listed", source=document["id"], text="a bad film", methods=["random"]).json()
    assert (other["input"]["text"], other["input"]["picture"]["sha256"]) == ("a bad film", picture["sha256"])
    code = site.get(f"{root}/code")
    assert f'explainers.PicturePrompt("original.jpg", "{prompt}")' in code["python"]
    assert f"text={prompt}" in code["curl"]
    assert f"source={document['id']}" in code["curl"]
    assert site.client.get(f"{root}/bundle.zip").content[:2] == b"PK"
    replace = site.client.post(f"{root}/deletion-test", json={"replace": {"0": "the"}})
    refused(replace, 422, "not-a-text")


@pytest.mark.parametrize(
    ("model", "fields", "kind"),
    [
        ("timm/listed", {"text": "what is it"}, "wrong-input"),
        ("timm/listed", {}, "wrong-input"),
        ("reviews-bert", {"text": "the [MASK] film"}, "one-input"),
        ("scenes-vit", {"text": "a film"}, "one-input"),
    ],
)
def test_a_picture_and_a_text_are_for_who_reads_both(site: Site, refused: Check, model: str, fields: dict[str, str], kind: str) -> None:
    image = () if fields and model == "timm/listed" else (png(),)
    refused(site.ask(*image, wait=True, model=model, methods=["random"], **fields), 422, kind)


def test_a_question_and_its_text_are_sent_together(site: Site, refused: Check) -> None:
    pair = {"text": "good film?", "text_pair": "the good movie, not the bad film"}
    document = site.ask(wait=True, methods=["fullgrad:libra"], at="start", target="movie", **pair).json()
    expected = explainers.explain(question_answerer(), explainers.TextPair(*pair.values()), "movie", "fullgrad:libra", at="start")
    assert (document["task"], document["at"], document["input"]["text_pair"]) == ("question-answering", "start", pair["text_pair"])
    assert document["targets"][0]["logit"] == pytest.approx(expected.target.logit, abs=1e-5)
    assert document["maps"][0]["scores"] == pytest.approx(expected.maps[0].scores.tolist(), rel=1e-3, abs=1e-6)
    assert [place["at"] for place in document["places"]] == ["answer", "start", "end"]
    span = site.ask(wait=True, source=document["id"], methods=["random"], at="good movie").json()
    assert (span["place"]["label"], span["output"]) == ("good movie", "regression")
    test = site.client.post(f"/api/explanations/{span['id']}/deletion-test", json={"fractions": [0, 1]}).json()
    assert test["curves"][0]["value"][0] == pytest.approx(span["targets"][0]["logit"], abs=1e-5)
    assert site.get("/api/models/scenes-vit")["details"]["texts"] == ["question", "text that answers it"]
    refused(site.ask(wait=True, text="good film?", methods="random"), 422, "cannot-explain")
