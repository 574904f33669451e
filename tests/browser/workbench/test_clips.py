"""A clip on the Image page: frames that are given at once, shown beside each other with each frame's map, and found again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

import explainers
from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import picture, png
from tests.server.support.turnstile import Gated
from tests.support.task_models import clip_classifier
from vitrine_server.jobs.catalogue.model_source import ModelSource

FRAMES, ROWS = 4, 4  # of the model: times, and rows of patches of each


class ClipModel:
    """A model of clips in the place of the model of pictures."""

    def load(self, name: str, device: str | None = None, /, **ways: Any) -> explainers.Model:
        return replace(clip_classifier(), name=name) if name == "scenes-vit" else Gated().load(name, device)

    def source(self) -> ModelSource:
        return replace(Gated().source(), load=self.load)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with played(tmp_path_factory.mktemp("clips"), ClipModel(), device="cpu") as address:
        yield address


@pytest.fixture(params=[1440, 390])
def desk(browser: Browser, server: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    yield from visit(browser, server, request.param)


def test_frames_are_given_at_once_and_shown_beside_each_other(desk: Visit, tmp_path: Path) -> None:
    frames = [tmp_path / f"frame {number}.png" for number in range(12)]  # of which 10 comes behind 9
    for number, path in enumerate(frames):
        path.write_bytes(png(number, (48, 48)))
    page = desk.open("/image?model=scenes-vit&methods=fullgrad_plus:libra&methods=random", maps=False)
    expect(page.locator("#model-choice")).to_have_value("scenes-vit")  # it is known by then that it takes clips
    with page.expect_file_chooser() as chosen:
        page.get_by_role("button", name="Choose a clip").click()
    before = desk.id
    chosen.value.set_files(frames)
    desk.next_maps(before)
    document = desk.document()
    expected = explainers.explain(
        clip_classifier(), explainers.Clip([picture(number, (48, 48)) for number in range(12)]), methods="fullgrad_plus:libra"
    ).maps[0]
    assert document["maps"][0]["scores"] == pytest.approx(expected.scores[expected.content].tolist(), rel=1e-3, abs=1e-6)
    assert document["input"]["frames"] == FRAMES
    plate = page.locator(".plate .map-canvas").first
    box = plate.bounding_box()
    assert box is not None
    assert box["width"] == pytest.approx(FRAMES * box["height"], rel=0.02)
    plate.hover(position={"x": box["width"] * 2.6 / FRAMES, "y": box["height"] * 0.4})  # the third frame, row 2, column 3
    expect(page.locator("#picture .caption")).to_contain_text("frame 3, row 2, column 3")
    sizes = [abs(score) for score in document["maps"][0]["scores"]]
    rank = 1 + sum(size > sizes[(2 * ROWS + 1) * 4 + 2] for size in sizes)
    expect(plate.locator(".value-tag .rank")).to_have_text(f"{rank} of {len(sizes)}")
    no_violation(page)
    page.reload()
    desk.next_maps("")
    expect(page.locator("#picture .caption")).to_contain_text(f"{FRAMES} times 64×64")


def test_one_picture_is_refused_with_what_to_send(desk: Visit) -> None:
    page = desk.open("/image?model=scenes-vit", maps=False)
    page.locator("#give input[type=file]").first.set_input_files({"name": "one.png", "mimeType": "image/png", "buffer": png()})
    expect(page.locator(".problem").get_by_text("Send an animated GIF")).to_be_visible()
