"""What an encoder-decoder writes, over HTTP: both rows of words, kept, asked about again, and taken away."""

from __future__ import annotations

import pytest

import explainers
from tests.server.conftest import Check, Sites
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.encoder_decoders import translator

TEXT = "a good film, not a bad movie"


def test_words_of_both_rows_are_sent_and_edited(sites: Sites, refused: Check) -> None:
    with sites(GatedModels(makes={**MAKES, "reviews-bert": translator})) as site:
        whole = site.ask(wait=True, model="reviews-bert", text=TEXT, methods=["input_x_gradient:libra", "random"]).json()
        assert (whole["task"], whole["at"]) == ("text2text-generation", "answer")
        place = whole["places"][3]
        document = site.ask(
            wait=True, model="reviews-bert", source=whole["id"], methods=["input_x_gradient", "random"], at=place["at"]
        ).json()
        assert document["place"] == place
        words = document["input"]["words"]
        assert [word["part"] for word in words] == [0] * 8 + [2] * 2
        answer = document["input"]["answer"]
        assert [answer[word["start"] : word["end"]] for word in words[8:]] == [word["text"] for word in words[8:]]
        expected = explainers.explain(translator(), TEXT, methods="input_x_gradient", at=place["at"])["input_x_gradient"]
        (shown,) = [each for each in document["maps"] if each["method"] == "input_x_gradient"]
        assert shown["scores"] == pytest.approx(expected.scores.tolist(), abs=1e-5)
        url = f"/api/explanations/{document['id']}/deletion-test"
        removed = {"remove": words[9]["tokens"]}
        assert site.client.post(url, json=removed).status_code == 200
        refused(site.client.post(url, json={"replace": {"9": "film"}}), 422, "written-word")
        assert site.client.post(url, json={"replace": {"2": "movie"}}).status_code == 200
        table = site.client.post(f"/api/explanations/{whole['id']}/answer-table", json={"method": "raw_attention"}).json()
        assert table["columns"][8:] == [f"→ {row}" for row in table["rows"][:-1]]
