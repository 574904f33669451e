"""A sound on the Image page: given as a file, drawn over time with its maps, and found again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect
from scipy.io import wavfile

import explainers
from explainers.models.catalogue import CatalogueEntry
from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.turnstile import Gated
from tests.support.task_models import sound_classifier
from vitrine_server.jobs.catalogue.model_source import ModelSource

PICTURES = "pictures"


class SoundModel:
    """A model of sounds in the place of the model of pictures, which has another name."""

    def load(self, name: str, device: str | None = None, /, **ways: Any) -> explainers.Model:
        if name == PICTURES:
            return replace(Gated().load("scenes-vit", device), name=name)
        return replace(sound_classifier(), name=name) if name == "scenes-vit" else Gated().load(name, device)

    def source(self) -> ModelSource:
        source = Gated().source()
        other = CatalogueEntry(PICTURES, "image", PICTURES, "", True, "")
        return replace(source, catalogue=(*source.catalogue, other), load=self.load)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with played(tmp_path_factory.mktemp("sounds"), SoundModel(), device="cpu") as address:
        yield address


@pytest.fixture(params=[1440, 390])
def desk(browser: Browser, server: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    yield from visit(browser, server, request.param)


def test_a_sound_is_given_drawn_over_time_and_found_again(desk: Visit, tmp_path: Path) -> None:
    time = np.arange(16000) / 16000
    wavfile.write(tmp_path / "call.wav", 16000, (0.5 * np.sin(2 * np.pi * 900 * time)).astype(np.float32))
    page = desk.open("/image?model=scenes-vit&methods=fullgrad_plus:libra&methods=random", maps=False)
    button = page.get_by_role("button", name="Choose a sound")
    expect(button).to_be_visible()
    expect(page.locator("#samples button")).to_have_count(0)
    expect(page.locator("#remark")).to_have_text("This model takes sounds: choose a .wav file.")
    with page.expect_file_chooser() as chosen:
        button.click()
    chosen.value.set_files(tmp_path / "call.wav")
    desk.next_maps(None)
    document = desk.document()
    assert document["input"]["sound"]["whole"] == 1.0
    expect(page.locator("#picture .caption")).to_contain_text("0.03 to 0.93 s")
    expect(page.get_by_role("button", name="Crop")).to_be_disabled()
    plate = page.locator(".plate .map-canvas").first
    box = plate.bounding_box()
    assert box is not None
    plate.hover(position={"x": box["width"] * 2.5 / 9, "y": box["height"] * 0.9})  # the third of 9 stretches, the lowest of 4 bands
    expect(page.locator("#picture .caption")).to_contain_text("0.23 to 0.33 s, band 1 of 4")
    no_violation(page)
    page.reload()
    desk.maps()
    expect(page.locator("#picture .caption")).to_contain_text("0.03 to 0.93 s")


def test_a_model_of_sounds_is_chosen_while_a_picture_is_on_show_and_left_again(desk: Visit) -> None:
    page = desk.open(f"/image?model={PICTURES}&methods=random", maps=False)
    page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(3)})
    desk.next_maps(None)
    page.locator("#model-choice").select_option("scenes-vit")
    expect(page.get_by_role("button", name="Choose a sound")).to_be_visible()
    expect(page.locator("#remark")).to_have_text("This model takes sounds: choose a .wav file.")
    expect(page.locator(".problem:visible")).to_have_count(0)
    page.locator("#model-choice").select_option(PICTURES)  # the same picture is asked about again
    expect(page.get_by_role("button", name="Choose a picture")).to_be_visible()
    expect(page.locator("#main")).not_to_have_class(re.compile("pending"))
    assert desk.document()["model"] == PICTURES
