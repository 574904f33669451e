"""Counterfactuals over HTTP: the numbers are those of the engine, and of the deletion test without the same tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import explainers
from tests.server.conftest import Check, Site, png
from tests.server.support.tiny_models import TEXT, tiny, tiny_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


def image(site: Site) -> Any:
    return site.ask(png(), wait=True, methods=["input_x_gradient"]).json()


def text(site: Site) -> Any:
    return site.ask(model="reviews-bert", text=TEXT, wait=True, methods=["input_x_gradient"], target="for").json()


def ask(site: Site, document: Any, to: str) -> Any:
    return site.client.post(f"/api/explanations/{document['id']}/counterfactual", json={"to": to})


@pytest.mark.parametrize("kind", [image, text])
def test_the_answer_without_the_hidden_parts_is_the_models(site: Site, kind: Any) -> None:
    document = kind(site)
    target = document["targets"][0]["label"]
    first, *others = [entry["label"] for entry in document["top"]]
    for to in others[:2]:
        found = ask(site, document, to).json()
        assert (found["answer"], found["to"], found["id"]) == (first, to, document["id"])
        removed = [token for part in found["hidden"] for token in part]
        again = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"target": target, "remove": removed}).json()
        assert [entry["label"] for entry in found["top"]] == [entry["label"] for entry in again["top"]]
        assert found["leader"] == again["top"][0]["label"]
        assert found["reached"] == (found["leader"] == to)
        whole = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"target": target, "remove": []}).json()
        known = {entry["label"]: entry["probability"] for entry in whole["top"]}
        assert set(found["before"]) == {first, to, *(entry["label"] for entry in found["top"])}  # no row of the page is without
        shared = {label: share for label, share in known.items() if label in found["before"]}
        assert shared
        assert {label: found["before"][label] for label in shared} == pytest.approx(shared, abs=1e-5)
        probabilities = {entry["label"]: entry["probability"] for entry in again["top"]}
        assert found["after"] == pytest.approx({label: probabilities[label] for label in found["after"]}, abs=1e-5)


def test_it_is_that_of_the_engine(site: Site) -> None:
    document = text(site)
    other = document["top"][1]["label"]
    model = tiny("reviews-bert")
    result = explainers.explain(model, document["input"]["text"], None, ["input_x_gradient"])
    found = explainers.counterfactual(model, result, other)
    answer = ask(site, document, other).json()
    assert answer["hidden"] == [list(part) for part in found.hidden]
    assert answer["parts"] == len(document["input"]["words"])
    assert answer["reached"] == found.is_reached


def test_what_has_no_other_answer_is_refused(site: Site, refused: Check) -> None:
    document = text(site)
    assert "already" in refused(ask(site, document, document["top"][0]["label"]), 422, "cannot-answer")["detail"]
    assert "no class" in refused(ask(site, document, "gorilla"), 422, "cannot-answer")["detail"]
    prompts = site.ask(png(), model="clip", prompt=["a cat", "a dog"], side="text", wait=True, methods=["input_x_gradient"]).json()
    refused(ask(site, prompts, "a dog"), 422, "no-answer")
