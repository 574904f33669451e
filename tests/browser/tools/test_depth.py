"""Which parts of the model do the work? On a model's card: pictures or texts in, bars and sentences out; stopped, and refused."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.visit import Visit

TITLE = "Which parts of the model do the work?"


def pictures(count: int) -> list[Any]:
    """Coloured noise, as files."""
    rng, files = np.random.default_rng(0), []
    for number in range(count):
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (32, 24, 3), dtype=np.uint8)).save(buffer, "PNG")
        files.append({"name": f"{number}.png", "mimeType": "image/png", "buffer": buffer.getvalue()})
    return files


def opened(view: Visit, model: str) -> Locator:
    """The fold on the page of a model."""
    page = view.open(f"/models/{model}", maps=False)
    page.get_by_text(TITLE).click()
    expect(page.locator(".depth form")).to_be_visible()
    return page.locator(".depth")


@pytest.mark.parametrize("device", ["desk", "phone"])
def test_pictures_give_bars_and_sentences(device: str, request: pytest.FixtureRequest) -> None:
    view: Visit = request.getfixturevalue(device)
    fold = opened(view, "scenes-vit")
    go = fold.get_by_role("button", name="Measure")
    expect(go).to_be_disabled()
    expect(fold.locator(".said")).to_have_text("At least 8 pictures, of several classes.")
    choose = fold.locator("input[type=file]").first
    choose.set_input_files(pictures(3))
    expect(fold.locator(".said")).to_have_text("3 pictures: choose at least 8.")
    expect(go).to_be_disabled()
    choose.set_input_files(pictures(8))
    expect(fold.locator(".said")).to_contain_text("8 pictures. The model is asked about")
    go.click()
    expect(fold.get_by_role("heading", level=3)).to_have_text(["Parts", "Heads", "Reading each other", "Methods"], timeout=60_000)
    rows = fold.locator(".depth-bars").first.locator("tbody th")
    expect(rows).to_have_text(
        ["block 1 attention", "block 1 MLP", "block 2 attention", "block 2 MLP", "all attention", "all MLPs", "all parts"]
    )
    expect(fold.locator("section").nth(2)).to_contain_text("When no patch reads another")
    expect(fold.locator("svg .interval").first).to_be_attached()
    no_violation(view.page)
    assert view.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_texts_are_typed_and_a_refusal_is_shown_in_place(desk: Visit) -> None:
    fold = opened(desk, "reviews-bert")
    fold.get_by_label("Your texts, one a line").fill("\n".join(["a good film", "", *["not bad", "a plot"] * 4]))
    expect(fold.locator(".said")).to_contain_text("9 texts.")
    refusal = '{"title": "Too busy", "detail": "It cannot now.", "status": 503}'
    desk.page.route("**/api/depth", lambda route: route.fulfill(status=503, content_type="application/problem+json", body=refusal))
    fold.get_by_role("button", name="Measure").click()
    expect(fold.get_by_role("alert")).to_contain_text("It cannot now.")
    desk.refused(503)
    desk.page.unroute("**/api/depth")
    fold.get_by_role("button", name="Measure").click()
    expect(fold.locator("section").nth(2)).to_contain_text("When no word reads another", timeout=60_000)
    expect(fold.get_by_role("alert")).to_have_count(0)


def test_it_can_be_stopped(desk: Visit) -> None:
    fold = opened(desk, "scenes-vit")
    desk.page.route("**/api/depth", lambda route: None)  # no answer comes
    fold.locator("input[type=file]").first.set_input_files(pictures(8))
    fold.get_by_role("button", name="Measure").click()
    fold.get_by_role("button", name="Stop").click(timeout=20_000)
    expect(fold.locator(".waits")).to_contain_text("Stopped")
    desk.page.unroute("**/api/depth")
    fold.get_by_role("button", name="Ask again").click()
    expect(fold.locator("section").first).to_be_visible(timeout=60_000)
