"""The choice of methods: squares for every method and rule, fields for options, and what is wrong with a map."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

from explainers.records.notes import Note
from tests.browser.support.accessibility import no_violation
from tests.browser.support.number_format import shown_range, shown_score
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit, methods, visit
from tests.server.conftest import png
from tests.server.support.gated_models import STEPS, USUAL_METHODS, GatedModels

LOST = "Relevance lost its digits: float32 and float64 differ by 0.3 of the largest score."
ASKED: dict[str, dict[str, Any]] = {
    "image": {"model": "scenes-vit"},
    "prompt": {"model": "clip", "prompt": ["a zebra", "an elephant"]},
    "text": {"model": "reviews-bert"},
}


@dataclass
class Stage:
    """A page of a server of tiny models."""

    visit: Visit
    models: GatedModels

    def open(self, kind: str, **fields: Any) -> Any:
        """Have something new explained, and open the page of its ``kind`` on it; gives the document."""
        seed = len(self.models.calls)
        fields = {"text": f"a dull film {seed}", **fields} if kind == "text" else fields
        document = self.visit.explained(None if kind == "text" else png(seed), **{"methods": USUAL_METHODS, **ASKED[kind], **fields})
        self.visit.open(f"/{kind}?id={document['id']}")
        return document


@pytest.fixture
def stage(browser: Browser, gated_site: tuple[str, GatedModels]) -> Iterator[Stage]:
    address, models = gated_site
    for visitor in visit(browser, address):
        yield Stage(visitor, models)
    models.notes.clear()


def seen(desk: Visit) -> bytes:
    """The picture that the model saw, as a PNG file."""
    data = HTTP.get(f"{desk.address}/api/explanations/{desk.id}/input.png").content
    assert Image.open(io.BytesIO(data)).format == "PNG"
    return data


@pytest.mark.trained
def test_an_option_is_set_on_the_page_and_its_map_is_that_of_the_api(desk: Visit) -> None:
    desk.open("/image?model=scenes-vit&methods=rollout")
    before, model = desk.id, desk.document()["model"]
    desk.plate("rollout").get_by_role("button", name="options").click()
    field = desk.page.get_by_role("spinbutton", name="start_layer")
    expect(field).to_be_focused()
    option = next(method for method in desk.get(f"/api/methods?model={model}")["methods"] if method["name"] == "rollout")["options"][0]
    assert [field.get_attribute("min"), field.get_attribute("max")] == [str(option["minimum"]), str(option["maximum"])]
    help_text = desk.page.locator("#options-rollout-start_layer-help")
    expect(help_text).to_contain_text(option["help"][1:])
    expect(help_text).to_contain_text(option["allowed"][1:])
    field.fill("2")
    expect(desk.page.locator(".settings:visible code")).to_have_text("rollout?start_layer=2")
    desk.page.get_by_role("button", name="Show it too").click()
    desk.next_maps(before)

    spec = "rollout?start_layer=2"
    usual, changed = desk.document()["maps"]
    assert [usual["method"], changed["method"]] == ["rollout", spec]
    again = desk.explained(seen(desk), model=model, methods=spec, target=desk.document()["targets"][0]["label"])
    assert again["maps"][0]["scores"] == changed["scores"]
    assert np.abs(np.subtract(usual["scores"], changed["scores"])).max() > 0.1 * max(changed["scores"])
    plate = desk.plate(spec)
    expect(plate.locator("h2")).to_have_text("Attention rollout (start_layer=2)")
    assert shown_range(changed) in plate.locator(".facts").inner_text()
    plate.locator(".map-canvas").focus()
    for key in ("Home", "ArrowLeft", "ArrowUp"):
        desk.page.keyboard.press(key)
        patch = int(desk.query["focus"][0])
        expect(plate.locator(".value")).to_have_text(shown_score(changed["scores"][patch], changed["signed"]))
        expect(desk.plate("rollout").locator(".value")).to_have_text(shown_score(usual["scores"][patch], usual["signed"]))


def test_libra_without_a_part_can_be_chosen(desk: Visit) -> None:
    desk.open("/image?model=scenes-vit&methods=fullgrad_plus:libra")
    before = desk.id
    methods(desk.page)
    row = desk.page.get_by_role("group", name="FullGrad+", exact=True)
    row.get_by_role("checkbox", name="Libra without attention", exact=True).check()
    desk.page.get_by_role("button", name="Show 2 methods").click()
    desk.next_maps(before)
    whole, part = desk.document()["maps"]
    assert (whole["rule"], part["rule"]) == ("libra", "libra-attention")
    assert not np.allclose(whole["scores"], part["scores"])
    expect(desk.plate("fullgrad_plus:libra-attention").locator("h2")).to_have_text(part["title"])


WRONG = {"-4": False, "3": False, "-3": True, "2": True, "1.5": False, "": True}


def test_a_wrong_value_says_what_is_allowed_and_asks_nothing(stage: Stage) -> None:
    stage.open("image")
    page = stage.visit.page
    url = page.url
    stage.visit.plate("rollout").get_by_role("button", name="options").click()
    field = page.get_by_role("spinbutton", name="start_layer")
    wrong = page.locator("#options-rollout-start_layer-wrong")
    for value, right in WRONG.items():
        field.fill(value)
        expect(wrong).to_have_text("" if right else "start_layer must be a whole number from -3 to 2.")
        expect(field).to_have_attribute("aria-invalid", str(not right).lower())
    field.fill("3")
    page.get_by_role("button", name="Show it too").click()
    expect(field).to_be_focused()
    assert page.url == url
    no_violation(page)


SET = {
    "image": ("generic_attention", "generic_attention:libra?start_layer=-1"),
    "prompt": ("legrad", "legrad:libra?layers=1"),
    "text": ("attcat", "attcat:libra?published_code=true"),
}


def check_warning(stage: Stage, kind: str) -> None:
    """What is wrong with a map stands on its plate, all of it, with a sign."""
    page = stage.visit.page
    warning = page.locator(".note .warning")
    expect(warning).to_have_count(1)
    expect(warning).to_contain_text(LOST)
    expect(warning.locator(".sign")).to_be_visible()  # a sign, not the colour alone
    expect(warning.locator(".sign")).to_have_text("!")
    place = page.locator(".matrix .line", has_text="Step one") if kind == "prompt" else stage.visit.plate(STEPS[0])
    expect(place.locator(".warning")).to_have_count(1)
    box, whole = warning.bounding_box(), warning.evaluate("(node) => [node.scrollWidth, node.scrollHeight]")
    assert box is not None
    assert whole[0] <= box["width"] + 1  # all of it is there to be read
    assert whole[1] <= box["height"] + 1


@pytest.mark.parametrize("kind", SET)
def test_what_is_wrong_with_a_map_stands_on_its_plate_and_options_are_set_on_every_page(stage: Stage, kind: str) -> None:
    name, spec = SET[kind]
    stage.models.notes[STEPS[0]] = Note(LOST, "doubt")  # a note alone has no sign
    first = stage.open(kind, methods=[*USUAL_METHODS, STEPS[0]])
    assert {tuple(attribution["notes"]) for attribution in first["maps"] if attribution["method"] == STEPS[0]} == {(LOST,)}
    check_warning(stage, kind)
    page = stage.visit.page
    methods(page)
    row = page.locator(f'.method-row[data-readout="{name}"]')
    row.get_by_role("button", name="Options of").click()
    row.get_by_label("rule", exact=True).select_option(label="Libra")
    option, value = spec.split("?")[1].split("=")
    if value == "true":
        row.get_by_label(option, exact=True).check()
    else:
        row.get_by_label(option, exact=True).fill(value)
    row.get_by_role("button", name="Show it too").click()
    stage.visit.next_maps(first["id"])
    document = stage.visit.document()
    assert set(document["methods"]) == {*USUAL_METHODS, STEPS[0], spec}
    if kind == "prompt":
        expect(page.locator(f'.plate[data-spec="{spec}"]')).to_have_count(3)  # of two prompts, and their difference
    else:
        expect(stage.visit.plate(spec)).to_have_count(1)
    page.locator("#choose-methods").click()
    expect(row.locator(".own input")).to_be_checked()
    stage.visit.open(f"/{kind}?id={stage.visit.id}")  # a link brings it back
    page.locator("#choose-methods").click()
    expect(page.locator(f'.own input[value="{spec}"]')).to_be_checked()


def test_every_pair_has_a_square_and_what_is_refused_says_why(stage: Stage) -> None:
    stage.open("image")
    page = stage.visit.page
    all_methods = stage.visit.get("/api/methods?model=scenes-vit")["methods"]
    methods(page)
    squares = page.locator(".chooser .cells label").evaluate_all(
        """(nodes) => nodes.map((node) => [node.closest(".method-row").dataset.readout, node.dataset.spec, node.classList.contains("no"),
                                      node.querySelector("input").getAttribute("aria-label")])"""
    )
    listed = {(method["name"], pair["spec"]): pair["reason"] for method in all_methods for pair in method["pairs"]}
    assert {(readout, spec) for readout, spec, *_ in squares} == set(listed)
    assert len(squares) == len(listed)
    for readout, spec, refused, said in squares:
        reason = listed[readout, spec]
        assert refused == (reason is not None)
        assert reason is None or str(said).endswith(f"not possible. {reason}")
    why = page.locator(".chooser .why")
    square = page.locator('.cells label[data-spec="hirescam:deep_taylor"]')
    square.hover()
    expect(why).to_have_text(listed["hirescam", "hirescam:deep_taylor"])
    square.click(force=True)
    expect(square.locator("input")).not_to_be_checked()
    page.locator('.cells label[data-spec="hirescam:attnlrp"] input').focus()
    page.keyboard.press("ArrowRight")
    expect(square.locator("input")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(why).to_have_text(listed["saliency", "saliency:deep_taylor"])
    page.keyboard.press("Space")
    expect(page.locator(".chooser .no input:checked")).to_have_count(0)


@pytest.mark.parametrize(("kind", "target", "other"), [("image", "zebra", "dog"), ("text", "negative", "positive")])
def test_a_class_is_set_against_another_one(stage: Stage, kind: str, target: str, other: str) -> None:
    before = stage.open(kind)["id"]
    page = stage.visit.page
    ask, entries = page.get_by_text("Why not another class?"), page.locator("#against-list li")
    ask.click()
    expect(page.locator("details.why", has_text="what speaks for")).to_contain_text(f"what speaks for “{target}” rather than for it.")
    others = [answer["label"] for answer in stage.visit.document()["top"] if answer["label"] != target]
    expect(entries.nth(len(others) - 1)).to_be_visible()
    shown = entries.all_inner_texts()
    assert [text.startswith(label) for text, label in zip(shown, others, strict=False)] == [True] * len(others)  # the runners-up first
    assert not any(text.startswith(target) for text in shown)
    entries.filter(has_text=other).first.click()
    expect(ask).to_be_focused()
    stage.visit.next_maps(before)
    document = stage.visit.document()
    assert [(target["of"], target["against"]) for target in document["targets"]] == [(target, other)]
    expect(stage.visit.page.locator("#answer")).to_have_text(f"{target} rather than {other}")
    ask.click()
    entries.filter(has_text="no other class").click()
    stage.visit.next_maps(document["id"])
    assert stage.visit.document()["targets"][0]["label"] == target


def test_a_class_is_set_against_its_nearest_kinds(stage: Stage) -> None:
    before = stage.open("image", target="zebra")
    page = stage.visit.page
    page.get_by_text("Why not another class?").click()
    page.get_by_role("button", name="against its nearest kinds").click()
    stage.visit.next_maps(before["id"])
    (target,) = stage.visit.document()["targets"]
    assert (target["kind"], target["of"]) == ("finer", "finer:zebra")
    expect(page.locator("#read")).to_have_value("finer")
    own = before["targets"][0]["logit"]
    others = sorted((row["logit"] for row in before["top"] if row["label"] != "zebra"), key=lambda logit: abs(logit - own))
    assert target["logit"] == pytest.approx(own - 0.6 * sum(others[:3]) / 3, abs=1e-4)


def test_a_contrast_opens_and_stays_one(stage: Stage) -> None:
    before = stage.open("image", target="zebra", against="elephant")
    page = stage.visit.page
    expect(page.locator("#answer")).to_have_text("zebra rather than elephant")
    expect(page.locator("#classes [aria-pressed=true]")).to_contain_text("zebra")
    page.locator("#classes li button", has_text="dog").click()
    stage.visit.next_maps(before["id"])
    document = stage.visit.document()
    target = document["targets"][0]
    assert (target["of"], target["against"]) == ("dog", "elephant")
    chip = page.locator("#classes .against")
    expect(chip).to_contain_text("rather than elephant")
    chip.get_by_role("button", name="No longer rather than elephant").click()
    stage.visit.next_maps(document["id"])
    (target,) = stage.visit.document()["targets"]
    assert (target["label"], target.get("against")) == ("dog", None)
    expect(chip).to_be_hidden()
    page.locator("#classes li button", has_text="zebra").click()  # nothing sticks
    expect(page.locator("#answer")).to_have_text("zebra")
