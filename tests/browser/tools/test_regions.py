"""Many prompts at once on the Prompt page: who wins each patch, the words of the prompts, and the list of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import expect

from tests.browser.support.number_format import colour_ends, percent, shown_score
from tests.browser.support.visit import Visit

SIGNED, UNSIGNED = "xgradcam_plus:libra", "generic_attention"
FEW = f"methods=raw_attention&methods={SIGNED}&methods={UNSIGNED}"
PROMPTS = ["a photo of a strawberry", "a photo of a banana", "a photo of an apple"]
ASKED = "&".join(f"prompt={prompt}" for prompt in PROMPTS)
LETTERS = "ABCDEFGH"
# The colour in the middle of the left edge of each patch, where no letter stands.
PAINTED = """
([rows, columns]) => {
  const shown = document.querySelector(".painting canvas");
  const context = new OffscreenCanvas(shown.width, shown.height).getContext("2d", { willReadFrequently: true });
  context.drawImage(shown, 0, 0);
  return Array.from({ length: rows * columns }, (_, i) => {
    const y = ((Math.floor(i / columns) + 0.5) / rows) * shown.height, x = ((i % columns) / columns) * shown.width + 2;
    return [...context.getImageData(Math.round(x), Math.round(y), 1, 1).data].slice(0, 3);
  });
}
"""


def lists(document: dict[str, Any], spec: str) -> NDArray[np.float64]:
    """(prompts, patches): the maps of a method on one unit."""
    maps = [attribution for attribution in document["maps"] if attribution["method"] == spec]
    scores = np.array([attribution["scores"] for attribution in maps])
    return scores if maps[0]["signed"] else scores / np.abs(scores).sum(1, keepdims=True)


def won(document: dict[str, Any], spec: str, none: float) -> NDArray[np.int64]:
    """The winner of each patch, -1 where there is none."""
    scores = lists(document, spec)
    return np.where(scores.max(0) > max(0.0, none * scores.max()), scores.argmax(0), -1)


def check_shares(desk: Visit, document: dict[str, Any], spec: str, none: float, prompts: Sequence[str] = PROMPTS) -> NDArray[np.int64]:
    winners = won(document, spec, none)
    for i, prompt in enumerate([*prompts, "none"]):
        share = float((winners == (i if prompt != "none" else -1)).mean())
        expect(desk.page.locator(".legend li").nth(i)).to_have_text(
            f"{LETTERS[i] if prompt != 'none' else ''}{prompt}area {percent(share)}"
        )
    return winners


def check_regions(desk: Visit, winners: NDArray[np.int64]) -> None:
    """The boxes and the mask that can be taken away are those of what is painted."""
    boxes, mask = (desk.page.locator(".painting").get_by_role("link", name=name) for name in ("boxes", "mask"))
    regions = desk.get(boxes.get_attribute("href"))
    assert (regions["method"], regions["threshold"]) == (UNSIGNED, 0.3)
    assert [label["patches"] for label in regions["labels"]] == [int((winners == i).sum()) for i in range(len(PROMPTS))]
    swatches = desk.page.locator(".legend .swatch:not(.none)").evaluate_all(
        "(nodes) => nodes.map((node) => node.style.getPropertyValue('--c'))"
    )
    assert swatches == [f"rgb({' '.join(map(str, label['colour']))})" for label in regions["labels"]]
    with desk.page.expect_download() as download:
        mask.click()
    assert download.value.suggested_filename.endswith(".png")
    with Image.open(download.value.path()) as picture:
        assert picture.mode == "P"
    desk.page.locator("#export summary").click()
    expect(desk.page.locator("#export").get_by_role("link", name="boxes")).to_have_attribute("href", boxes.get_attribute("href"))
    desk.page.keyboard.press("Escape")


@pytest.mark.trained
def test_every_patch_is_won_by_the_prompt_with_the_largest_score(desk: Visit) -> None:
    desk.open(f"/prompt?sample=fruit-prompts&grid=patches&{FEW}&{ASKED}")
    expect(desk.page.locator(".painting [data-drawn=true]")).to_be_visible()
    document = desk.document()
    assert [target["label"] for target in document["targets"]] == PROMPTS
    methods = desk.page.locator("#regions-method")
    expect(methods).to_have_value(SIGNED)
    specific = {attribution["method"] for attribution in document["maps"] if attribution["class_specific"]}
    assert set(methods.locator("option").evaluate_all("(nodes) => nodes.map((node) => node.value)")) == specific
    winners = check_shares(desk, document, SIGNED, 0.05)
    assert len(set(winners.tolist())) > 2
    painted = np.array(desk.page.evaluate(PAINTED, document["maps"][0]["grid"]), float)
    grey = np.ptp(painted, axis=1) < 3
    np.testing.assert_array_equal(grey, winners == -1)
    hues = [np.median(painted[winners == i] - painted[winners == i].mean(1, keepdims=True), axis=0) for i in range(2)]
    assert hues[0][0] > 20 > -20 > hues[0][2]  # A is orange
    assert hues[1][2] > 20 > -20 > hues[1][0]  # B is sky blue

    desk.page.get_by_label("None below").fill("30")
    assert desk.query["threshold"] == ["30"]
    check_shares(desk, document, SIGNED, 0.3)
    methods.select_option(UNSIGNED)
    assert desk.query["regions"] == [UNSIGNED]
    winners = check_shares(desk, document, UNSIGNED, 0.3)

    check_regions(desk, winners)

    map_canvas = desk.page.locator(".painting .map-canvas")
    map_canvas.focus()
    map_canvas.press("Home")
    patch = int(desk.query["focus"][0])
    scores = lists(document, UNSIGNED)
    assert patch == int(np.argmax(np.where(winners == -1, scores[0], scores.max(0))))
    expect(map_canvas.locator(".value")).to_have_text(f"{LETTERS[winners[patch]]} {shown_score(scores[winners[patch], patch], False)}")
    order = np.argsort(-scores[:, patch], kind="stable")
    scores_shown = ", ".join(f"{LETTERS[i]} {shown_score(scores[i, patch], False)}" for i in order)
    expect(desk.page.locator(".painting .side [role=status]")).to_contain_text(scores_shown)

    desk.page.reload()
    desk.maps()
    expect(desk.page.locator(".painting [data-drawn=true]")).to_be_visible()
    expect(methods).to_have_value(UNSIGNED)
    check_shares(desk, document, UNSIGNED, 0.3)
    moved, what = desk.shift()
    assert moved < 0.01, what


def test_the_recommended_method_is_compared_unless_another_is_chosen(desk: Visit) -> None:
    better = "clip_decomposition"  # its plates come before those of MaskCLIP
    desk.open(f"/prompt?methods=maskclip&methods={better}&{ASKED}")
    painting = desk.page.locator(".painting")
    method, none = painting.locator("#regions-method"), painting.get_by_label("None below")
    expect(method).to_have_value(better)
    check_shares(desk, desk.document(), better, 0.05)
    method.select_option("maskclip")
    expect(none).to_have_value("40")  # cosines are above zero almost everywhere
    assert desk.query["regions"] == ["maskclip"]
    check_shares(desk, desk.document(), "maskclip", 0.4)
    method.select_option(better)
    expect(none).to_have_value("5")


@pytest.mark.trained
def test_a_prompt_that_was_not_found_or_cannot_be_read_wins_nothing_and_its_maps_are_pale(desk: Visit) -> None:
    prompts = ["a cat", "a fridge", "qwertz asdf", "eine Katze", "a plate"]
    asked = "&".join(f"prompt={prompt}" for prompt in prompts)
    page = desk.open(f"/prompt?sample=photo-cat-coffee-prompts&grid=patches&methods={SIGNED}&{asked}")
    document = desk.document()
    kinds = [(target.get("abstention") or {}).get("kind") for target in document["targets"]]
    assert kinds == [None, "not_in_picture", "untaught", "unreadable_language", "perhaps_in_picture"]
    scores = lists(document, SIGNED)[0]
    share = float((scores > max(0.0, 0.05 * scores.max())).mean())
    # what is found alone wins wherever its map is above the threshold, also where nothing of it is
    expect(page.locator(".legend li").first).to_have_text("Aa cat")
    expect(page.locator(".legend li").last).to_have_text("none")
    says = {"not_in_picture": "not found", "perhaps_in_picture": "perhaps"}
    for i, target in enumerate(document["targets"][1:], 1):
        said = says.get(target["abstention"]["kind"], target["abstention"]["says"])
        expect(page.locator(".legend li").nth(i)).to_have_text(f"{LETTERS[i]}{target['label']}{said}")
    regions = desk.get(f"/api/explanations/{document['id']}/regions?method={SIGNED}")
    assert [label["patches"] for label in regions["labels"]] == [round(share * scores.size), 0, 0, 0, 0]
    overview = page.locator("#overview")
    expect(overview).to_contain_text(
        "It found “a cat”. It is not sure of “a plate”. It did not find “a fridge”. It cannot judge “qwertz asdf” or “eine Katze”."
    )
    pale = page.locator(".line:not(.head) .plate:not(.difference)").evaluate_all(
        "(plates) => plates.map((plate) => Number(getComputedStyle(plate.querySelector('canvas')).opacity))"
    )
    assert [value < 0.5 for value in pale] == [False, True, True, True, False]  # it may be there


@pytest.mark.trained
def test_the_painting_never_covers_the_tools_below_the_maps(desk: Visit) -> None:
    desk.page.set_viewport_size({"width": 1440, "height": 900})
    page = desk.open(f"/prompt?sample=photo-coffee-prompts&prompt=a saucer&prompt=a gorilla&methods={SIGNED}", folded=True)
    desk.document()
    page.evaluate("() => scrollTo(0, document.documentElement.scrollHeight)")
    painting = page.locator(".painting .take").bounding_box()
    tool = page.locator("#drawers").bounding_box()
    assert painting is not None
    assert tool is not None
    assert painting["y"] + painting["height"] <= tool["y"]


def test_a_map_that_compares_two_prompts_is_drawn_once(desk: Visit) -> None:
    spec = "maskclip?less=prompts"
    a, b = PROMPTS[:2]
    page = desk.open(f"/prompt?methods={quote(spec)}&methods=maskclip&prompt={a}&prompt={b}")
    row = page.locator(f'.line[data-row="{spec}"]')
    expect(row.locator(".plate")).to_have_count(1)
    expect(row.locator(".badge")).to_have_count(0)
    expect(page.locator(".matrix .head .name").last).to_have_text(f"{a} rather than {b}")
    expect(page.locator('.line[data-row="maskclip"] .plate')).to_have_count(3)
    expect(row.locator(".standing")).to_have_text("not measured")
    options = page.locator("#regions-method option").evaluate_all("(all) => all.map((one) => one.value)")
    assert options == ["maskclip"]
    page.locator(f'.line[data-row="{spec}"] .map-canvas').focus()
    page.keyboard.press("Home")
    patch = int(desk.query["focus"][0])
    first, second = lists(desk.document(), spec)
    assert patch == int(np.argmax(np.abs(first - second)))
    expect(row.locator(".value")).to_have_text(shown_score(first[patch] - second[patch], True))


def test_lines_that_are_pasted_are_prompts_and_a_ready_set_is_taken(desk: Visit) -> None:
    desk.open("/prompt?methods=random")
    first = desk.document()
    labels = [target["label"] for target in first["targets"]]
    lines = [*labels, "a photo of a spoon", "a drawing of a lighthouse"]
    assert len(set(lines)) == len(lines)
    desk.page.get_by_role("textbox", name="Prompt").first.evaluate(
        """(field, text) => {
          const carried = new DataTransfer();
          carried.setData("text", text);
          field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: carried, bubbles: true, cancelable: true }));
        }""",
        "\r\n".join([*lines, labels[0], ""]),  # what is in the list already is not added again
    )
    fields = desk.page.get_by_role("textbox", name="Prompt")
    assert [field.input_value() for field in fields.all()] == lines
    desk.page.get_by_role("button", name="Look for these").click()
    desk.next_maps(first["id"])
    second = desk.document()
    assert [target["label"] for target in second["targets"]] == lines
    shown = desk.page.locator("#samples [aria-pressed=true]").get_attribute("data-id")
    sample = next(sample for sample in desk.get("/api/samples")["samples"] if (sample["kind"], sample["id"]) == ("clip", shown))
    wanted = next(ready for ready in sample["sets"] if ready["prompts"] != labels)
    desk.page.get_by_role("button", name=wanted["name"]).click()
    desk.next_maps(second["id"])
    assert [target["label"] for target in desk.document()["targets"]] == wanted["prompts"]


def test_the_words_of_the_prompts(desk: Visit) -> None:
    desk.open(f"/prompt?{FEW}")
    first = desk.document()
    desk.page.get_by_label("Look at").select_option("text")
    desk.next_maps(first["id"])
    document = desk.document()
    expect(desk.page.locator("#question")).to_contain_text("Which words counted in")
    expect(desk.page.locator(".regions")).to_be_hidden()
    read = {prompt["prompt"]: prompt for prompt in document["prompts"]}
    assert list(read) == [target["label"] for target in first["targets"]]

    def check() -> None:
        for attribution in document["maps"]:
            plate = desk.plate(attribution["method"]).nth(list(read).index(attribution["target"]))
            words = read[attribution["target"]]["words"]
            merge = np.sum if attribution["signed"] else np.max
            scores = np.array([merge([attribution["scores"][i] for i in word["tokens"]]) for word in words])
            low, high = colour_ends(scores, attribution["signed"])
            start = 0.0 if attribution["signed"] else low
            drawn = plate.locator("[data-w]")
            assert drawn.all_inner_texts() == [word["text"] for word in words]
            depth = drawn.evaluate_all("(all) => all.map((word) => Number(word.style.getPropertyValue('--a')))")
            span = high - start or np.inf  # attention alike to every word: nothing stands out
            np.testing.assert_allclose(depth, np.abs(np.clip((scores - start) / span, -1 if attribution["signed"] else 0, 1)), atol=0.002)

    check()
    desk.page.reload()
    desk.maps()
    assert desk.id == document["id"]
    expect(desk.page.get_by_label("Look at")).to_have_value("text")
    check()
    desk.page.get_by_label("Look at").select_option("image")
    desk.next_maps(document["id"])
    assert "prompts" not in desk.document()
    expect(desk.page.locator(".matrix .map-canvas").first).to_be_visible()


def test_the_share_is_explained_in_place_of_the_logit(desk: Visit) -> None:
    desk.open(f"/prompt?methods={SIGNED}")
    before = desk.id
    desk.page.get_by_label("What is explained").select_option("probability")
    desk.next_maps(before)
    targets = desk.document()["targets"]
    assert [target["read"] for target in targets] == ["probability"] * 2
    expect(desk.page.locator(".difference .take")).to_have_text("in the unit of the probability")


def test_letters_tell_prompts_apart_without_colour(desk: Visit) -> None:
    """The palette: every pair of the eight colours differs for people without red or green cones, in hue or at least in lightness."""
    page = desk.open("/history", maps=False)
    colours = np.array(page.evaluate("() => script('tools/regions.js').then(({ COLOURS }) => COLOURS)")) / 255
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    # Viénot, Brettel and Mollon 1999: protanopia, deuteranopia
    for blind in (
        [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
        [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
    ):
        shown = np.cbrt(np.clip(linear @ np.array(blind).T, 0, 1))
        apart = np.linalg.norm(shown[:, None] - shown[None], axis=-1)[np.triu_indices(len(colours), 1)]
        assert apart.min() > 0.08


def test_a_phone(phone: Visit) -> None:
    phone.open(f"/prompt?methods={SIGNED}&regions={SIGNED}")
    expect(phone.page.locator(".painting [data-drawn=true]")).to_be_visible()
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") == 390
