"""Models whose head pools all tokens: the row that a map starts from is an option, and its plate says which it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

import explainers
from explainers.models.inputs.images import Preprocessing
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, methods, visit
from tests.families import FAMILIES
from tests.server.conftest import png
from tests.server.support.turnstile import Gated
from vitrine_server.jobs.catalogue.model_source import ModelSource

CLASS_TOKEN, MEAN = "rollout?row=class_token", "rollout?row=mean"


class Pooled:
    """Makes an engine whose image model is an EVA-02: a classification token stands before the patches, and the head pools them all."""

    def load(self, name: str, device: str | None = None) -> explainers.Model:
        if name != "scenes-vit":
            return Gated().load(name, device)
        square = Preprocessing(resize=(32, 24), crop=(32, 24))
        return explainers.wrap(FAMILIES["eva02"].build(), name=name, preprocess=square, device=device)

    def source(self) -> ModelSource:
        return replace(Gated().source(), load=self.load)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with played(tmp_path_factory.mktemp("rows"), Pooled(), device="cpu") as address:
        yield address


@pytest.fixture
def desk(browser: Browser, address: str) -> Iterator[Visit]:
    yield from visit(browser, address)


def test_the_plate_says_whose_row_was_read(desk: Visit) -> None:
    query = "&".join(f"methods={quote(spec, safe='')}" for spec in (CLASS_TOKEN, MEAN, "fullgrad_plus:libra"))
    page = desk.open(f"/image?{query}", maps=False)
    page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(1)})
    desk.next_maps(None)
    maps = {attribution["method"]: attribution for attribution in desk.document()["maps"]}
    assert maps[CLASS_TOKEN]["scores"] != maps[MEAN]["scores"]
    for spec, said in (
        (CLASS_TOKEN, "This map is read at the class token, although the head"),
        (MEAN, "This map is the mean over the rows of all tokens"),
    ):
        assert any(note.startswith(said) for note in maps[spec]["notes"])
        expect(desk.plate(spec)).to_contain_text(said)
    expect(desk.plate("fullgrad_plus:libra")).not_to_contain_text("read at the")


def test_the_options_offer_the_row_of_a_method_that_cannot_run_without(desk: Visit) -> None:
    listed = {pair["spec"]: pair["remedies"] for method in desk.get("/api/methods?model=scenes-vit")["methods"] for pair in method["pairs"]}
    assert listed["rollout"] == ["row=class_token", "row=mean"]
    assert listed["fullgrad_plus"] == listed["generic_attention:lrp"] == []
    page = desk.open("/image?methods=fullgrad_plus:libra", maps=False)
    page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(1)})
    desk.next_maps(None)
    before = desk.id
    methods(page)
    row = page.locator('.method-row[data-readout="rollout"]')
    row.get_by_role("button", name="Options of").click()
    expect(row.get_by_label("row", exact=True)).to_have_value("class_token")  # without one it cannot run
    row.get_by_role("button", name="Show it too").click()
    desk.next_maps(before)
    expect(desk.plate(CLASS_TOKEN)).to_contain_text("read at the class token")
