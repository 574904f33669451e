"""Groups of classes on the Image page, what a model does not know, and a model of the hub in one click."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from explainers import ExplainerError
from explainers.models.companion_files.calibration import ABSTENTION_KINDS, AbstentionThreshold, Calibration
from explainers.models.labels import ClassEntry
from tests.browser.support.accessibility import no_violation
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.support.gated_models import CATALOGUE, MAKES, USUAL_METHODS, GatedModels, image_model

MODEL, HUB = "scenes-vit", "timm/other"
MEGABYTES = 346
CLASSES = (
    ClassEntry("zebra", "hoofed animal", ("hoofed animal", "animal")),
    ClassEntry("elephant", "elephant", ("elephant", "animal"), ("pachyderm",)),
    ClassEntry("dog", "dog", ("dog", "animal"), ("hound",)),
    ClassEntry("7", "number", ("number",)),
)
LINE = AbstentionThreshold("something_else", "max_probability", 0.99, True, "On 40 made-up photos, 30 of them known.")
# Opens "Why not another class?" and types: before the page is told that it is open, which is a moment later.
TYPED_AT_ONCE = """(typed) => {
  const field = document.getElementById("against");
  document.querySelector(".why").open = true;
  field.value = typed;
  field.dispatchEvent(new Event("input"));
}"""


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, GatedModels]]:
    catalogue = [
        replace(entry, recommended=True, megabytes=MEGABYTES, revision="0123456789") if entry.name == HUB else entry for entry in CATALOGUE
    ]
    known = replace(image_model(), classes=CLASSES, calibration=Calibration(1.0, (LINE,)))
    gated = GatedModels(makes={**MAKES, MODEL: lambda: known}, catalogue=catalogue)
    with gated.in_registry() as models, played(tmp_path_factory.mktemp("groups"), models) as address:
        yield address, models


@pytest.fixture
def models(playing: tuple[str, GatedModels]) -> GatedModels:
    return playing[1]


@pytest.fixture
def stage(browser: Browser, playing: tuple[str, GatedModels]) -> Iterator[Visit]:
    yield from visit(browser, playing[0])


def explained(stage: Visit, seed: int) -> Any:
    """Have something new explained, and open its page."""
    document = stage.explained(png(seed), model=MODEL, methods=USUAL_METHODS)
    stage.open(f"/image?id={document['id']}")
    return document


def matches(stage: Visit, typed: str) -> list[str]:
    stage.page.get_by_role("combobox", name="Another class or group").fill(typed)
    return stage.page.locator("#other-class-list [role=option]").all_inner_texts()


def test_the_search_finds_labels_synonyms_and_groups(stage: Visit) -> None:
    explained(stage, 1)
    assert matches(stage, "anim") == ["any animal 3 classes", "zebra animal", "elephant animal", "dog animal"]
    assert matches(stage, "pachy") == ["elephant also pachyderm"]
    assert matches(stage, "dog") == ["dog dog"]
    assert matches(stage, "hoofed") == ["zebra hoofed animal"]
    assert matches(stage, "any anim") == matches(stage, "any:animal") == ["any animal 3 classes"]
    assert matches(stage, "any") == ["any animal 3 classes"]
    assert matches(stage, "giraffe") == ["no class of this model"]


def test_a_group_is_explained_and_stays_so(stage: Visit) -> None:
    before = explained(stage, 2)
    matches(stage, "animal")
    stage.page.keyboard.press("Enter")
    stage.next_maps(before["id"])
    (target,) = stage.document()["targets"]
    assert (target["label"], target["of"]) == ("any animal", "any:animal")
    expect(stage.page.locator("#answer")).to_have_text("any animal")
    expect(stage.page.locator("#classes [aria-pressed=true]")).to_contain_text("any animal")
    expect(stage.page.locator("#classes li", has_text="zebra").locator(".group")).to_have_text("hoofed animal")
    expect(stage.page.locator("#classes li", has_text="dog").locator(".group")).to_have_count(0)  # its group has its very name
    stage.page.reload()
    stage.maps()
    expect(stage.page.locator("#answer")).to_have_text("any animal")
    stage.page.evaluate(TYPED_AT_ONCE, "any")
    expect(stage.page.locator("#against")).to_be_focused()
    expect(stage.page.locator("#against")).to_have_value("any")
    expect(stage.page.locator("#against-list li")).to_have_text(["no class of this model"])  # the one group is what is explained
    stage.page.locator("#against").fill("pachy")
    expect(stage.page.locator("#against-list li")).to_contain_text(["elephant"])  # by its synonym


def test_what_the_model_does_not_know_is_said_on_the_page_and_its_line_on_the_models_page(stage: Visit) -> None:
    doubt = ABSTENTION_KINDS["something_else"]
    abstention = explained(stage, 3)["abstention"]
    detail = abstention["detail"].partition(" (")[0]  # the numbers after it are shown on hover
    assert abstention["says"] == doubt
    answer = stage.page.locator("#answer").inner_text()
    said = re.compile(rf"^“{answer}”, [\d.]+.%\? {re.escape(detail)}")
    expect(stage.page.locator("#overview")).to_contain_text(said)
    shown = stage.page.locator("body").inner_text()
    assert shown.count(detail) == 1  # said once
    expect(stage.page.locator("#asking")).to_have_text("What made it say")  # the answer stays
    stage.open(f"/models/{MODEL}", maps=False)
    line = "Doubts its answer where the largest probability is below 0.99. On 40 made-up photos, 30 of them known."
    expect(stage.page.locator(".line")).to_have_text([line])


def test_a_recommended_model_is_got_in_one_click(stage: Visit, models: GatedModels) -> None:
    before = explained(stage, 4)
    get = stage.page.get_by_role("button", name="Get Other")
    entry = next(entry for entry in CATALOGUE if entry.name == HUB)
    expect(get).to_have_text(f"Get Other · {MEGABYTES}\u2009MB")
    expect(get).to_be_in_viewport()
    expect(get).to_have_attribute("title", re.compile(f"{re.escape(entry.description)} It is downloaded once .*{HUB}, commit 0123456"))
    models.errors[f"fetch {HUB}"] = [ExplainerError("the hub cannot be reached; check the network")]
    get.click()
    expect(stage.page.locator("#results-problem")).to_contain_text("the hub cannot be reached; check the network")
    assert stage.id == before["id"]
    expect(get).to_be_enabled()
    gate = models.gate(f"fetch {HUB}")
    get.click()
    expect(stage.page.locator("#get-says")).to_have_text("Asking the hub")
    expect(stage.page.get_by_role("progressbar", name="Downloading")).to_be_visible()
    no_violation(stage.page)
    gate.open()
    stage.next_maps(before["id"])
    expect(stage.page.locator("#get-progress")).to_be_hidden()
    assert stage.document()["model"] == HUB
    expect(stage.page.locator("#model-choice")).to_have_value(HUB)
    expect(stage.page.locator("#get-model")).to_be_hidden()
    expect(stage.page.locator("#results-problem")).to_be_empty()
