"""Patches or pixels: the switch on a plate, what is then drawn, and what is said of a method that has no pixels."""

from __future__ import annotations

import io
from urllib.parse import quote

import numpy as np
from playwright.sync_api import expect

from tests.browser.support.number_format import colour_ends, end_texts, shown
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit

FINE, COARSE = "input_x_gradient?at=pixels", "fullgrad_plus:libra"
PAGE = f"/image?opacity=100&methods={quote(FINE)}&methods={COARSE}"
# Red minus blue of every pixel of the map, read from the canvas at its centre.
HUES = """
(canvas, [rows, columns]) => {
  const context = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  return Array.from({ length: rows * columns }, (_, i) => {
    const y = Math.floor(((Math.floor(i / columns) + 0.5) / rows) * canvas.height);
    const x = Math.floor((((i % columns) + 0.5) / columns) * canvas.width);
    const at = 4 * (y * canvas.width + x);
    return data[at] - data[at + 2];
  });
}
"""


def test_the_switch_draws_the_pixels_as_they_are(desk: Visit) -> None:
    page = desk.open(PAGE)
    plate = desk.plate(FINE)
    attribution = next(attribution for attribution in desk.document()["maps"] if attribution["method"] == FINE)
    path = f"/api/explanations/{desk.id}/maps/{quote(FINE, safe='')}.npy"
    pixels = np.load(io.BytesIO(HTTP.get(desk.address + path, params={"at": "pixels"}).content))
    expect(desk.plate(COARSE).locator(".level")).to_be_hidden()
    switch = plate.get_by_role("group", name="resolution")
    expect(switch.get_by_role("button", name="patches")).to_have_attribute("aria-pressed", "true")
    assert plate.locator(".ends").inner_text().split()[-1] == shown(colour_ends(attribution["scores"], True)[1], 2)

    switch.get_by_role("button", name="pixels").click()
    assert desk.query["level"] == ["pixels"]
    end = colour_ends(pixels, True)[1]
    expect(plate.locator(".ends span").last).to_have_text(end_texts(pixels, True)[1])
    hues = np.array(plate.locator("canvas").first.evaluate(HUES, attribution["pixels"])).reshape(pixels.shape)
    strong = np.abs(pixels) > 0.3 * end
    assert strong.sum() > 50
    assert (np.sign(hues)[strong] == np.sign(pixels)[strong]).all()

    page.reload()
    desk.maps()
    expect(plate.locator(".ends span").last).to_have_text(end_texts(pixels, True)[1])
    plate.get_by_role("button", name="patches").click()
    expect(plate.locator(".ends span").last).to_have_text(end_texts(attribution["scores"], True)[1])
    assert "level" not in desk.query


def test_at_full_size_it_is_said_where_there_are_none(desk: Visit) -> None:
    page = desk.open(PAGE)
    large = page.locator("dialog.zoom")
    desk.plate(COARSE).locator(".map-canvas").focus()
    page.keyboard.press("Enter")
    expect(large).to_contain_text("This method gives one score for each patch, so there is no map of pixels.")
    page.keyboard.press("Escape")
    expect(large).to_have_count(0)  # it gives the focus back before it is gone
    desk.plate(FINE).locator(".map-canvas").focus()
    page.keyboard.press("Enter")
    before = large.locator(".ends span").last.inner_text()
    large.get_by_role("button", name="pixels", exact=True).click()
    expect(large.locator(".ends span").last).not_to_have_text(before)
    expect(desk.plate(FINE).locator(".ends span").last).to_have_text(large.locator(".ends span").last.inner_text())
