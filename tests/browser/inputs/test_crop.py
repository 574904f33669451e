"""The part of a picture that the model shall see: framed with the pointer and by keyboard, and asked about."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.support.visit import Visit

FEW = "methods=random"


def dialog(visit: Visit) -> Any:
    visit.page.get_by_role("button", name="Crop").click()
    opened = visit.page.get_by_role("dialog", name="What shall the model see?")
    expect(opened).to_be_visible()
    return opened


def framed(shown: Any) -> list[int]:
    """The frame that the dialog tells: (x0, y0, x1, y1)."""
    left, right, _, top, bottom, _ = (int(part) for part in shown.inner_text().replace(",", "").split() if part.isdigit())
    return [left, top, right, bottom]


def said(box: list[int], input_json: dict[str, Any]) -> str:
    return f"columns {box[0]} to {box[2]} of {input_json['width']}, rows {box[1]} to {box[3]} of {input_json['height']}"


@pytest.mark.trained
def test_a_frame_is_moved_by_keyboard_and_what_is_in_it_is_explained(desk: Visit) -> None:
    page = desk.open(f"/image?{FEW}")
    before = desk.document()
    frame = dialog(desk)
    shown = frame.get_by_role("status")
    np.testing.assert_allclose(framed(shown), before["input"]["crop"], atol=1)  # the proportions of the input, to the pixel
    for _ in range(6):
        page.keyboard.press("-")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowUp")
    box = framed(shown)
    assert box[2] - box[0] == box[3] - box[1] < before["input"]["height"]  # the proportions of the model's input
    frame.get_by_role("button", name="Explain this part").click()
    desk.next_maps(before["id"])
    after = desk.document()
    assert after["input"]["crop"] == after["input"]["frame"] == box
    assert (after["input"]["width"], after["input"]["height"]) == (before["input"]["width"], before["input"]["height"])

    page.reload()
    desk.maps()
    page.locator(".classes button[aria-pressed=false]").first.click()  # asked again, of the same part
    desk.next_maps(after["id"])
    third = desk.document()
    assert third["input"]["frame"] == box
    frame = dialog(desk)
    expect(frame.get_by_role("status")).to_have_text(said(box, after["input"]))
    frame.get_by_role("button", name="The picture as usual").click()
    desk.next_maps(third["id"])
    assert "frame" not in desk.document()["input"]
    assert desk.document()["input"]["crop"] == before["input"]["crop"]


def test_a_corner_is_dragged_and_the_opposite_one_stays(desk: Visit) -> None:
    page = desk.open(f"/image?{FEW}")
    input_json = desk.document()["input"]
    frame = dialog(desk)
    stage = frame.locator(".stage").bounding_box()
    corner = frame.locator(".se").bounding_box()
    page.mouse.move(corner["x"] + corner["width"] / 2, corner["y"] + corner["height"] / 2)
    page.mouse.down()
    page.mouse.move(stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2, steps=4)
    page.mouse.up()
    left, top, right, _ = framed(frame.get_by_role("status"))
    assert [left, top] == input_json["crop"][:2]
    assert right == pytest.approx(input_json["width"] / 2, abs=0.06 * input_json["width"])
    frame.get_by_role("button", name="Cancel").click()
    expect(frame).to_have_count(0)
    assert desk.document()["input"] == input_json


def test_the_dialog_fits_a_phone(phone: Visit) -> None:
    phone.open(f"/image?{FEW}")
    frame = dialog(phone)
    assert frame.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    box = frame.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
