"""Tools beside what they change, begun with what is worth seeing; what is only rounding is no change; and heads that look alike."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.support.serving import HTTP

SEEN = """(nodes) => nodes.map((node) => {
  const box = node.getBoundingClientRect();
  return Math.max(0, Math.min(innerHeight, box.bottom) - Math.max(0, box.top)) / box.height;
})"""
HEADS = "async ([maps, isAttention]) => (await script('maps/headsimilarity.js')).whyHeadsAreSimilar(maps, isAttention)"
CHANGED = "async ([was, now]) => (await script('core/dom.js')).changed(was, now)"


@pytest.mark.parametrize("size", [(1440, 900), (1000, 800), (390, 844)])
def test_both_maps_of_the_mixer_stay_in_sight_while_a_switch_is_turned(desk: Visit, size: tuple[int, int]) -> None:
    desk.page.set_viewport_size({"width": size[0], "height": size[1]})
    page = desk.open("/image?methods=random&open=mixer")
    tool = page.locator("#drawer-mixer")
    expect(tool.locator(".plate[data-state=done]")).to_have_count(2)
    for number in (0, -1):  # the first switch and the last one
        row = tool.locator(".operator").nth(number)
        row.evaluate("(node) => node.scrollIntoView({ block: 'center' })")
        (switch,) = row.evaluate_all(SEEN)
        assert switch > 0.9
        assert all(share > 0.9 for share in tool.locator(".pair .map-canvas").evaluate_all(SEEN))
    overlap = tool.locator(".pair").bounding_box(), row.bounding_box()
    assert overlap[0] is not None
    assert overlap[1] is not None
    assert (
        overlap[0]["x"] + overlap[0]["width"] <= overlap[1]["x"] + 1
        or overlap[0]["x"] >= overlap[1]["x"] + overlap[1]["width"]
        or (overlap[0]["y"] + overlap[0]["height"] <= overlap[1]["y"] + 1)
    )


def test_two_maps_at_the_same_place_begin_with_the_two_that_are_least_alike(desk: Visit) -> None:
    methods = ["random", "rollout", "fullgrad_plus:libra", "input_x_gradient", "generic_attention"]
    page = desk.open(f"/image?{'&'.join(f'methods={spec}' for spec in methods)}&open=swipe")
    expect(page.locator("#drawer-swipe [data-drawn=true]")).to_be_visible()
    alike = desk.get(f"/api/explanations/{desk.id}/agreement")
    pairs = [
        (value, {alike["methods"][row], alike["methods"][column]})
        for row, values in enumerate(alike["correlations"])
        for column, value in enumerate(values[:row])
        if value is not None
    ]
    least = min((value, sorted(pair)) for value, pair in pairs if "random" not in pair)
    assert sorted(page.locator(f"#swipe-{name}").input_value() for name in ("first", "second")) == least[1]


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ({"probability": 0.7}, {"probability": 0.7 - 6.9e-8}, "0 points"),
        ({"probability": 0.7}, {"probability": 0.7012}, "+0.12 points"),
        ({"probability": 0.7}, {"probability": 0.2}, "\u221250 points"),
        ({"logit": 12.0}, {"logit": 12.00001}, "0"),
        ({"logit": 12.0}, {"logit": 10.5}, "\u22121.50"),
    ],
)
def test_what_is_only_rounding_is_no_change(scripts: Page, was: dict[str, float], now: dict[str, float], says: str) -> None:
    assert scripts.evaluate(CHANGED, [was, now]) == says


@pytest.mark.parametrize(
    ("maps", "is_attention", "says"),
    [
        ([[0.25, 0.25, 0.26, 0.24], [0.25, 0.24, 0.26, 0.25]], True, "looks nearly evenly at everything"),
        ([[0.9, 0.05, 0.03, 0.02], [0.8, 0.1, 0.06, 0.04]], True, "look at the same places (any two correlate by 1.00 or more)"),
        ([[0.9, 0.05, 0.03, 0.02], [0.02, 0.03, 0.05, 0.9]], True, ""),
        ([[0, 0, 0, 0], [0, 0, 0, 0]], False, "nothing that they do at this token reaches the answer"),
        ([[1, 1, 1.1, 0.9]], True, ""),  # one head is alike to nothing
    ],
)
def test_heads_that_look_alike_are_explained(scripts: Page, maps: Any, is_attention: bool, says: str) -> None:
    said = scripts.evaluate(HEADS, [maps, is_attention])
    assert says in said
    assert bool(said) == bool(says)


def test_the_layers_say_of_the_block_on_show_why_its_heads_are_alike(desk: Visit) -> None:
    page = desk.open("/image?methods=random&open=layers")
    tool = page.locator("#drawer-layers")
    expect(tool.locator(".large .plate")).to_be_visible()
    expect(tool.locator(".after")).to_be_hidden()  # the deletion test asks about the plates of the page alone
    label = desk.document()["targets"][0]["label"]
    asked = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/layers", json={"quantity": "attention", "target": label})
    blocks = asked.json()["blocks"]
    maps = [head["scores"] for head in blocks[-1]["heads"]]
    expect(tool.locator(".similarity")).to_have_text(page.evaluate(HEADS, [maps, True]))
