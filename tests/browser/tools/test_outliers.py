"""Outlier tokens: marked on every map, moved on request, and said where there is nothing to move."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.support.questions import explained
from tests.browser.support.serving import FOR_PHOTOS, HTTP
from tests.browser.support.visit import Visit


def test_they_are_marked_on_every_map_and_moved(desk: Visit) -> None:
    desk.open(f"/image?id={explained(desk, 'image', model=FOR_PHOTOS, methods=['random', 'rollout'])}")
    patches = desk.document()["outliers"]["patches"]
    assert 0 < len(patches) < 12
    expect(desk.page.locator(".map-canvas[data-drawn=true]")).to_have_count(2)
    expect(desk.plate("rollout").locator(".outlier")).to_have_count(len(patches))
    expect(desk.plate("random").locator(".outlier")).to_have_count(len(patches))
    tool = desk.page.locator("#drawer-outliers")
    tool.locator("summary").click()
    expect(tool.locator(".says")).to_contain_text(f"{len(patches)} of this picture's 12 patches are outliers")
    before = desk.id
    tool.get_by_role("button", name="Explain without outlier tokens").click()
    desk.page.wait_for_url(re.compile(rf"id=(?!{before})"))
    expect(tool.locator(".says")).to_contain_text("These maps are of the model without outlier tokens, as the paper says.")
    moved = HTTP.get(f"{desk.address}/api/explanations/{desk.id}").json()
    assert moved["outlier_tokens"] == "move"
    assert [map_["method"] for map_ in moved["maps"]] == ["random", "rollout"]
    assert "was added for outliers holds" in moved["maps"][1]["notes"][0]
    heads, heads_before = (
        HTTP.post(f"{desk.address}/api/explanations/{id_}/layers", json={}).json()["blocks"] for id_ in (desk.id, before)
    )
    assert len(heads[0]["heads"][0]["scores"]) == 12
    assert heads != heads_before  # tools ask the model without outlier tokens too
    expect(tool.get_by_role("button", name="Explain with outlier tokens")).to_be_visible()


def test_nothing_to_move_is_said(desk: Visit) -> None:
    desk.open(f"/prompt?id={explained(desk, 'prompt')}")
    tool = desk.page.locator("#drawer-outliers")
    tool.locator("summary").click()
    expect(tool.locator(".says")).to_contain_text("there is nothing to move", timeout=60_000)
    expect(tool.get_by_role("button")).to_have_count(0)
    expect(desk.page.locator(".outlier")).to_have_count(0)
