"""The address bar is the state: a link that is copied shows the same in a browser that has never been here."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as TooLate

from tests.browser.support.visit import Visit, view, visit

PATIENCE = 120_000.0
# What can be set on a page and what is set, and the text of all that can be opened.
STATE_ON_SHOW = """
() => {
  const found = {};
  const settings =
    "#main :is(input:not([type=file], #other-class, #other-word, .why input), select, details:not(.menu), [aria-pressed], [aria-sort])";
  const told = (node) => node.innerText.replace(/[\\d.]+ m?s\\b/g, ""); // how long it took
  const nameOf = (node) => node.id || node.name || node.dataset.spec || node.getAttribute("aria-label") || node.textContent;
  for (const node of document.querySelectorAll(settings)) {
    if (node.closest("#samples")) continue; // a link leads to what was made of a sample, and not to the sample
    const kind = node.tagName === "INPUT" || node.tagName === "SELECT";
    const state = node.type === "radio" || node.type === "checkbox" ? node.checked : kind ? node.value : node.open;
    let name = [node.closest("[id]:not(main)")?.id, nameOf(node), node.type === "radio" ? node.value : ""].join(" ");
    while (name in found) name += "'";
    found[name] = `${state} ${node.getAttribute("aria-pressed")} ${node.getAttribute("aria-sort")} ${node.hidden}`;
  }
  for (const place of document.querySelectorAll(".drawer .body, #curves, #edits, #deletion-bar, .regions, .pairing")) {
    found[place.closest("[id]").id + " " + place.className] = told(place);
  }
  for (const plate of document.querySelectorAll(".plate")) {
    let name = `plate ${plate.dataset.spec}`;
    while (name in found) name += "'";
    found[name] = told(plate);
  }
  return found;
}
"""


def same_elsewhere(desk: Visit, browser: Browser) -> None:
    """A link to what is on show, opened in a profile of its own, shows that."""
    page = desk.page
    page.evaluate("() => document.activeElement.blur()")
    page.mouse.move(0, 0)
    before = page.evaluate(STATE_ON_SHOW)
    link = page.url.removeprefix(desk.address)
    for other in visit(browser, desk.address):
        other.open(link)
        equal = f"(before) => {{ const now = ({STATE_ON_SHOW})(); return JSON.stringify(now) === JSON.stringify(before); }}"
        try:
            other.page.wait_for_function(equal, arg=before, polling=200, timeout=PATIENCE)
        except TooLate:
            assert other.page.evaluate(STATE_ON_SHOW) == before
        assert other.page.url == page.url  # and what is there leads to the same again


def drawer(page: Page, name: str) -> None:
    tool = page.locator(f"#drawer-{name}")
    tool.locator("summary").first.click()
    ready = {"mixer": ".numbers[aria-busy=false]", "layers": ".sums button", "wordtable": "tbody tr", "disagree": "tbody tr"}
    expect(tool.locator(ready.get(name, "form option")).first).to_be_attached(timeout=PATIENCE)


def mixer(page: Page) -> None:
    drawer(page, "mixer")
    tool = page.locator("#drawer-mixer")
    tool.get_by_label("Method", exact=True).select_option("gradcam_plus")
    tool.get_by_label("Start from").select_option("attnlrp")
    tool.locator("[data-kind=norm]").get_by_role("radio", name="derivative").check()
    tool.locator("[data-kind=activation]").get_by_role("radio", name="unchanged").check()
    expect(tool.locator("fieldset.changed")).to_have_count(2)
    expect(tool.locator("[aria-busy=true]")).to_have_count(0, timeout=PATIENCE)


def heads(page: Page) -> None:
    drawer(page, "layers")
    tool = page.locator("#drawer-layers")
    tool.get_by_role("radio", name="gradient", exact=True).check()
    together = tool.locator(".sums p")
    before = together.inner_text()
    tool.get_by_label("Method").select_option("gradcam_plus")
    expect(together).not_to_have_text(before, timeout=PATIENCE)
    expect(tool.locator(".large .caption")).to_contain_text("gradient", timeout=PATIENCE)
    tool.locator('.heads button[data-block="1"][data-head="0"]').click()
    expect(tool.locator(".large .caption")).to_contain_text("Block 2, head 1")


def held(page: Page) -> None:
    """Attention from a patch that is held, and what one block adds."""
    drawer(page, "layers")
    tool = page.locator("#drawer-layers")
    expect(tool.locator(".origin")).to_contain_text("which the answer is read from", timeout=PATIENCE)
    page.locator(".plate .map-canvas, .plate .reading").first.focus()
    page.keyboard.press("Home")
    tool.get_by_role("radio", name="the held").check()
    expect(tool.locator(".origin")).not_to_contain_text("which the answer is read from", timeout=PATIENCE)
    tool.locator(".sums button").first.click()
    expect(tool.locator(".large .caption")).to_contain_text("adds")


def deletion(page: Page) -> None:
    """The deletion bar opened, the slider left at none."""
    page.locator("#removed").focus()
    expect(page.locator(".said")).to_contain_text("shares measured", timeout=PATIENCE)
    page.locator(".ranks button").nth(1).click()
    if page.get_by_label("Curves of").is_visible():
        page.get_by_label("Curves of").select_option(index=1)


def looks(page: Page) -> None:
    """Every control over the plates."""
    with view(page):
        page.get_by_role("radio", name="for", exact=True).check()
        page.locator("#controls").get_by_role("radio", name="shared").check()
        for name, value in (("Smoothing", "bicubic"), ("For, against", "orange-purple"), ("Strength", "viridis")):
            page.locator("#controls").get_by_label(name).select_option(value)
        page.get_by_label("Opacity").fill("55")
        page.get_by_label("Lens").uncheck()
        page.get_by_role("radio", name="yes").check()
    page.get_by_role("radio", name="original").check()


def beside(page: Page) -> None:
    """Two more classes, and the difference of two of them the other way round."""
    for _ in range(2):
        before = page.url
        page.locator(".tick input:not(:checked)").first.check()
        page.wait_for_function(
            "(before) => location.href !== before && / in /.test(document.getElementById('status').textContent)", arg=before
        )
    page.get_by_label("Difference: this one").select_option("2")


def painted(page: Page) -> None:
    expect(page.locator(".painting [data-drawn=true]")).to_be_visible()
    page.locator("#regions-method").select_option("gradcam_plus")
    page.get_by_label("None below").fill("20")


def words(page: Page) -> None:
    drawer(page, "wordtable")
    tool = page.locator("#drawer-wordtable")
    for _ in range(2):
        tool.locator("thead button").nth(2).click()
    with view(page):
        page.get_by_role("radio", name="pieces").check()
    drawer(page, "disagree")
    page.locator("#disagree-first").select_option(index=2)


def in_place(page: Page) -> None:
    drawer(page, "wordtable")
    page.locator("#drawer-wordtable thead").get_by_role("button", name="place").click()


def edits(page: Page) -> None:
    page.get_by_role("button", name="Remove words").click()
    tool = page.locator("#edits")
    for word in (1, 4):
        tool.locator(".word").nth(word).click()
    tool.locator(".word").nth(2).focus()
    tool.locator("#other-word").fill("tea & cake, 100 %")
    page.keyboard.press("Enter")
    tool.locator(".word").nth(0).focus()
    expect(tool).to_have_attribute("data-edited", "3", timeout=PATIENCE)


def probe(page: Page) -> None:
    drawer(page, "probe")
    tool = page.locator("#drawer-probe")
    tool.get_by_label("Sentence").fill("{} saw it; a & b = c.")
    tool.get_by_label("Words of list 1").fill("Maria, Anna")
    tool.get_by_label("Compare the score of").select_option(index=1)
    tool.get_by_role("button", name="Swap the words").click()
    expect(tool.locator(".found table")).to_be_visible(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("/image?model=scenes-vit&methods=random", [looks, mixer, heads]),
        ("/image?model=scenes-vit&methods=random", [beside, held]),
        ("/prompt?methods=gradcam_plus", [painted]),
        ("/prompt?side=text&methods=random&methods=rollout", [deletion]),
        ("/text?methods=random&methods=fullgrad_plus:libra&methods=gradcam_plus", [words, edits, probe]),
        ("/text?methods=random", [in_place, held]),
    ],
    ids=["a picture", "classes", "prompts", "words of prompts", "a text", "a held word"],
)
def test_a_link_shows_the_same_elsewhere(desk: Visit, browser: Browser, path: str, steps: list[Callable[[Page], None]]) -> None:
    desk.open(path)
    for step in steps:
        step(desk.page)
    same_elsewhere(desk, browser)


def test_what_is_closed_is_not_in_the_address_nor_are_edits_of_another_text(desk: Visit) -> None:
    page = desk.open("/text?methods=random")
    mixer(page)
    assert desk.query["mixer.norm"] == ["jacobian"]
    page.locator("#drawer-mixer summary").click()
    page.wait_for_function("() => !/mixer/.test(location.search)")
    edits(page)
    assert desk.query["edits.removed"] == ["1 4"]
    before = desk.id
    page.locator("#text").fill("Warm, short, good, and all of it is new.")
    page.get_by_role("button", name="Explain this review").click()
    desk.next_maps(before)
    assert "edits.removed" not in desk.query
    assert desk.query["open"] == ["edits"]


@pytest.mark.trained
def test_an_address_that_makes_no_sense_shows_what_can_be_shown(desk: Visit) -> None:
    document = desk.explained(model="reviews-bert", text="Warm, short, good, and all of it is new.", methods=["random"])
    wrong = {
        "mixer.method": "nothing",
        "mixer.start": "x",
        "mixer.norm": "x",
        "layers.show": "x",
        "layers.block": "99",
        "layers.head": "77",
        "layers.method": "x",
        "wordtable.sort": "x",
        "disagree.first": "x",
        "edits.removed": "1 x -3 900",
        "edits.replaced": "%&77=a",
        "deletion.picked": "x",
    }
    opened = ["mixer", "layers", "wordtable", "disagree", "edits", "deletion", "nothing", "constructor"]
    link = "/text?" + urlencode([("id", document["id"]), *(("open", name) for name in opened), *wrong.items()])
    page = desk.open(link)
    expect(page.locator("#drawer-mixer .numbers[aria-busy=false]")).to_be_attached(timeout=PATIENCE)
    expect(page.locator("#drawer-layers .heads [aria-pressed=true]")).to_have_count(1, timeout=PATIENCE)
    expect(page.locator("#drawer-wordtable tbody tr").first).to_be_visible()
    expect(page.locator("#edits .word[aria-pressed=true]")).to_have_count(1)
    assert "nothing" not in desk.query["open"]
    assert "fullgrad_plus" in desk.query["mixer.method"]
