"""Groups of classes on the Image page, what a model does not know, and a model of the hub in one click; on the stand-in engine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from explainers import Abstention, ExplainerError
from explainers.models.calibration import ABSTENTION_KINDS, AbstentionThreshold, Calibration
from explainers.models.labels import ClassEntry
from tests.browser.support.serving import played
from tests.browser.support.visit import Visit, visit
from tests.server.conftest import png
from tests.server.fake_engine import CATALOGUE, FakeEngine

MODEL, HUB = "scenes-vit", "timm/other"
CLASSES = (
    ClassEntry("zebra", "hoofed animal", ("hoofed animal", "animal")),
    ClassEntry("elephant", "elephant", ("elephant", "animal"), ("pachyderm",)),
    ClassEntry("dog", "dog", ("dog", "animal"), ("hound",)),
    ClassEntry("7", "number", ("number",)),
)
LINE = AbstentionThreshold("something_else", "max_probability", 0.5, True, "On 40 made-up photos, 30 of them known.")
# Opens "Why not another class?" and types: before the page is told that it is open, which is a moment later.
TYPED_AT_ONCE = """(typed) => {
  const field = document.getElementById("against");
  document.querySelector(".why").open = true;
  field.value = typed;
  field.dispatchEvent(new Event("input"));
}"""
DETAIL = "This may be none of the 4 things that scenes-vit knows, or several of them."


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, FakeEngine]]:
    catalogue = [replace(entry, recommended=entry.name == HUB) for entry in CATALOGUE]
    engine = FakeEngine(classes={MODEL: CLASSES}, calibrations={MODEL: Calibration(1.0, (LINE,))}, catalogue=catalogue)
    with played(tmp_path_factory.mktemp("groups"), engine) as address:
        yield address, engine


@pytest.fixture
def engine(playing: tuple[str, FakeEngine]) -> Iterator[FakeEngine]:
    yield playing[1]
    playing[1].abstention = None


@pytest.fixture
def stage(browser: Browser, playing: tuple[str, FakeEngine]) -> Iterator[Visit]:
    yield from visit(browser, playing[0])


def explained(stage: Visit, seed: int) -> Any:
    """Have something new explained, and open its page."""
    document = stage.explained(png(seed), model=MODEL)
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


def test_what_the_model_does_not_know_is_said_on_the_page_and_its_line_on_the_models_page(stage: Visit, engine: FakeEngine) -> None:
    doubt = ABSTENTION_KINDS["something_else"]
    engine.abstention = Abstention("something_else", doubt, DETAIL, 0.4, 0.5)
    explained(stage, 3)
    answer = stage.page.locator("#answer").inner_text()
    said = re.compile(rf"^“{answer}”\? {doubt.capitalize()}\. It says so with .* {DETAIL}")
    expect(stage.page.locator("#overview")).to_contain_text(said)
    shown = stage.page.locator("body").inner_text()
    assert (shown.count(DETAIL), shown.casefold().count(doubt)) == (1, 1)  # said once
    expect(stage.page.locator("#asking")).to_have_text("What made it say")  # the answer stays
    stage.open("/models", maps=False)
    card = stage.page.locator(f'.card[data-name="{MODEL}"]')
    expect(card).to_contain_text("Doubts its answer where the largest probability is below 0.5. On 40 made-up photos, 30 of them known.")
    expect(stage.page.locator(".card .line")).to_have_count(1)


def test_a_recommended_model_is_got_in_one_click(stage: Visit, engine: FakeEngine) -> None:
    before = explained(stage, 4)
    get = stage.page.get_by_role("button", name="Get Other")
    entry = next(entry for entry in CATALOGUE if entry.name == HUB)
    expect(stage.page.locator("#get-says")).to_contain_text(entry.description)  # what it is
    expect(stage.page.locator("#get-says")).to_contain_text("A download")
    engine.errors[f"fetch {HUB}"] = [ExplainerError("the hub cannot be reached; check the network")]
    get.click()
    expect(stage.page.locator("#results-problem")).to_contain_text("the hub cannot be reached; check the network")
    assert stage.id == before["id"]
    expect(get).to_be_enabled()
    get.click()
    stage.next_maps(before["id"])
    assert stage.document()["model"] == HUB
    expect(stage.page.locator("#model-choice")).to_have_value(HUB)
    expect(stage.page.locator("#get-model")).to_be_hidden()
    expect(stage.page.locator("#results-problem")).to_be_empty()
