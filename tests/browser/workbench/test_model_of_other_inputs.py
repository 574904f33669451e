"""A model is chosen that does not read what was asked about: what it reads of it is asked, or nothing; what the page says stays true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import explainers
from explainers.models.catalogue import CatalogueEntry
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.turnstile import Gated
from tests.support.task_models import picture_writer, sound_classifier
from vitrine_server.jobs.catalogue.model_source import ModelSource

WRITER, SOUNDS = "picture-writer", "sounds"
METHODS = "methods=input_x_gradient:libra&methods=random"


class MoreModels:
    """The tiny models, with one that writes about a picture and a text and one that reads sounds."""

    def load(self, name: str, device: str | None = None, /, **ways: Any) -> explainers.Model:
        more = {WRITER: picture_writer, SOUNDS: sound_classifier}
        return replace(more[name](), name=name) if name in more else Gated().load(name, device)

    def source(self) -> ModelSource:
        source = Gated().source()
        kinds: Any = {WRITER: "text", SOUNDS: "image"}
        more = [CatalogueEntry(name, kind, name, "", True, "") for name, kind in kinds.items()]
        return replace(source, catalogue=(*source.catalogue, *more), load=self.load)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with played(tmp_path_factory.mktemp("models"), MoreModels(), device="cpu") as address:
        yield address


@pytest.fixture
def desk(browser: Browser, server: str) -> Iterator[Visit]:
    yield from visit(browser, server)


def chosen(page: Page) -> str:
    return str(page.locator("#model-choice").input_value())


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_model_of_texts_is_asked_without_the_picture(desk: Visit, tmp_path: Path, is_linked: bool) -> None:
    if is_linked:
        first = desk.explained(png(size=(64, 48)), model=WRITER, text="a good film", methods=["input_x_gradient:libra", "random"])
        page = desk.open(f"/text?id={first['id']}")
    else:
        page = desk.open(f"/text?model={WRITER}&{METHODS}", maps=False)
        (tmp_path / "given.png").write_bytes(png(size=(64, 48)))
        page.get_by_label("Picture file", exact=True).set_input_files(tmp_path / "given.png")
        page.locator("#text").fill("a good film")
        page.get_by_role("button", name="Ask about this picture").click()
        desk.next_maps(None)
    before = desk.id
    page.locator("#model-choice").select_option("reviews-bert")
    desk.next_maps(before)
    document = desk.document()
    assert (document["model"], document["input"]["text"], document["input"].get("picture")) == ("reviews-bert", "a good film", None)
    assert chosen(page) == "reviews-bert"
    expect(page.locator("#results-problem")).to_contain_text("reviews-bert reads none: this is its answer to the text alone.")
    before = desk.id
    page.locator("#text").fill("a bad film")
    page.locator("#writing [type=submit]").click()
    desk.next_maps(before)
    assert (desk.document()["model"], desk.document()["input"]["text"]) == ("reviews-bert", "a bad film")
    expect(page.locator("#results-problem")).to_have_text("")
    page.locator("#model-choice").select_option(WRITER)  # nothing is asked until it gets a picture
    expect(page.locator("#prompt-picture")).to_be_visible()
    expect(page.locator("#prompt-picture img")).to_have_count(0)


def test_what_is_said_over_old_maps_is_about_the_model_that_made_them(desk: Visit) -> None:
    page = desk.open("/image?model=scenes-vit&methods=rollout&methods=random", maps=False)
    page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(3)})
    desk.next_maps(None)
    said = page.locator("#plates").inner_text()
    page.locator("#model-choice").select_option(SOUNDS)
    expect(page.get_by_role("button", name="Choose a sound")).to_be_visible()
    expect(page.locator("#status")).to_have_text("these maps are of scenes-vit")
    expect(page.locator("#input-panel-title")).to_have_text("Your picture")
    names = desk.get(f"/api/models/{SOUNDS}")["labels"]
    does = f"knows {len(names)} things" if len(names) > 3 else "answers " + " or ".join(f"“{name}”" for name in names)
    expect(page.locator("#model-why")).to_contain_text(f"You chose this model: it {does}.")
    assert page.locator("#plates").inner_text() == said
    expect(page.locator("#more-asking")).to_contain_text("No other loaded model reads what this one does")


def test_a_writer_is_described_while_a_review_is_on_show(desk: Visit) -> None:
    page = desk.open("/text?model=reviews-bert&methods=random", maps=False)
    page.locator("#text").fill("a good film")
    page.locator("#writing [type=submit]").click()
    desk.next_maps(None)
    page.locator("#model-choice").select_option(WRITER)
    expect(page.locator("#model-why")).to_have_text("You chose this model: it writes an answer.")
    expect(page.locator("#status")).to_have_text("these maps are of reviews-bert")
    expect(page.locator("#text")).to_have_value("")
    page.locator("#model-choice").select_option("reviews-bert")  # the review is asked about again
    expect(page.locator("#text")).to_have_value("a good film")
    expect(page.locator("#main")).not_to_have_class(re.compile("pending"))
    assert desk.document()["input"]["text"] == "a good film"
