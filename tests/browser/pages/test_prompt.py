"""The Prompt page against the numbers of the API."""

from __future__ import annotations

import itertools
import re
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.support.number_format import percent, shown, shown_range, shown_score
from tests.browser.support.typefaces import TYPEFACES
from tests.browser.support.visit import FEW, Visit
from tests.support.node import compute


def check_matrix(desk: Visit, document: dict[str, Any]) -> None:
    """A row a method, a column a prompt, and each cell the map of both; of one prompt the plates of a picture. What the model says of each
    prompt stands at the prompt.
    """
    prompts = [target["label"] for target in document["targets"]]
    if len(prompts) > 1:
        expect(desk.page.locator(".matrix .head .name")).to_have_text([*prompts, f"{prompts[0]} rather than {prompts[1]}"])
    fields = desk.page.get_by_role("textbox", name="Prompt")
    assert [field.input_value() for field in fields.all()] == prompts
    for i, target in enumerate(document["targets"]):
        said = desk.page.locator("#prompts .likeness").nth(i)
        calibration = desk.get(f"/api/models/{document['model']}")
        scale = calibration["details"].get("logit_scale")
        lines = (calibration.get("calibration") or {}).get("lines", [])
        is_finding = any(line["kind"] == "not_in_picture" for line in lines)
        likeness = f"cosine {shown(target['logit'] / scale)}" if scale else f"logit {shown(target['logit'])}"
        told = target.get("abstention")
        verdict = {"not_in_picture": "not found", "perhaps_in_picture": "perhaps"}.get(told["kind"] if told else "")
        # by what it was judged, which is not how like the whole picture it is
        judged = f"best patches {shown(told['score'])}; found from " if told and verdict else ""
        expect(said).to_have_attribute("title", re.compile(f"^{re.escape(judged)}.*{re.escape(likeness)}, with the whole picture$"))
        words, share = said.locator("> span").all()
        if told:
            expect(words).to_have_text(verdict or f"{told['says']} · {likeness}")
        else:
            expect(words).to_have_text("found" if is_finding else likeness)
        # of one prompt a share says nothing, and of what was not found for sure it would be a certainty that the model has not
        is_shared = len(prompts) > 1 and not told
        expect(share).to_have_text(f"{percent(target['probability'])} among the prompts" if is_shared else "")
    specs = list(dict.fromkeys(attribution["method"] for attribution in document["maps"]))
    assert len(document["maps"]) == len(specs) * len(prompts)
    expect(desk.page.locator(".matrix .line:not(.head)")).to_have_count(len(specs) if len(prompts) > 1 else 0)
    for attribution in document["maps"]:
        plate = desk.plate(attribution["method"]).nth(prompts.index(attribution["target"]))
        if len(prompts) > 1:
            expect(plate.locator(".caption")).to_have_text(attribution["target"])
        assert shown_range(attribution) in plate.locator(".facts:not(.after)").inner_text()


@pytest.mark.trained
@pytest.mark.parametrize("desk", TYPEFACES, indirect=True)
def test_an_example_is_explained_when_the_page_opens(desk: Visit) -> None:
    desk.open("/prompt")
    document = desk.document()
    assert document["model"] == "clip"
    assert len(document["targets"]) > 1
    assert sum(target["probability"] for target in document["targets"]) == pytest.approx(1, abs=1e-4)
    check_matrix(desk, document)
    moved, what = desk.shift()
    assert moved < 0.01, what


@pytest.mark.trained
def test_what_is_said_of_prompts_says_of_which_and_by_what_rule(desk: Visit) -> None:
    """The heading names what was found alone, the maps that agree are those of one prompt, and the rule has its thresholds."""
    wanted = "&".join(f"prompt={quote(prompt)}" for prompt in ("a cat", "an elephant", "a window"))
    page = desk.open(f"/prompt?sample=photo-cat-coffee-prompts&{wanted}", folded=True)
    document = desk.document()
    kinds = {target["label"]: (target.get("abstention") or {}).get("kind") for target in document["targets"]}
    assert kinds == {"a cat": None, "an elephant": "not_in_picture", "a window": "perhaps_in_picture"}
    check_matrix(desk, document)
    expect(page.locator("#asking")).to_have_text("Where it found")
    expect(page.locator("#answer")).to_have_text("a cat")
    expect(page.locator("#overview .agreement")).to_contain_text("For “a cat”: ")
    lines = desk.get(f"/api/models/{document['model']}")["calibration"]["lines"]
    least, most = (
        next(line["line"] for line in lines if line["kind"] == kind and line["prompts"] == "thing")
        for kind in ("not_in_picture", "perhaps_in_picture")
    )
    rule = f"A prompt for a thing is found from best patches {shown(most)}, perhaps from {shown(least)}."
    judged = page.locator("#notes .judged")
    expect(judged).to_contain_text(rule)
    for target in document["targets"]:
        if told := target.get("abstention"):
            assert (told["score"] < least) == (told["kind"] == "not_in_picture")
            assert told["score"] < most
    expect(judged.locator("p").first).to_be_hidden()
    judged.locator("summary").click()
    expect(judged.locator("p").first).to_be_visible()


@pytest.mark.trained
@pytest.mark.parametrize("prompts", [("a cat", "a dog", "an elephant"), ("a photo of a cat", "a photo of a cup of coffee", "a window")])
def test_of_several_prompts_the_recommended_map_is_on_the_first_screen(desk: Visit, prompts: tuple[str, ...]) -> None:
    """Of three on a phone, and of two and three on a desktop, where the first row begins above y = 420."""
    page = desk.page
    for width, height, count in ((390, 844, 3), (1440, 900, 3), (1440, 900, 2)):
        page.set_viewport_size({"width": width, "height": height})
        wanted = "&".join(f"prompt={quote(prompt)}" for prompt in prompts[:count])
        desk.open(f"/prompt?sample=photo-cat-coffee-prompts&{wanted}", folded=True)
        assert page.evaluate("() => scrollY") == 0
        (first, *_) = boxes(desk, ".matrix .recommended .map-canvas, .matrix .line:has(.mark) .map-canvas")
        assert first["bottom"] <= height, (width, count)
        if width == 1440:
            assert first["top"] < 420, count
            assert first["width"] >= 260


@pytest.mark.trained
def test_prompts_are_added_and_removed(desk: Visit) -> None:
    desk.open(f"/prompt?sample=photo-cat-prompts&{FEW}")  # a link may name the sample to begin with
    first = desk.document()
    assert first["targets"][0]["label"] == "a photo of a cat"
    desk.page.get_by_role("button", name="Add a prompt").click()
    desk.page.get_by_role("textbox", name="Prompt").last.fill("a photo of a banana")
    desk.page.get_by_role("button", name="Look for these").click()
    desk.next_maps(first["id"])
    second = desk.document()
    assert [target["label"] for target in second["targets"]] == [*(target["label"] for target in first["targets"]), "a photo of a banana"]
    check_matrix(desk, second)
    for _ in second["targets"][1:]:
        desk.page.get_by_role("button", name="Remove this prompt").first.click()
    desk.page.get_by_role("textbox", name="Prompt").press("Enter")
    desk.next_maps(second["id"])
    third = desk.document()
    assert [target["label"] for target in third["targets"]] == ["a photo of a banana"]
    check_matrix(desk, third)
    expect(desk.page.locator("main")).not_to_contain_text(percent(1), use_inner_text=True)  # a share of one prompt says nothing
    # there is no banana in the picture, and the model has a line for that
    assert third["targets"][0]["abstention"]["kind"] == "not_in_picture"
    expect(desk.page.locator("#overview")).to_contain_text("It did not find “a photo of a banana”.")
    expect(desk.page.locator("#plates")).to_have_class(re.compile("unfound"))  # its maps are pale
    details = desk.get(f"/api/models/{third['model']}")["details"]
    cosine = shown(third["targets"][0]["logit"] / details["logit_scale"])
    said = f"“a photo of a banana” and the picture have a cosine of {cosine}. Add a second prompt to see whether that is much."
    line = {"kind": "not_in_picture", "says": "not found in this picture", "score": "cosine", "line": -0.9, "below": True}
    for calibration, answer in (({"lines": [line]}, "It found “a photo of a banana”."), (None, said)):
        sentence = compute(
            "async ([target, details]) => (await script('workbench/overview.js')).answerLine({ targets: [target] }, details)",
            [{**third["targets"][0], "abstention": None}, {**details, "calibration": calibration}],
        )
        assert sentence == answer


def test_a_patch_is_looked_at_under_every_prompt(desk: Visit) -> None:
    desk.open(f"/prompt?{FEW}")
    document = desk.document()
    desk.page.locator(".map-canvas").first.focus()
    desk.page.keyboard.press("Home")
    patch = int(desk.query["focus"][0])
    first = desk.page.locator(".plate").first
    method, prompt = first.get_attribute("data-spec"), first.locator(".caption").inner_text()
    scores = next(
        attribution["scores"] for attribution in document["maps"] if (attribution["method"], attribution["target"]) == (method, prompt)
    )
    assert patch == int(np.argmax(np.abs(scores)))
    prompts = [target["label"] for target in document["targets"]]
    for attribution in document["maps"]:
        value = desk.plate(attribution["method"]).nth(prompts.index(attribution["target"])).locator(".value")
        expect(value).to_have_text(shown_score(attribution["scores"][patch], attribution["signed"]))


SEVERAL = "methods=rollout&methods=fullgrad_plus:libra&methods=generic_attention&methods=transformer_attribution"


def asked(*prompts: str) -> str:
    """The address of a question about these prompts."""
    return f"/prompt?{SEVERAL}&{'&'.join(f'prompt={quote(prompt)}' for prompt in prompts)}"


def boxes(desk: Visit, nodes: str) -> list[dict[str, float]]:
    found: list[dict[str, float]] = desk.page.locator(nodes).evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().toJSON())")
    return found


def test_nothing_is_said_of_a_test_that_nobody_began(desk: Visit) -> None:
    page = desk.open(f"/prompt?{FEW}")
    lines = page.locator(".matrix .after").first
    expect(lines).to_be_hidden()
    page.locator("#removed").fill("20")
    expect(lines).to_be_visible()
    expect(lines.locator("dd").first).to_have_text(re.compile(r"\d"))


def test_one_prompt_has_the_wall_of_a_picture(desk: Visit) -> None:
    desk.open(asked("a cat"))
    first = boxes(desk, "#plates > .plate")
    assert len(first) == 4
    assert len({box["top"] for box in first}) == 1  # in one row
    assert all(right["left"] > left["right"] for left, right in itertools.pairwise(first))
    expect(desk.page.locator(".regions")).to_be_hidden()
    expect(desk.plate("rollout").locator(".note")).to_have_text("This method gives the same map for every prompt.")
    desk.page.get_by_role("button", name="Add a prompt").click()
    desk.page.get_by_role("textbox", name="Prompt").last.fill("a dog")
    before = desk.id
    desk.page.get_by_role("button", name="Look for these").click()
    desk.next_maps(before)
    check_matrix(desk, desk.document())
    expect(desk.page.locator("#plates > .plate")).to_have_count(0)
    expect(desk.page.locator(".regions")).to_be_visible()


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_of_many_prompts_no_column_is_cut_and_the_heads_stay_in_sight(desk: Visit, width: int) -> None:
    desk.page.set_viewport_size({"width": width, "height": 800})
    prompts = [f"a photo of thing number {number}" for number in range(8)]
    page = desk.open(asked(*prompts))
    (place,) = boxes(desk, "#plates")
    plates = boxes(desk, ".matrix .plate")
    assert len(plates) == 4 * 9
    assert all(place["left"] - 1 <= box["left"] and box["right"] <= place["right"] + 1 and box["width"] > 80 for box in plates)
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    page.locator(".matrix .line").last.scroll_into_view_if_needed()
    if width == 1440:
        heads = page.locator(".matrix .head")
        assert heads.evaluate("(head) => Math.round(head.getBoundingClientRect().top)") == 0
        names = boxes(desk, ".matrix .head > div")
        assert [round(box["left"]) for box in names] == [round(box["left"]) for box in plates[:9]]
    else:  # each map has its name over it
        expect(page.locator(".matrix .line").last.locator(".caption").nth(3)).to_be_visible()
        expect(page.locator(".matrix .line").last.locator(".caption").nth(3)).to_have_text(prompts[3])


def test_no_prompt_says_what_to_send(desk: Visit) -> None:
    desk.open("/prompt?methods=random")
    before = desk.page.url
    for field in desk.page.get_by_role("textbox", name="Prompt").all():
        field.fill(" ")
    desk.page.get_by_role("button", name="Look for these").click()
    expect(desk.page.locator("#input-problem [role=alert]")).to_contain_text("prompt")
    assert desk.page.url == before
    expect(desk.page.locator('.plate:not([data-state="done"])')).to_have_count(0)
    desk.refused(422)


def test_a_link_opens_the_same_prompts_again(desk: Visit) -> None:
    desk.open(f"/prompt?{FEW}")
    document = desk.document()
    desk.page.reload()
    desk.maps()
    assert desk.id == document["id"]
    check_matrix(desk, document)


def test_a_phone(phone: Visit) -> None:
    phone.open(f"/prompt?{FEW}")
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") == 390
    first, second = (phone.page.locator(".matrix .plate").nth(i).bounding_box() for i in (0, 1))
    assert first is not None
    assert second is not None
    assert first["x"] + first["width"] < second["x"]  # two prompts side by side
    assert second["x"] + second["width"] <= 390


def test_what_was_found_of_other_words_is_not_said_of_new_ones(desk: Visit) -> None:
    page = desk.open("/prompt?methods=random")
    field, likeness = page.get_by_role("textbox", name="Prompt").first, page.locator(".entry .likeness").first
    said, words = likeness.text_content(), field.input_value()
    assert said is not None
    assert "cosine" in said
    field.fill("green grass")
    expect(likeness).to_have_text("")
    field.fill(words)
    expect(likeness).to_have_text(said)
