"""Claims over HTTP: those of the engine, of the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import explainers
from tests.server.conftest import Check, Site, png
from tests.server.support.tiny_models import tiny, tiny_site

TEXT = "not a good movie . a bad movie . not bad"
METHODS = ["input_x_gradient", "random"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


def ask(site: Site, document: Any, **body: Any) -> Any:
    return site.client.post(f"/api/explanations/{document['id']}/claim", json=body)


def test_it_is_that_of_the_engine(site: Site) -> None:
    document = site.ask(model="reviews-bert", text=TEXT, wait=True, methods=METHODS).json()
    target = document["targets"][0]["label"]
    result = explainers.explain(tiny("reviews-bert"), TEXT, target, METHODS)
    found = explainers.claim(tiny("reviews-bert"), result, "input_x_gradient")
    answer = ask(site, document, method="input_x_gradient").json()
    assert (answer["id"], answer["target"], answer["method"]) == (document["id"], target, "input_x_gradient")
    assert answer["looked_at"] == 1  # a map of random numbers is no method
    assert answer["holds"] == found.holds
    assert answer["sentence"] == found.sentence
    assert answer["hidden"] == [list(part) for part in found.hidden]
    assert [tried["size"] for tried in answer["tried"]] == [tried.size for tried in found.tried]
    assert answer["answer"] == pytest.approx(found.answer, abs=1e-5)
    again = ask(site, document, method="input_x_gradient", target=target).json()
    assert {**again, "asked": 0} == {**answer, "asked": 0}
    assert again["asked"] == 0  # what was drawn is kept


def test_a_picture_has_one_as_well(site: Site) -> None:
    document = site.ask(png(), wait=True, methods=METHODS, target="ant").json()
    answer = ask(site, document, method="input_x_gradient").json()
    assert answer["parts"] == len(document["maps"][0]["scores"])
    assert answer["holds"] == (answer["why"] == "")
    assert answer["holds"] or answer["sentence"] == f"No such claim. {answer['why']}"
    assert (answer["error"], answer["share_beaten"]) == (0.05, 0.95)


def test_what_has_no_claim_is_refused(site: Site, refused: Check) -> None:
    document = site.ask(png(), wait=True, methods=METHODS[:1], target="ant").json()
    refused(ask(site, document, method="rollout"), 422, "no-such-map")
    refused(ask(site, document, method=METHODS[0], target="gorilla"), 422, "no-such-target")
    words = site.ask(png(), model="clip", prompt=["a cat", "a dog"], side="text", wait=True, methods=METHODS[:1]).json()
    refused(ask(site, words, method=METHODS[0]), 422, "no-claim")
    alone = site.ask(png(), model="clip", prompt=["a cat"], wait=True, methods=METHODS[:1]).json()
    assert "no range" in refused(ask(site, alone, method=METHODS[0]), 422, "cannot-answer")["detail"]
