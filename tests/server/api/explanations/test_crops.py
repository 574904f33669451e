"""A part of a picture shown to the model: the field ``crop``, sent and asked about again."""

from __future__ import annotations

import pytest

from tests.server.conftest import Check, Site, png

PICTURE = png(0, (60, 40))


def test_the_model_sees_the_part_and_the_document_says_which(site: Site) -> None:
    whole = site.ask(PICTURE, wait=True).json()
    part = site.ask(PICTURE, crop="10,5,40,35", wait=True).json()
    assert part["id"] != whole["id"]
    assert "frame" not in whole["input"]
    assert (part["input"]["width"], part["input"]["height"]) == (60, 40)
    assert part["input"]["crop"] == part["input"]["frame"] == [10, 5, 40, 35]
    assert [one["scores"] for one in part["maps"]] != [one["scores"] for one in whole["maps"]]
    assert site.ask(PICTURE, crop="10,5,40,35", wait=True).json()["id"] == part["id"]  # the same question


def test_who_asks_again_by_reference_keeps_the_part_changes_it_or_lets_go_of_it(site: Site) -> None:
    part = site.ask(PICTURE, crop="10,5,40,35", wait=True).json()
    again = site.ask(source=part["id"], target="dog", wait=True).json()
    assert again["input"]["frame"] == [10, 5, 40, 35]
    assert again["maps"][0]["scores"] == part["maps"][0]["scores"]  # rollout is the same for every class
    assert again["maps"][1]["scores"] != part["maps"][1]["scores"]
    assert site.ask(source=part["id"], crop="0,0,20,20", wait=True).json()["input"]["crop"] == [0, 0, 20, 20]
    assert "frame" not in site.ask(source=part["id"], crop="", wait=True).json()["input"]
    assert "crop=10,5,40,35" in site.get(f"/api/explanations/{part['id']}/code")["curl"]


@pytest.mark.parametrize("crop", ["1,2,3", "a,b,c,d", "-1,0,20,20", "0,0,61,20", "20,0,20,30", "0,30,20,10", "0.5,0,20,20"])
def test_what_is_no_part_of_the_picture_is_refused(site: Site, refused: Check, crop: str) -> None:
    refused(site.ask(PICTURE, crop=crop), 422, "wrong-crop")


def test_texts_have_no_parts(site: Site, refused: Check) -> None:
    refused(site.ask(model="reviews-bert", text="a film", crop="0,0,5,5"), 422, "wrong-crop")
