"""Tools beside what they change, begun with what is worth seeing; and heads that look alike."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit
from tests.support.node import compute

SEEN = """(nodes) => nodes.map((node) => {
  const box = node.getBoundingClientRect();
  return Math.max(0, Math.min(innerHeight, box.bottom) - Math.max(0, box.top)) / box.height;
})"""
HEADS = "async ([maps, isAttention]) => (await script('maps/headsimilarity.js')).whyHeadsAreSimilar(maps, isAttention)"


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


def test_the_layers_say_of_the_block_on_show_why_its_heads_are_alike(desk: Visit) -> None:
    page = desk.open("/image?methods=random&open=layers")
    tool = page.locator("#drawer-layers")
    expect(tool.locator(".large .plate")).to_be_visible()
    expect(tool.locator(".after")).to_be_hidden()  # the deletion test asks about the plates of the page alone
    label = desk.document()["targets"][0]["label"]
    asked = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/layers", json={"quantity": "attention", "target": label})
    blocks = asked.json()["blocks"]
    maps = [head["scores"] for head in blocks[-1]["heads"]]
    expect(tool.locator(".similarity")).to_have_text(compute(HEADS, [maps, True]))
