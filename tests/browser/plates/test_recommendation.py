"""Which plate comes first and why, what its map cannot say, and which two maps are most and least alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect
from scipy.stats import spearmanr

from tests.browser.conftest import Visit

METRIC = {"title": "Symmetric relevance gain", "unit": "share", "direction": "higher", "asks": "it changes the answer"}
STANDING = {"model": "photos-vit", "measured": "60 pictures of COCO", "metric": METRIC, "random": 0.03, "here": True, "value": 0.566}
ADVICE = "async (first) => (await script('plates/recommendation.js')).recommendation(first)"
LEADERS = "async (given) => (await script('core/registry.js')).leaders(given).map(({ spec }) => spec)"


def variant(rank: int | None, family: str = "gradients", **more: Any) -> dict[str, Any]:
    standing = None if rank is None else {**STANDING, "rank": rank, "tied": rank == 1, "ties": 1, **more.pop("standing", {})}
    spec = f"{family}{rank}"
    return {
        "spec": spec,
        "title": "A",
        "family": family,
        "class_specific": True,
        "signed": True,
        "adds_up_to": None,
        "standing": standing,
    } | more


def test_the_recommendation_says_on_what_by_how_much_and_what_the_map_cannot_say(scripts: Page) -> None:
    said = scripts.evaluate(ADVICE, [variant(1), variant(5)])
    assert said["title"] == "Begin with A."
    assert said["says"] == (
        "It was measured best with this model, on 60 pictures of COCO: it changes the answer. “Symmetric relevance gain” is "
        "56.6\u2009%, and 3.00\u2009% for a random map. "
        "It cannot say how much of the answer each part makes up: trust the order, not the sizes."
    )
    blind = scripts.evaluate(ADVICE, [variant(1, class_specific=False, signed=False, adds_up_to="the logit")])["says"]
    assert blind.endswith("It cannot say why this answer and not another, nor what speaks against the answer.")
    second = {"second": {"title": "Segmentation AP", "unit": "share"}, "second_value": 0.418, "random_second": 0.227}
    tied = scripts.evaluate(ADVICE, [variant(1, standing={"ties": 5, **second})])["says"]
    assert tied.startswith("It is among 5 methods that cannot be told from the best with this model")
    assert "best by the next measure: “Segmentation AP” is 41.8\u2009%, and 22.7\u2009% for a random map." in tied
    assert "next measure" not in scripts.evaluate(ADVICE, [variant(1, standing=second)])["says"]  # told apart by the first


def test_a_model_that_was_not_measured_is_told_whose_order_it_has(scripts: Page) -> None:
    said = scripts.evaluate(ADVICE, [variant(1, standing={"here": False})])
    assert said["title"] == "Not measured with this model."
    assert said["says"].startswith("The order is that of photos-vit, on 60 pictures of COCO")
    assert scripts.evaluate(ADVICE, [variant(None)]) is None
    assert scripts.evaluate(ADVICE, [variant(7)]) is None  # others were measured to be better: it is not recommended


def test_the_first_four_are_one_a_family_the_best_of_all_in_front(scripts: Page) -> None:
    plates = [variant(3), variant(1), variant(9, "attention"), variant(2), variant(7, "relevance"), variant(None, "control")]
    plates = [each | {"place": place} for place, each in enumerate(plates)]
    assert scripts.evaluate(LEADERS, plates) == ["gradients1", "relevance7", "attention9", "gradients2"]


def test_most_and_least_alike_are_those_of_the_rank_correlations(scripts: Page) -> None:
    maps = {"a": [1, 2, 3, 4, 5], "b": [2, 1, 3, 4, 5], "c": [5, 4, 3, 2, 1], "flat": [1, 1, 1, 1, 1]}
    found = scripts.evaluate(
        "async (maps) => (await script('plates/mappairs.js')).extremePairs(Object.keys(maps), (name) => maps[name])", maps
    )
    assert found["most"]["pair"] == ["a", "b"]
    assert found["most"]["value"] == pytest.approx(spearmanr(maps["a"], maps["b"]).statistic)
    assert found["least"]["pair"] == ["a", "c"]
    assert found["least"]["value"] == pytest.approx(-1)
    assert scripts.evaluate("async () => (await script('plates/mappairs.js')).extremePairs(['x'], () => [1, 2])") is None


def test_under_the_first_plates_stand_the_pairs_of_the_page_and_a_press_lays_them_over_each_other(desk: Visit) -> None:
    page = desk.open("/image", folded=True)
    document = desk.document()
    alike = desk.get(f"/api/explanations/{document['id']}/agreement")
    titles = {attribution["method"]: attribution["title"] for attribution in document["maps"]}
    pairs = [
        (value, {titles[alike["methods"][row]], titles[alike["methods"][column]]}, {alike["methods"][row], alike["methods"][column]})
        for row, values in enumerate(alike["correlations"])
        for column, value in enumerate(values[:row])
        if value is not None and "random" not in (alike["methods"][row], alike["methods"][column])
    ]
    lines = page.locator(".map-similarity .pair")
    expect(lines).to_have_count(2)
    for line, best in ((lines.first, max), (lines.last, min)):
        end = best(value for value, _, _ in pairs)
        said = line.inner_text().replace("\n", " ")
        assert f"{end:.2f}".replace("-", "\u2212") in said
        assert any(all(title in said for title in names) for value, names, _ in pairs if np.isclose(value, end))
        expect(line.locator("canvas")).to_have_count(2)
        assert all(
            line.locator("canvas").evaluate_all(
                "(all) => all.map((one) => new Set(one.getContext('2d').getImageData(0, 0, 96, 96).data).size > 2)"
            )
        )
    expect(page.locator(".plate").first.locator(".standing .mark")).to_have_text("Recommended")
    expect(page.locator(".standing .mark")).to_have_count(1)
    lines.last.click()
    expect(page.locator("#drawer-swipe")).to_have_attribute("open", "")
    chosen = {page.locator(f"#swipe-{name}").input_value() for name in ("first", "second")}
    least = min(value for value, _, _ in pairs)
    assert chosen in [specs for value, _, specs in pairs if np.isclose(value, least)]
