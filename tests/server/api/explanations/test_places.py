"""Models with a task over HTTP: a place of the output is asked about, offered, kept and asked about again."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from tests.server.conftest import Check, Site, Sites, png
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.task_models import TEXT, backbone, token_classifier


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    with sites(GatedModels(makes={**MAKES, "reviews-bert": token_classifier, "scenes-vit": backbone})) as one:
        yield one


def test_a_word_is_asked_about_and_others_are_offered(site: Site, refused: Check) -> None:
    document = site.ask(wait=True, model="reviews-bert", text=TEXT, methods=None, at="movie", target="LOC").json()
    assert (document["task"], document["at"], document["place"]["label"]) == ("token-classification", "token:3", "movie")
    assert [place["label"] for place in document["places"]] == ["the", "good", "movie", ",", "not", "a", "bad", "film"]
    assert document["targets"][0]["label"] == "LOC"
    assert {"raw_attention", "fullgrad_plus:libra"} <= set(document["methods"])
    usual = site.ask(wait=True, model="reviews-bert", text=TEXT).json()
    assert usual["at"] in [place["at"] for place in usual["places"]]
    assert site.get("/api/models/reviews-bert")["details"]["task"] == "token-classification"
    reason = refused(site.ask(wait=True, model="reviews-bert", text=TEXT, at="Paris"), 422, "cannot-explain")
    assert "names no place of this input" in reason["detail"]
    lines = site.get(f"/api/explanations/{document['id']}/code")
    assert 'at="token:3"' in lines["python"]
    assert "at=token:3" in lines["curl"]
    test = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"fractions": [0, 1]}).json()
    assert test["how"] == "masked"
    assert test["curves"][0]["probability"][0] == pytest.approx(document["targets"][0]["probability"], abs=1e-6)


def test_a_picture_is_compared_with_another(site: Site, refused: Check) -> None:
    files = {"image": ("photo", png()), "reference": ("other", png(1))}
    form = {"model": "scenes-vit", "methods": ["fullgrad:libra"]}
    first = site.client.post("/api/explanations", params={"wait": 1}, data=form, files=files).json()
    assert (first["at"], first["output"]) == ("similar", "regression")
    again = site.ask(wait=True, source=first["id"], methods=["input_x_gradient"]).json()
    assert again["targets"][0]["logit"] == pytest.approx(first["targets"][0]["logit"], abs=1e-6)
    model = backbone()
    with torch.no_grad():
        tensors = (model.tensors(Image.open(io.BytesIO(png(seed)))) for seed in (0, 1))
        ours, theirs = (model.module(each["pixel_values"]).pooler_output[0] for each in tensors)
    assert first["targets"][0]["logit"] == pytest.approx(float(F.cosine_similarity(ours, theirs, dim=0)), abs=1e-5)
    refused(site.ask(model="reviews-bert", text=TEXT, reference_text=" "), 422, "empty-text")
    refused(site.ask(png(), wait=True, reference_text="a film"), 422, "wrong-reference")


def test_methods_that_cannot_run_for_a_place_are_left_out_and_named(site: Site, refused: Check) -> None:
    document = site.ask(png(), wait=True, methods=None, at="component:1").json()
    assert document["state"] == "done"
    assert "rollout" not in document["methods"]
    assert len(document["maps"]) == len(document["methods"]) > 3
    assert any(note.startswith("Left out, because they cannot run for this place: raw_attention, rollout") for note in document["notes"])
    refused(site.ask(png(), wait=True, methods="rollout", at="component:1"), 422, "cannot-explain")
    patch = site.ask(png(), wait=True, methods=None).json()
    assert patch["place"]["patch"]
    assert "rollout" in patch["methods"]
