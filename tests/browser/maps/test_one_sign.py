"""Maps whose scores all lie far on one side of zero: drawn as strength, in the page, in its figures and in Python alike, with a note."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect
from torch import Tensor

from explainers.methods.registry import METHODS
from explainers.records.trace import Trace
from explainers.rendering.colours import one_sign, one_sign_note
from tests.browser.support.figures import check_texts, said, take
from tests.browser.support.image_plates import colours
from tests.browser.support.questions import explained
from tests.browser.support.visit import Visit
from tests.server.conftest import png

SPEC, OTHER = "gradcam_plus:libra", "fullgrad_plus:libra"


@pytest.fixture
def far_below_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """GradCAM+ as it is where nothing speaks for a class: its scores lie far below zero."""
    usual = METHODS["gradcam_plus"]

    def moved(trace: Trace) -> Tensor:
        scores: Tensor = usual.function(trace).scores
        return scores - 4 * scores.abs().amax(-1, keepdim=True)

    monkeypatch.setitem(METHODS, "gradcam_plus", replace(usual, function=moved))


@pytest.mark.trained
def test_gradcam_plus_is_no_slab(far_below_zero: None, desk: Visit, tmp_path: Path) -> None:
    made = explained(desk, "image", png(77), model="photos-vit", methods=[SPEC, OTHER])
    page = desk.open(f"/image?id={made}&grid=patches&opacity=100&words=shown")
    maps = {attribution["method"]: attribution for attribution in desk.document()["maps"]}
    scores = np.array(maps[SPEC]["scores"])
    assert one_sign(scores) == -1
    plate = desk.plate(SPEC)
    note = one_sign_note(scores, True)
    expect(plate.locator(".order-only")).to_have_text(note)
    expect(plate.locator(".ends span:visible")).to_have_count(2)  # no zero in the middle
    expect(plate.locator(".ramp")).to_have_class("ramp unsigned")
    expect(plate.locator(".told")).to_contain_text("Every patch speaks against")
    red, _, blue = colours(desk, maps[SPEC]).T
    assert np.corrcoef(np.argsort(np.argsort(scores)), red - blue)[0, 1] > 0.6  # the sequence grows from grey to yellow with the score
    best = int(np.argmax(scores))
    row, column = divmod(best, maps[SPEC]["grid"][1])
    assert f"strongest at row {row + 1}, column {column + 1}," in (plate.locator(".map-canvas").get_attribute("aria-label") or "")
    expect(desk.plate(OTHER).locator(".order-only")).to_be_hidden()
    expect(desk.plate(OTHER).locator(".ramp")).to_have_class("ramp signed")
    file = take(desk, plate.locator(".menu"), "SVG", tmp_path)
    assert note in " ".join(said(ET.parse(file).getroot()).split())
    check_texts(desk, file)
    plate.locator(".enlarge").click()  # at full size it is drawn alike
    expect(page.locator(".zoom .order-only")).to_have_text(note)
