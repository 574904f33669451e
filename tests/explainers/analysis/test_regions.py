"""Who wins which patch: by hand, and of an explanation of an embedded model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import explainers
from explainers.analysis.regions import NOBODY, regions_of
from explainers.errors import ExplainerError
from tests.explainers.support.explained import image_model, picture

LABELS = ["a cat", "a dog"]
CAT = [[9.0, 0.0, 0.0, 5.0], [8.0, 0.0, 0.2, 0.0], [-3.0, -1.0, 0.0, 4.0]]
DOG = [[1.0, 0.0, 7.0, 2.0], [9.0, 0.4, 6.0, 0.0], [-1.0, -2.0, 0.0, 4.0]]
SCORES = np.array([CAT, DOG])
CROP = (10, 20, 50, 80)  # 40 x 60 pixels: a patch is 10 wide and 20 high


def test_by_hand() -> None:
    found = regions_of(SCORES, LABELS, "m", (100, 100), CROP, signed=True)
    # 0.4 is below 5 % of 9; scores below 0 speak for nobody; of equal ones the first label wins
    assert found.winners.tolist() == [[0, NOBODY, 1, 0], [1, NOBODY, 1, NOBODY], [NOBODY, NOBODY, NOBODY, 0]]
    assert [(one.label, one.box, one.patches, one.peak) for one in found.regions] == [
        ("a cat", (10, 20, 20, 40), 1, 9.0),
        ("a cat", (40, 20, 50, 40), 1, 5.0),
        ("a cat", (40, 60, 50, 80), 1, 4.0),
        ("a dog", (30, 20, 40, 60), 2, 7.0),
        ("a dog", (10, 40, 20, 60), 1, 9.0),
    ]
    told = found.to_json()
    assert [(one["label"], one["index"], one["patches"]) for one in told["labels"]] == [("a cat", 1, 3), ("a dog", 2, 3)]
    assert told["none"] == {"index": 0, "patches": 6, "share": 0.5}


def test_a_label_that_was_not_found_wins_nothing() -> None:
    before = SCORES.copy()
    found = regions_of(SCORES, LABELS, "m", (100, 100), CROP, signed=True, unfound={"a dog"})
    assert found.winners.tolist() == [[0, NOBODY, NOBODY, 0], [0, NOBODY, NOBODY, NOBODY], [NOBODY, NOBODY, NOBODY, 0]]
    assert {one.label for one in found.regions} == {"a cat"}
    neither = regions_of(SCORES, LABELS, "m", (100, 100), CROP, signed=False, unfound=set(LABELS))
    assert (neither.winners == NOBODY).all()
    np.testing.assert_array_equal(SCORES, before)  # what was given is not changed


def test_the_mask_has_the_pixels_of_the_crop() -> None:
    mask = regions_of(SCORES, LABELS, "m", (100, 100), CROP, signed=True).mask()
    assert (mask.mode, mask.size) == ("P", (40, 60))
    values = np.asarray(mask)
    for row in range(60):
        for column in range(40):
            assert values[row, column] == found_at(row // 20, column // 10)
    assert mask.getpalette()[:9] == [0, 0, 0, 230, 159, 0, 86, 180, 233]


def found_at(row: int, column: int) -> int:
    best = max(CAT[row][column], DOG[row][column])
    return 0 if best <= 0.45 else 1 if CAT[row][column] >= DOG[row][column] else 2


def test_unsigned_maps_are_compared_as_shares_of_each_map() -> None:
    scores = np.array([[[100.0, 300.0]], [[0.9, 0.1]]])
    assert regions_of(scores, LABELS, "m", (20, 10), (0, 0, 20, 10), signed=False).winners.tolist() == [[1, 0]]
    assert regions_of(scores, LABELS, "m", (20, 10), (0, 0, 20, 10), signed=True).winners.tolist() == [[0, 0]]
    assert regions_of(0 * scores, LABELS, "m", (20, 10), (0, 0, 20, 10), signed=False).winners.tolist() == [[NOBODY, NOBODY]]


def test_the_threshold() -> None:
    for threshold, left in ((0.0, 7), (0.05, 6), (0.5, 5), (1.0, 0)):
        found = regions_of(SCORES, LABELS, "m", (100, 100), CROP, signed=True, threshold=threshold)
        assert int((found.winners != NOBODY).sum()) == left
    with pytest.raises(ExplainerError, match=r"the threshold is 1\.5"):
        regions_of(SCORES, LABELS, "m", (100, 100), CROP, signed=True, threshold=1.5)


def test_boxes_end_at_the_edge_of_the_picture() -> None:
    found = regions_of(np.ones((1, 1, 4)), ["all"], "m", (20, 10), (-10, -5, 30, 15), signed=True)
    assert [one.box for one in found.regions] == [(0, 0, 20, 10)]
    outside = regions_of(np.array([[[1.0, 0.0, 0.0, 0.0]]]), ["all"], "m", (20, 10), (-10, -5, 30, 15), signed=True)
    assert [one.box for one in outside.regions] == [None]  # in the padding


@pytest.mark.slow
def test_of_an_explanation(tmp_path: Path) -> None:
    model = explainers.load("scenes-vit")
    image = Image.fromarray(np.random.default_rng(1).integers(0, 255, (80, 120, 3), dtype=np.uint8))
    result = explainers.explain(model, image, ["zebra", "elephant"], ["fullgrad_plus:libra"])
    found = explainers.regions(result, "fullgrad_plus:libra", 0.2)
    maps = np.stack([one.scores[one.content].numpy().reshape(one.patches) for one in result.maps])
    expected = np.where(maps.max(0) > 0.2 * maps.max(), maps.argmax(0), NOBODY)
    np.testing.assert_array_equal(found.winners, expected)
    assert found.crop == result.input.crop
    for line, name, place in zip(str(found).splitlines()[2:], ["zebra", "elephant", "nobody"], [0, 1, NOBODY], strict=True):
        assert line.split()[:2] == [name, str((found.winners == place).sum())]
    found.save(tmp_path / "regions.json")
    assert json.loads((tmp_path / "regions.json").read_text("utf-8")) == found.to_json()
    found.save(tmp_path / "mask.png")
    with Image.open(tmp_path / "mask.png") as mask:
        np.testing.assert_array_equal(np.asarray(mask), np.asarray(found.mask()))
    with pytest.raises(ExplainerError, match="cannot be saved with this ending"):
        found.save(tmp_path / "mask.txt")
    with pytest.raises(ExplainerError, match="no map 'rollout' over patches"):
        explainers.regions(result, "rollout")
    text = explainers.explain(explainers.load("reviews-bert"), "a fine film", None, ["rollout"])
    with pytest.raises(ExplainerError, match="regions lie in a picture"):
        explainers.regions(text, "rollout")


def test_labels_that_cannot_win_are_refused() -> None:
    result = explainers.explain(image_model(), picture(), [0, 1], ["rollout", "fullgrad_plus:libra"])
    with pytest.raises(ExplainerError, match="the map of rollout is the same for every prompt or class"):
        explainers.regions(result, "rollout")
    result.maps += [replace(one, target="Zebra") for one in result.maps if one.target == "elephant"]
    with pytest.raises(ExplainerError, match="'Zebra' is there twice"):
        explainers.regions(result, "fullgrad_plus:libra")
    alone = explainers.explain(image_model(), picture(), 0, ["rollout"])
    assert explainers.regions(alone, "rollout").labels == ("Zebra",)  # nobody to win from
