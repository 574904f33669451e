"""Pictures that are given to the Image page: uploaded, dropped, broken, and by which model they are answered."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.support.image_plates import check_plates, colours
from tests.browser.support.scenes import scene
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import FEW, Visit


def test_a_picture_is_uploaded_and_its_crop_is_marked(desk: Visit) -> None:
    desk.open(f"/image?{FEW}")
    data, _ = scene(3, 400, 260)
    before = desk.id
    desk.page.get_by_label("Picture file").set_input_files({"name": "scene.png", "mimeType": "image/png", "buffer": data})
    desk.next_maps(before)
    document = desk.document()
    assert [document["input"]["width"], document["input"]["height"]] == [400, 260]
    check_plates(desk, document)
    expect(desk.page.locator("#samples [aria-pressed=true]")).to_have_count(0)
    seen = document["input"]["seen"]
    expect(desk.page.locator("#picture .caption")).to_contain_text(f"{seen[0]}×{seen[1]}")

    desk.page.get_by_role("radio", name="original").check()
    expect(desk.page.locator("#picture .caption")).to_contain_text("400×260")
    sheet, region = (desk.page.locator(f"#picture .{name}").bounding_box() for name in ("sheet", "region"))
    assert sheet is not None
    assert region is not None
    x0, y0, x1, _ = document["input"]["crop"]
    got = [(region["x"] - sheet["x"]) / sheet["width"], (region["y"] - sheet["y"]) / sheet["height"], region["width"] / sheet["width"]]
    np.testing.assert_allclose(got, [x0 / 400, y0 / 260, (x1 - x0) / 400], atol=0.01)
    assert sheet["width"] / sheet["height"] == pytest.approx(400 / 260, rel=0.02)


@pytest.mark.trained
def test_each_picture_gets_the_model_that_fits_until_another_is_chosen(desk: Visit) -> None:
    desk.open("/image?methods=rollout")
    brought = {"name": "s.png", "mimeType": "image/png", "buffer": scene(3, 90, 90)[0]}
    photo, other, drawn = (desk.page.locator(f'#samples [data-id="{name}"]') for name in ("photo-dogs", "photo-cat", "zebra-elephant"))
    for give, model in (
        (drawn.click, "scenes-vit"),
        (lambda: desk.page.get_by_label("Picture file").set_input_files(brought), "photos-vit"),
        (drawn.click, "scenes-vit"),
        (photo.click, "photos-vit"),
        (lambda: desk.page.get_by_label("Answered by").select_option("scenes-vit"), "scenes-vit"),
        (other.click, "scenes-vit"),  # chosen by the person: no picture changes it
    ):
        before = desk.id
        give()
        desk.next_maps(before)
        assert desk.document()["model"] == model
        expect(desk.page.locator("#model-choice")).to_have_value(model)


def test_a_picture_is_dropped_on_the_page(desk: Visit) -> None:
    desk.open("/image?methods=random")
    before = desk.id
    data, _ = scene(5, 224, 224)
    carried = desk.page.evaluate_handle(
        """(bytes) => {
          const carried = new DataTransfer();
          carried.items.add(new File([new Uint8Array(bytes)], "scene.png", { type: "image/png" }));
          return carried;
        }""",
        list(data),
    )
    desk.page.dispatch_event("#plates", "dragenter", {"dataTransfer": carried})
    expect(desk.page.locator("body.dropping")).to_have_count(1)
    desk.page.dispatch_event("#plates", "drop", {"dataTransfer": carried})
    desk.next_maps(before)
    expect(desk.page.locator("body.dropping")).to_have_count(0)
    assert desk.document()["input"]["width"] == 224


@pytest.mark.parametrize("broken", ["text", "cut"])
def test_a_broken_file_says_what_to_send_and_changes_nothing(desk: Visit, broken: str) -> None:
    desk.open("/image?methods=random")
    data = scene(3, 224, 224)[0]
    data = b"this is no picture" if broken == "text" else data[: len(data) // 2]
    refusal = HTTP.post(f"{desk.address}/api/explanations", data={"model": "scenes-vit"}, files={"image": ("p.png", data)}).json()
    before = desk.page.url, colours(desk, desk.document()["maps"][0]).tolist()
    desk.page.get_by_label("Picture file").set_input_files({"name": "p.png", "mimeType": "image/png", "buffer": data})
    alert = desk.page.locator("#input-problem [role=alert]")
    expect(alert).to_contain_text(refusal["detail"])
    expect(alert).to_contain_text(refusal["send"].rstrip("."))
    assert (desk.page.url, colours(desk, desk.document()["maps"][0]).tolist()) == before
    expect(desk.page.locator('.plate:not([data-state="done"])')).to_have_count(0)
    alert.get_by_role("button", name="Dismiss").click()
    expect(alert).to_have_count(0)
    desk.refused(refusal["status"])
