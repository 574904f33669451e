"""What follows from the maps of a stored explanation: ``GET /api/explanations/{id}/agreement`` and ``/regions``."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from scipy.stats import spearmanr

from tests.server.conftest import Check, Site, png
from tests.server.support.gated_models import STEPS

METHODS = ["rollout", "random", "fullgrad_plus:libra"]


def test_the_correlations_of_a_picture(site: Site) -> None:
    document = site.ask(png(), target=["zebra", "dog"], methods=METHODS, wait=True).json()
    for label in ("zebra", "dog"):
        found = site.client.get(f"/api/explanations/{document['id']}/agreement", params={"target": label}).json()
        assert (found["id"], found["target"], found["measure"]) == (document["id"], label, "spearman")
        assert sorted(found["methods"]) == sorted(METHODS)
        scores = {one["method"]: one["scores"] for one in document["maps"] if one["target"] == label}
        rows = np.array(found["correlations"], float)
        for i, one in enumerate(found["methods"]):
            for k, other in enumerate(found["methods"]):
                assert rows[i, k] == pytest.approx(spearmanr(scores[one], scores[other]).statistic, abs=1e-9)
    found = site.get(f"/api/explanations/{document['id']}/agreement")
    assert found["target"] == "zebra"
    first, second = (next(one for one in document["maps"] if one["method"] == spec) for spec in (METHODS[0], METHODS[2]))
    alike = spearmanr(first["scores"], second["scores"]).statistic
    if len(first["scores"]) >= 10:  # ranks of fewer say little
        assert f"(rank correlation {alike:.2f})".replace("-", "\N{MINUS SIGN}") in found["sentence"]
    else:
        assert "rank correlation" not in found["sentence"]


def test_special_tokens_of_a_text_are_left_out(site: Site) -> None:
    document = site.ask(model="reviews-bert", text="a fine and rather long film", methods=METHODS[:2], wait=True).json()
    found = site.get(f"/api/explanations/{document['id']}/agreement")
    special = [token["special"] for token in document["input"]["tokens"]]
    assert any(special)
    assert found["tokens"] == special.count(False)


def test_what_is_not_there_is_said(site: Site, refused: Check) -> None:
    refused(site.client.get("/api/explanations/nothing/agreement"), 404, "no-such-explanation")
    gate = site.models.gate(STEPS[0])
    one = site.ask(png(), methods=STEPS[:2]).json()["id"]
    gate.wait()
    refused(site.client.get(f"/api/explanations/{one}/agreement"), 409, "no-map")
    gate.open()
    site.finish(one)
    refused(site.client.get(f"/api/explanations/{one}/agreement", params={"target": "nobody"}), 404, "no-such-target")


def test_regions_and_their_mask(site: Site) -> None:
    document = site.ask(
        png(), model="clip", prompt=["a zebra", "a big dog"], methods=[*METHODS, "transformer_attribution"], wait=True
    ).json()
    root = f"/api/explanations/{document['id']}"
    for method, threshold in ((None, 0.05), ("fullgrad_plus:libra", 0.3), ("transformer_attribution", 0.0)):
        query = {"threshold": threshold, **({"method": method} if method else {})}
        found = site.client.get(f"{root}/regions", params=query).json()
        spec = method or next(one["method"] for one in document["maps"] if one["class_specific"])
        maps = [one for one in document["maps"] if one["method"] == spec]
        scores = np.array([one["scores"] for one in maps])
        if not maps[0]["signed"]:
            scores = scores / np.abs(scores).sum(1, keepdims=True)
        winners = np.where(scores.max(0) > max(0, threshold * scores.max()), scores.argmax(0), -1).reshape(found["grid"])
        assert (found["method"], found["threshold"], found["crop"]) == (spec, threshold, document["input"]["crop"])
        for i, one in enumerate(found["labels"]):
            assert one["label"] == document["targets"][i]["label"]
            assert one["patches"] == int((winners == i).sum()) == sum(region["patches"] for region in one["regions"])
            assert one["share"] == pytest.approx(float((winners == i).mean()))
        answer = site.client.get(f"{root}/regions.png", params=query)
        assert answer.headers["content-type"] == "image/png"
        mask = Image.open(io.BytesIO(answer.content))
        x0, y0, x1, y1 = document["input"]["crop"]
        assert (mask.mode, mask.size) == ("P", (x1 - x0, y1 - y0))
        centres = np.asarray(mask)[
            np.ix_(*(((np.arange(n) + 0.5) * side / n).astype(int) for n, side in zip(found["grid"], mask.size[::-1], strict=True)))
        ]
        np.testing.assert_array_equal(centres, winners + 1)


def test_regions_that_cannot_be_are_refused(site: Site, refused: Check) -> None:
    image = site.ask(png(), methods=METHODS, wait=True).json()["id"]
    refused(site.client.get(f"/api/explanations/{image}/regions", params={"method": "no"}), 404, "no-such-map")
    prompts = site.ask(png(), model="clip", prompt=["a zebra", "a big dog"], methods=METHODS, wait=True).json()["id"]
    for path in ("regions", "regions.png"):
        answer = site.client.get(f"/api/explanations/{prompts}/{path}", params={"method": "rollout"})
        refused(answer, 422, "no-winner")
        assert "fullgrad_plus:libra" in answer.json()["send"]
    assert site.client.get(f"/api/explanations/{image}/regions", params={"threshold": 2}).status_code == 422
    text = site.ask(model="reviews-bert", text="a film", wait=True).json()["id"]
    refused(site.client.get(f"/api/explanations/{text}/regions.png"), 422, "not-a-picture")
