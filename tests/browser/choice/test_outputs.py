"""Models whose labels each have a probability of their own, that have one logit, or that give values: what the pages say of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, expect

import explainers
from explainers.models.inputs.images import Preprocessing
from tests.browser.support.number_format import percent, shown
from tests.browser.support.serving import HTTP, played
from tests.browser.support.visit import Visit, visit
from tests.families import FAMILIES
from tests.server.conftest import png
from tests.server.support.turnstile import Gated
from vitrine_server.jobs.catalogue.model_source import ModelSource

LABELS = ["ant", "bee", "cat", "dog", "eel"]
SIGNED = "fullgrad_plus:libra"
METHODS = "methods=rollout&methods=fullgrad_plus:libra"


@dataclass
class Declared:
    """Makes an engine whose image model has this output, one number for each label or a single one."""

    output: Any
    labels: tuple[str, ...] = tuple(LABELS)

    def load(self, name: str, device: str | None = None) -> explainers.Model:
        if name != "scenes-vit":
            return Gated().load(name, device)
        square = Preprocessing(resize=(32, 24), crop=(32, 24))
        module: Any = FAMILIES["vit"].build()
        if self.output == "sigmoid":
            torch.nn.init.constant_(module.head.bias, 0.1)  # more than one label is likely
        if len(self.labels) != len(LABELS):
            module.reset_classifier(len(self.labels))
        return explainers.wrap(module, name=name, preprocess=square, device=device, labels=self.labels, output=self.output)

    def source(self) -> ModelSource:
        return replace(Gated().source(), load=self.load)


@pytest.fixture(scope="module", params=["sigmoid", "regression"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with played(tmp_path_factory.mktemp("outputs"), Declared(request.param), device="cpu") as address:
        yield address, request.param


@pytest.fixture
def desk(browser: Browser, stage: tuple[str, str]) -> Iterator[Visit]:
    yield from visit(browser, stage[0])


def test_the_page_shows_what_the_numbers_are(desk: Visit, stage: tuple[str, str]) -> None:
    output = stage[1]
    page = desk.open(f"/image?{METHODS}", maps=False)
    page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(1)})
    desk.next_maps(None)
    document = desk.document()
    assert document["output"] == output
    says = page.locator("#classes .classes li .num")
    overview = page.locator("#overview")
    if output == "sigmoid":
        assert sum(answer["probability"] for answer in document["top"]) > 1.2  # no shares of one whole
        expect(says).to_have_text([percent(answer["probability"]) for answer in document["top"]])
        expect(page.locator("#classes")).to_contain_text("Each label has a probability of its own.")
        present = [answer for answer in document["top"] if answer["probability"] >= 0.5]
        for answer_row in present:
            expect(overview).to_contain_text(f"“{answer_row['label']}” ({percent(answer_row['probability'])})")
    else:
        expect(says).to_have_text([shown(answer["logit"]) for answer in document["top"]])
        expect(page.locator("#classes")).to_contain_text("These are the numbers that the model predicts, not shares of 100 %.")
        target = document["targets"][0]
        expect(overview).to_contain_text(f"The model's value for “{target['label']}” is {shown(target['logit'])}.")
    assert "NaN" not in page.locator("body").inner_text()
    assert "undefined" not in page.locator("body").inner_text()
    every = page.get_by_role("button", name="every label of at least 50 %")
    if output == "sigmoid":
        every.click()
        desk.next_maps(document["id"])
        assert [target["label"] for target in desk.document()["targets"]] == [row["label"] for row in present]
        assert len(present) > 1
        several = desk.id
        page.go_back()
        desk.next_maps(several)
    else:
        expect(every).to_be_hidden()

    page.locator("#removed").fill("50")
    expect(page.locator(".panels svg")).to_have_count(2, timeout=60_000)
    answer = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/deletion-test", json={}).json()
    read = {"sigmoid": "probability", "regression": "value"}[output]
    assert answer["read"] == read
    axis = "probability" if output == "sigmoid" else answer["target"]
    expect(page.locator(".panels .axis").first).to_have_text(axis)
    curve = next(curve for curve in answer["curves"] if curve["method"] == "rollout" and curve["order"] == "most")
    expected = (percent if output == "sigmoid" else shown)(curve[read][answer["counts"].index(6)])
    lines = desk.plate("rollout").locator(".after")
    expect(lines.locator("dt").first).to_have_text("without these parts" if output == "sigmoid" else "value without them")
    expect(lines.locator("dd").first).to_have_text(expected)
    expect(page.locator(".ranks tbody tr").first.locator("td").nth(1)).to_have_text(
        (percent if output == "sigmoid" else shown)(answer["ranking"][0]["most"])
    )
    assert "NaN" not in page.locator("body").inner_text()


def test_one_number_is_two_classes(browser: Browser, tmp_path: Path) -> None:
    """A model with one logit: "fracture" and "no fracture", whose probabilities sum to 1 and whose maps are each other's opposite."""
    with played(tmp_path / "home", Declared(None, ("fracture",)), device="cpu") as address:
        for desk in visit(browser, address):
            page = desk.open(f"/image?{METHODS}", maps=False)
            page.get_by_label("Picture file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png(1)})
            desk.next_maps(None)
            first = desk.document()
            assert {row["label"] for row in first["top"]} == {"fracture", "no fracture"}
            assert sum(row["probability"] for row in first["top"]) == pytest.approx(1)
            rows = page.locator("#classes .classes li button")
            expect(rows).to_have_count(2)
            expect(page.locator("#classes .classes li .num")).to_have_text([percent(row["probability"]) for row in first["top"]])
            other = first["top"][1]["label"]
            rows.nth(1).click()
            desk.next_maps(first["id"])
            second = desk.document()
            assert second["targets"][0]["label"] == other
            expect(page.locator("#answer")).to_have_text(other)
            assert second["targets"][0]["logit"] == pytest.approx(-first["targets"][0]["logit"], abs=1e-6)
            scores = [next(drawn["scores"] for drawn in document["maps"] if drawn["method"] == SIGNED) for document in (first, second)]
            assert scores[0] == pytest.approx([-score for score in scores[1]], abs=1e-6)
