"""Two inputs over HTTP: what the engine computes of what was stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import explainers
from tests.server.conftest import Check, Site, picture, png
from tests.server.support.tiny_models import tiny, tiny_site

PROMPTS = ["a good film", "the bad movie"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tiny_site(tmp_path_factory.mktemp("home")) as one:
        yield one


def ask(site: Site, path: str, **body: Any) -> Any:
    answer = site.client.post(f"/api/explanations/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def same(found: Any, result: explainers.Interaction | explainers.FaithfulInteraction) -> None:
    assert found["cosine"] == pytest.approx(result.cosine, rel=1e-5)
    np.testing.assert_allclose(found["pairs"], result.pairs.numpy(), rtol=1e-4, atol=1e-6 * float(result.pairs.abs().max()))
    for name, own in zip(("first", "second"), result.maps, strict=True):
        np.testing.assert_allclose(found[name]["scores"], own.numpy(), rtol=1e-4, atol=1e-6 * float(own.abs().max()))


@pytest.mark.parametrize("side", ["image", "text"])
def test_words_and_patches(site: Site, side: str) -> None:
    document = site.ask(png(), model="clip", prompt=PROMPTS, side=side, methods=["random"], wait=True).json()
    found = ask(site, f"{document['id']}/interactions", prompt=PROMPTS[1])
    same(found, explainers.interaction(tiny("clip"), picture(), PROMPTS[1]))
    assert [word["text"] for word in found["first"]["input"]["words"]] == PROMPTS[1].split()
    assert len(found["pairs"][0]) == found["second"]["grid"][0] * found["second"]["grid"][1]
    assert ask(site, f"{document['id']}/interactions")["pairs"] != found["pairs"]  # of the first prompt
    published: Any = {"rule": "gradient", "steps": 3, "baseline": "empty", "block": "last", "quadrature": "riemann"}
    theirs, ours = (
        ask(site, f"{document['id']}/interactions", prompt=PROMPTS[1], **published),
        explainers.interaction(tiny("clip"), picture(), PROMPTS[1], **published),
    )
    same(theirs, ours)
    assert {name: theirs[name] for name in published} == published
    assert theirs["total"] + theirs["other_tokens"] + theirs["baseline_terms"] == pytest.approx(theirs["cosine"])
    assert list(ours.notes) == theirs["notes"]
    stepped = ask(site, f"{document['id']}/interactions", prompt=PROMPTS[1], rule="gradient", steps=2)
    same(stepped, explainers.interaction(tiny("clip"), picture(), PROMPTS[1], rule="gradient", steps=2))


def test_words_and_patches_fitted_to_what_is_left_out(site: Site) -> None:
    document = site.ask(png(), model="clip", prompt=PROMPTS, methods=["random"], wait=True).json()
    options: Any = {"budget": 64, "parts": 4, "p": 0.4, "seed": 3}
    found = ask(site, f"{document['id']}/faithful-interactions", prompt=PROMPTS[1], **options)
    expected = explainers.faithful_interaction(tiny("clip"), picture(), PROMPTS[1], **options)
    same(found, expected)
    assert found["coalitions"] == list(expected.coalitions)
    assert found["faithfulness"] == pytest.approx(expected.faithfulness, rel=1e-4)
    assert (found["variant"], found["p"], found["budget"]) == ("banzhaf", 0.4, 64)
    of_picture = site.ask(png(), methods=["random"], wait=True).json()["id"]
    answer = site.client.post(f"/api/explanations/{of_picture}/faithful-interactions", json={})
    assert answer.status_code == 422
    assert answer.json()["type"].endswith("wrong-model")


def test_two_pictures(site: Site) -> None:
    one, other = (site.ask(png(i), methods=["random"], wait=True).json() for i in (0, 1))
    found = ask(site, f"{one['id']}/alike", other=other["id"])
    same(found, explainers.input_interaction(tiny("scenes-vit"), picture(0), picture(1)))
    assert found["other"] == other["id"]


def test_two_texts(site: Site) -> None:
    texts = ["a good film", "not a bad movie"]
    one, other = (site.ask(model="reviews-bert", text=text, methods=["random"], wait=True).json() for text in texts)
    same(ask(site, f"{one['id']}/alike", other=other["id"]), explainers.input_interaction(tiny("reviews-bert"), *texts))


def test_what_cannot_be_compared(site: Site, refused: Check) -> None:
    image = site.ask(png(), methods=["random"], wait=True).json()["id"]
    text = site.ask(model="reviews-bert", text="a good film", methods=["random"], wait=True).json()["id"]
    refused(site.client.post(f"/api/explanations/{image}/interactions", json={}), 422, "wrong-model")
    refused(site.client.post(f"/api/explanations/{image}/alike", json={"other": text}), 422, "other-model")
    refused(site.client.post(f"/api/explanations/{image}/alike", json={"other": "nothing"}), 404, "no-such-explanation")
    refused(site.client.post(f"/api/explanations/{image}/alike", json={"other": image, "rule": "deep_taylor"}), 422, "cannot-answer")
    refused(site.client.post(f"/api/explanations/{image}/alike", json={"other": image, "baseline": "grey"}), 422, "invalid-request")
