"""A grey picture of 12 bits: its window stands under it and is moved."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image
from playwright.sync_api import expect

from tests.browser.support.visit import Visit


def scan() -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.linspace(0, 4095, 64 * 64).reshape(64, 64).astype(np.uint16)).save(buffer, "PNG")
    return buffer.getvalue()


def test_the_window_of_a_scan_is_said_and_moved(desk: Visit) -> None:
    page = desk.open("/image?methods=random")
    fields = page.get_by_role("form", name="Grey window")
    expect(fields).to_be_hidden()  # a photo has none
    page.get_by_label("Picture file").set_input_files({"name": "scan.png", "mimeType": "image/png", "buffer": scan()})
    expect(page.get_by_text("level 2047.5, width 4095 (from smallest to largest)")).to_be_visible()
    fields.get_by_label("Level").fill("1000")
    fields.get_by_label("Width").fill("200")
    fields.get_by_role("button", name="Window").click()
    expect(page.get_by_text("level 1000, width 200 (as chosen)")).to_be_visible()
    assert desk.document()["input"]["window"] == {"level": 1000, "width": 200, "source": "set"}
