"""Texts longer than their model over HTTP: where their windows lie, and tokens taken away from all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

import explainers
from tests.families import CLASS, SEPARATOR
from tests.server.conftest import Check, Site, png
from tests.server.support.tiny_models import tiny, tiny_site
from tests.support.vocabularies import wordpiece

TEXT = "not a bad movie, the plot is well-made! i don't like the film. " * 2
METHODS = ["rollout", "fullgrad_plus:libra"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


def ask(site: Site, text: str = TEXT, **fields: Any) -> Any:
    return site.ask(model="reviews-bert", text=text, wait=True, **{"methods": METHODS, "target": "for", **fields}).json()


def mean_logits(document: Any, text: str = TEXT, gone: Sequence[int] = ()) -> torch.Tensor:
    """The mean of the logits of the windows that a document names, put together here, without some tokens of the text."""
    ids = [CLASS, *wordpiece()(text, add_special_tokens=False, verbose=False)["input_ids"], SEPARATOR]
    model, found = tiny("reviews-bert"), []
    for window in document["windows"]:
        first, last = window["tokens"]
        row = [CLASS, *(ids[i] for i in range(first, last + 1) if i not in gone), SEPARATOR]
        with torch.no_grad():
            found.append(model.forward({"input_ids": torch.tensor([row]), "attention_mask": torch.ones(1, len(row), dtype=torch.long)})[0])
    return torch.stack(found).mean(0)


def test_a_long_text_is_read_whole(site: Site) -> None:
    document = ask(site)
    result = explainers.explain(tiny("reviews-bert"), TEXT, target="for", methods=METHODS)
    assert document["windows"] == result.to_json()["windows"]
    assert len(document["windows"]) >= 2
    assert [one["scores"] for one in document["maps"]] == [one.scores.tolist() for one in result.maps]
    assert document["targets"][0]["logit"] == pytest.approx(float(mean_logits(document)[1]), rel=1e-4)
    events = site.client.get(f"/api/explanations/{document['id']}/events").text
    started = json.loads(events.split("event: started")[1].split("data: ")[1].splitlines()[0])
    assert started["windows"] == document["windows"]
    for name in ("rollout.png", "rollout.npy"):
        assert site.client.get(f"/api/explanations/{document['id']}/maps/{name}").status_code == 200


def test_tokens_are_taken_from_every_window(site: Site) -> None:
    document = ask(site)
    first, second = (window["tokens"] for window in document["windows"][:2])
    gone = [first[0], second[0], first[1]]  # the last two stand in both
    answer = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"remove": gone})
    assert answer.status_code == 200, answer.text
    assert answer.json()["logit"] == pytest.approx(float(mean_logits(document, gone=gone)[1]), rel=1e-4)
    curves = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"fractions": [0, 0.5, 1]}).json()
    everything = [i for i, token in enumerate(document["input"]["tokens"]) if not token["special"]]
    for curve in curves["curves"]:
        assert curve["logit"][0] == pytest.approx(float(mean_logits(document)[1]), rel=1e-4)
        assert curve["logit"][-1] == pytest.approx(float(mean_logits(document, gone=everything)[1]), rel=1e-4)


def test_a_word_is_written_anew_in_every_window(site: Site) -> None:
    document = ask(site)
    place = next(i for i, word in enumerate(document["input"]["words"]) if word["text"] == "bad")
    answer = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"replace": {str(place): "good"}})
    assert answer.status_code == 200, answer.text
    assert answer.json()["logit"] == pytest.approx(float(mean_logits(document, TEXT.replace("bad", "good", 1))[1]), rel=1e-4)


@pytest.mark.parametrize(("path", "body"), [("layers", {}), ("contributions", {"method": "fullgrad_plus:libra"})])
def test_what_looks_inside_one_pass_says_that_there_are_several(site: Site, refused: Check, path: str, body: Any) -> None:
    document = ask(site)
    problem = refused(site.client.post(f"/api/explanations/{document['id']}/{path}", json=body), 422, "read-in-windows")
    assert "windows" in problem["detail"]


def test_a_text_may_be_cut(site: Site, refused: Check) -> None:
    document = ask(site, long_texts="cut")
    assert "windows" not in document
    assert document["long_texts"] == "cut"
    assert "left out" in document["notes"][0]
    assert document["id"] != ask(site)["id"]
    code = site.client.get(f"/api/explanations/{document['id']}/code").text
    assert 'long_texts=\\"cut\\"' in code or 'long_texts="cut"' in code
    refused(site.ask(model="reviews-bert", text=TEXT, long_texts="shorten"), 422, "unknown-way")
    refused(site.ask(png(), long_texts="cut"), 422, "wrong-input")
