"""Models of pictures with a task over HTTP: a part of the picture, a side of a box, an output by its name, and the unit of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.server.conftest import Check, Site, Sites, picture, png
from tests.server.support.gated_models import MAKES, GatedModels
from tests.support.task_models import detector, heads, points_detector, segmenter

MODELS = {"scenes-vit": segmenter, "timm/listed": detector, "timm/other": heads}


@pytest.fixture
def site(sites: Sites) -> Iterator[Site]:
    with sites(GatedModels(makes={**MAKES, **MODELS})) as one:
        yield one


@pytest.mark.parametrize(
    ("name", "at", "target", "output", "label"),
    [
        ("scenes-vit", "region:0,0,0.5,0.5", "dog", "softmax", "dog"),
        ("timm/listed", "box:3", "cat", "softmax", "cat"),
        ("timm/listed", "box:3/left", None, "regression", "left side, as a share of the width"),
        ("timm/other", "species", "fox", "softmax", "fox"),
        ("timm/other", "weight", None, "regression", "weight (kg)"),
    ],
)
def test_the_number_and_its_unit(site: Site, name: str, at: str, target: str | None, output: str, label: str) -> None:
    document = site.ask(png(), wait=True, model=name, methods=["fullgrad:libra"], at=at, target=target).json()
    assert (document["output"], document["at"], document["targets"][0]["label"]) == (output, at, label)
    model = MODELS[name]()
    prepared = model.prepare(picture())
    with torch.no_grad():
        own = model.at(at, prepared).forward(prepared.tensors)[0, document["targets"][0]["index"]]
    assert document["targets"][0]["logit"] == pytest.approx(float(own), abs=1e-4)
    assert document["maps"][0]["completeness_error"] < 1e-4
    test = site.client.post(f"/api/explanations/{document['id']}/deletion-test", json={"fractions": [0, 1]}).json()
    unit = "value" if output == "regression" else "probability"
    assert test["curves"][0][unit][0] == pytest.approx(document["targets"][0].get("probability", float(own)), abs=1e-4)


def test_a_place_that_is_none(site: Site, refused: Check) -> None:
    refused(site.ask(png(), wait=True, at="region:2,0,3,1", methods="random"), 422, "cannot-explain")


def test_a_detector_that_samples_points_is_asked_as_others_are(sites: Sites) -> None:
    """Its boxes come with the answer, a press on one asks for it, and what reads attention says why it does not run."""
    with sites(GatedModels(makes={**MAKES, "timm/listed": points_detector})) as site:
        document = site.ask(png(), wait=True, model="timm/listed", methods=["fullgrad:libra", "occlusion"], at="box:2").json()
        assert (document["output"], document["at"], len(document["places"])) == ("sigmoid", "box:2", 6)
        assert document["maps"][0]["completeness_error"] < 1e-4
        assert len(document["maps"][0]["scores"]) == 16
        reasons = {each["spec"]: each["reason"] for each in site.client.get("/api/methods?model=timm/listed").json()["variants"]}
        assert "deformable attention" in reasons["rollout"]
        assert reasons["d_rise"] is None
