"""Help: the keys, the guided visit, and the maps told in words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.support.accessibility import no_violation, no_violation_anywhere
from tests.browser.support.number_format import percent, shown_score
from tests.browser.support.serving import VISITED, wait_for_maps
from tests.browser.support.visit import Visit, view, visit
from tests.browser.support.word_scores import word_scores

UPPER, MIDDLE = ("in the upper left", "at the top", "in the upper right"), ("at the left", "in the centre", "at the right")
NINTHS = (*UPPER, *MIDDLE, "in the lower left", "at the bottom", "in the lower right")


@pytest.fixture
def first(browser: Browser, address: str) -> Iterator[Visit]:
    """Somebody who has never been here."""
    yield from visit(browser, address, first=True)


def test_the_keys_are_listed_on_every_page(desk: Visit) -> None:
    for path in ("/models", "/text"):
        page = desk.open(path, maps=False)
        help_ = page.get_by_role("dialog", name="Help")
        expect(help_).to_have_count(0)
        page.keyboard.press("Shift+?")
        expect(help_).to_be_visible()
        keys = "async () => (await script('help/keyhelp.js')).KEYS"
        listed = [does for _, rows in page.evaluate(keys) for _, does in rows]
        expect(help_.locator("dd")).to_have_text(listed)
        if path == "/models":
            no_violation(page)
        page.keyboard.press("Escape")
        expect(help_).to_be_hidden()
    field = page.get_by_label("The review to explain")
    expect(field).not_to_have_value("")  # the sample comes once the page is open
    field.fill("")
    field.press_sequentially("Why?")
    expect(field).to_have_value("Why?")
    expect(help_).to_be_hidden()
    page.get_by_role("button", name="Help").click()
    help_.get_by_role("button", name="Close").click()
    expect(page.get_by_role("button", name="Help")).to_be_focused()


def test_the_guided_visit_is_offered_once(first: Visit) -> None:
    page = first.open("/image?model=scenes-vit&methods=rollout&methods=fullgrad_plus:libra")
    card, offer = page.locator(".visit"), page.get_by_role("region", name="Is this your first visit?")
    expect(card).to_have_count(0)
    above, main = offer.bounding_box(), page.locator("main").bounding_box()
    assert above is not None
    assert main is not None
    assert above["y"] + above["height"] <= main["y"]  # it covers nothing of the page
    no_violation(page)
    page.keyboard.press("Tab")  # past the skip link
    while page.evaluate("() => document.activeElement.textContent") != "Show me around":
        assert page.evaluate("() => Boolean(document.activeElement.closest('header, .skip'))")
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    seen = []
    for step in range(1, 6):
        expect(card).to_contain_text(f"Step {step} of 5")
        outlined = page.locator(".visited")
        expect(outlined).to_have_count(1)
        expect(outlined).to_be_in_viewport()
        seen.append(outlined.evaluate("(node) => [node.id, node.className, node.dataset.spec].join(' ')"))
        if step == 2:
            no_violation(page)
        card.get_by_role("button", name="Next" if step < 5 else "Done").click()
    assert len(set(seen)) == 5
    expect(card).to_have_count(0)
    expect(page.locator(".visited")).to_have_count(0)
    page.reload()
    first.maps()
    expect(card).to_have_count(0)
    expect(offer).to_have_count(0)


OVERLAP = """() => {
  const [card, part] = [".visit", ".visited"].map((name) => document.querySelector(name).getBoundingClientRect());
  const across = Math.min(card.right, part.right) - Math.max(card.left, part.left);
  const down = Math.min(card.bottom, part.bottom) - Math.max(card.top, part.top);
  return across > 0 && down > 0;
}"""


@pytest.mark.trained
@pytest.mark.parametrize(("width", "sample"), [(1440, "photo-coffee"), (390, "photo-cat")])
def test_the_visit_quotes_the_answer_on_the_page_covers_nothing_of_it_and_ends_with_a_task(first: Visit, width: int, sample: str) -> None:
    page = first.page
    page.set_viewport_size({"width": width, "height": 844 if width == 390 else 900})
    page.emulate_media(reduced_motion="reduce")  # so that it is at its place at once
    first.open(f"/image?sample={sample}", folded=True)
    document = first.document()
    answer = document["top"][0]
    signed = {attribution["method"]: attribution["signed"] for attribution in document["maps"]}
    page.locator("#help").click()
    page.get_by_role("button", name="Guided visit").click()
    card, text = page.locator(".visit"), page.locator(".visit > p").first
    for step in range(1, 6):
        expect(card).to_contain_text(f"Step {step} of 5")
        expect(page.locator(".visited")).to_be_in_viewport(ratio=1)
        assert not page.evaluate(OVERLAP), step
        no_violation(page)
        if step == 1:
            expect(text).to_contain_text(f"The maps explain “{answer['label']}”, to which it gives {percent(answer['probability'])}.")
        if step == 2:
            plate = page.locator(".plate.visited")
            shows = f"what speaks for “{answer['label']}” in red" if signed[plate.get_attribute("data-spec") or ""] else "strength alone"
            expect(text).to_contain_text(f"{plate.locator('h2').inner_text()} shows {shows}")
        if step < 5:
            card.get_by_role("button", name="Next").click()
    expect(text).to_contain_text("Take away what a map marks: does the answer fall?")
    slider = page.locator("#removed")
    slider.focus()
    slider.press("ArrowRight")
    after = page.locator(".plate .facts.after").first
    expect(after).to_be_in_viewport(ratio=1)
    assert not page.evaluate(OVERLAP)
    expect(after).to_contain_text("without these", timeout=60_000)
    expect(after).not_to_contain_text("not asked", timeout=60_000)
    covered = after.evaluate(
        "(node) => node.getBoundingClientRect().bottom > document.querySelector('.visit').getBoundingClientRect().top && "
        "node.getBoundingClientRect().right > document.querySelector('.visit').getBoundingClientRect().left"
    )
    assert not covered


COVERED = """(names) => {
  const card = document.querySelector(".visit").getBoundingClientRect();
  return names.filter((name) => [...document.querySelectorAll(name)].some((node) => {
    const box = node.getBoundingClientRect();
    const across = Math.min(card.right, box.right) - Math.max(card.left, box.left);
    return across > 0 && Math.min(card.bottom, box.bottom) - Math.max(card.top, box.top) > 0;
  }));
}"""


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1024, 768), (1800, 1000), (390, 844)])
def test_the_card_of_the_last_step_covers_nothing_of_the_curves_that_it_names(desk: Visit, width: int, height: int) -> None:
    page = desk.page
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(reduced_motion="reduce")
    desk.open("/image?model=scenes-vit&methods=rollout&methods=fullgrad_plus:libra", folded=True)
    page.keyboard.press("Shift+?")
    page.get_by_role("button", name="Guided visit").click()
    card = page.locator(".visit")
    for _ in range(4):
        card.get_by_role("button", name="Next").click()
    expect(card).to_contain_text("press Curves: the dashed line, “random baseline”")
    page.locator("#removed").fill("20")
    expect(page.locator(".said")).to_contain_text("shares measured", timeout=60_000)
    assert page.evaluate(COVERED, ["#removed", ".deletion-bar .act", ".deletion-bar .seg"]) == []
    page.get_by_role("button", name="Curves").click()  # which Playwright does only where nothing covers it
    expect(page.locator(".panels .baseline .end").first).to_have_text("random baseline")
    expect(page.locator(".panels .baseline .end").first).to_be_in_viewport()
    if width > 760:
        assert page.evaluate(COVERED, [".panels", ".ranks", ".plate"]) == []
    else:
        assert page.evaluate(COVERED, [".panels svg:first-child"]) == []
        page.locator(".ranks .baseline").evaluate("(row) => row.scrollIntoView({ block: 'center' })")
        assert page.evaluate(COVERED, [".ranks .baseline"]) == []


def test_the_visit_quotes_no_share_where_the_model_gives_none(desk: Visit) -> None:
    page = desk.open("/image?model=scenes-vit&methods=random", folded=True)
    page.locator("#classes [aria-pressed=true] .num").evaluate("(node) => (node.textContent = 'value 0.31')")
    page.locator("#help").click()
    page.get_by_role("button", name="Guided visit").click()
    expect(page.locator(".visit")).to_contain_text("The maps explain “")
    expect(page.locator(".visit")).not_to_contain_text("to which it gives")


@pytest.mark.parametrize("path", ["/models", "/collection"])
def test_help_says_what_can_be_done_on_pages_of_many_inputs(desk: Visit, path: str) -> None:
    page = desk.open(path, maps=False)
    page.get_by_role("button", name="Help").click()
    help_ = page.get_by_role("dialog", name="Help")
    expect(help_.get_by_role("heading", name="On Collection")).to_be_visible()
    expect(help_.get_by_role("heading", name="On the slices of a collection")).to_be_visible()
    link = page.locator("#slices").text_content() if path == "/collection" else "What rows have in common"
    expect(help_).to_contain_text(f"“{link}” on Collection leads there")
    no_violation_anywhere(page)


@pytest.mark.parametrize("width", [390, 1440])
def test_the_offer_that_was_closed_stays_closed(first: Visit, width: int) -> None:
    page = first.page
    page.set_viewport_size({"width": width, "height": 844})
    first.open("/image?model=scenes-vit&methods=random")
    offer = page.get_by_role("region", name="Is this your first visit?")
    expect(offer).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    page.get_by_role("button", name="No, thanks").click()
    expect(offer).to_have_count(0)
    before = first.id
    page.locator("#samples button").nth(1).click()
    first.next_maps(before)
    expect(offer).to_have_count(0)
    for path in ("/prompt?", "/image?model=scenes-vit&"):
        first.open(f"{path}methods=random")
        expect(offer).to_have_count(0)
    page.go_back()
    page.go_back()
    first.maps()
    expect(offer).to_have_count(0)


def test_the_guided_visit_can_be_left_and_found_again(desk: Visit) -> None:
    page = desk.open("/models", maps=False)
    card = page.locator(".visit")
    page.get_by_role("button", name="Help").click()
    page.get_by_role("link", name="Guided visit").click()
    expect(card).to_contain_text("Step 1 of 5")
    expect(card).to_be_focused()
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    desk.maps()
    page.keyboard.press("Shift+?")
    page.get_by_role("button", name="Guided visit").click()
    expect(card).to_contain_text("Step 1 of 5")


def ninths(weights: Any) -> Any:
    """The share of a grid of weights in each ninth of it."""
    rows, columns = weights.shape
    sums = np.zeros((3, 3))
    for (row, column), weight in np.ndenumerate(weights):
        sums[int(3 * (row + 0.5) / rows), int(3 * (column + 0.5) / columns)] += weight
    return sums.ravel() / sums.sum()


def check_picture(text: str, attribution: dict[str, Any]) -> None:
    scores = np.array(attribution["scores"]).reshape(attribution["grid"])
    best = int(np.abs(scores).argmax())
    where = f"row {best // attribution['grid'][1] + 1}, column {best % attribution['grid'][1] + 1}, "
    assert f"The strongest patch is {where}{shown_score(float(scores.flat[best]), attribution['signed'])}." in text
    weights = scores.clip(0)
    shares = ninths(weights)
    share = percent(float(shares.max()))
    what = f"evidence for {attribution['target']}" if attribution["signed"] else "strength"
    if shares.max() < 0.2:
        assert text.startswith(f"The {what} is spread over the picture;")
    else:
        assert text.startswith(f"{share} of the {what} lies {NINTHS[int(shares.argmax())]};")
    count = int(np.argmax(np.cumsum(np.sort(weights.ravel())[::-1]) >= weights.sum() / 2)) + 1
    assert f"half of it in {count} of {scores.size} patches." in text
    against = -scores.clip(None, 0)
    part = against.sum() / np.abs(scores).sum()
    said = re.search(r"([\d.]+)\u2009% of all evidence speaks against it(?:, mostly ([a-z ]+))?\.", text)
    assert bool(said) == bool(attribution["signed"] and part >= 0.1)
    if said:
        assert abs(float(said[1]) - 100 * part) <= 0.05 + 1e-6
        shares = ninths(against)
        assert said[2] == (NINTHS[int(shares.argmax())] if shares.max() >= 0.5 else None)


def test_each_picture_is_told_in_words(desk: Visit) -> None:
    page = desk.open("/image?model=scenes-vit")
    document = desk.document()
    sentences = page.locator(".plate .told")
    expect(sentences.first).to_be_hidden()
    kinds = set()
    for attribution in document["maps"]:
        plate = desk.plate(attribution["method"])
        node = plate.locator(".told")
        check_picture(node.text_content() or "", attribution)
        kinds.add(attribution["signed"])
        assert plate.locator(".map-canvas").get_attribute("aria-describedby") == node.get_attribute("id")
    assert kinds == {True, False}
    with view(page):
        page.get_by_role("radio", name="yes").check()
    expect(sentences.first).to_be_visible()
    assert desk.query["words"] == ["shown"]
    no_violation(page)


def test_each_text_is_told_in_words(desk: Visit) -> None:
    page = desk.open("/text?words=shown")
    document = desk.document()
    words = document["input"]["words"]
    for attribution in document["maps"]:
        values = word_scores(document, attribution)

        def named(sign: int, attribution: dict[str, Any] = attribution, values: Any = values) -> str:
            order = [i for i in np.argsort(-sign * values, kind="stable") if sign * values[i] > 0][:3]
            return ", ".join(f"“{words[i]['text']}” {shown_score(float(values[i]), attribution['signed'])}" for i in order) or "nothing"

        expected = (
            f"Strongest for {attribution['target']}: {named(1)}. Against: {named(-1)}."
            if attribution["signed"]
            else f"Strongest: {named(1)}."
        )
        if np.ptp(values) == 0:
            expected = "All words have the same score."
        expect(desk.plate(attribution["method"]).locator(".told")).to_have_text(expected)
    expect(page.locator(".told").first).to_be_visible()


APART = """() => {
  const [card, shown] = [".visit", ".visited"].map((where) => document.querySelector(where).getBoundingClientRect());
  return shown.top >= 0 && shown.top < innerHeight && (shown.bottom <= card.top || shown.right <= card.left);
}"""


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_the_visit_quotes_the_answer_covers_nothing_it_speaks_of_and_ends_with_a_task(desk: Visit, size: tuple[int, int]) -> None:
    page = desk.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(reduced_motion="reduce")
    desk.open("/image?model=scenes-vit&methods=rollout&methods=fullgrad_plus:libra", folded=True)
    target = desk.document()["targets"][0]
    page.keyboard.press("Shift+?")
    page.get_by_role("button", name="Guided visit").click()
    card = page.locator(".visit")
    expect(card).to_contain_text(f"“{target['label']}”, to which it gives {percent(target['probability'])}.")
    for step in range(1, 6):
        expect(card).to_contain_text(f"Step {step} of 5")
        page.wait_for_function(APART)
        assert "{" not in card.inner_text()
        if step == 2:
            expect(card).to_contain_text(page.locator(".plate.visited h2").inner_text())
            expect(card).to_contain_text(f"the answer is “{target['label']}”.")
        if step < 5:
            card.get_by_role("button", name="Next").click()
    expect(card).to_contain_text("Take away what a map marks: does the answer fall?")
    expect(page.locator("#deletion-bar.visited #removed")).to_be_visible()


def test_the_visit_explains_red_and_blue_at_a_plate_that_has_them(desk: Visit) -> None:
    for methods, said, unsaid in (
        ("rollout&methods=fullgrad_plus:libra", "in red, and what speaks against it in blue", "strength alone"),
        ("rollout&methods=random", "strength alone", "red"),
    ):
        page = desk.open(f"/image?model=scenes-vit&methods={methods}")
        page.keyboard.press("?")
        page.get_by_role("button", name="Guided visit").click()
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".visit")).to_contain_text(said)
        expect(page.locator(".visit")).not_to_contain_text(unsaid)
        signed = page.locator(".plate.visited .ramp.signed")
        expect(signed).to_have_count(1 if "red" in said else 0)
        page.get_by_role("button", name="Leave").click()


def test_tab_goes_on_from_another_class(desk: Visit) -> None:
    page = desk.open("/image?model=scenes-vit&methods=random")
    field = page.get_by_role("combobox", name="Another class")
    field.focus()
    expect(page.locator("#other-class-list")).to_be_visible()
    field.press("Tab")
    expect(page.locator("#other-class-list")).to_be_hidden()
    assert page.evaluate("() => document.activeElement.id") == "read"


def test_a_phone_is_told_what_a_finger_can_do_and_of_no_key_that_it_lacks(browser: Browser, address: str) -> None:
    keys = re.compile(r"\b(drop|paste|arrow|keys?|keyboard|Escape|Esc|Home|Enter|click|Point at)\b", re.IGNORECASE)
    for is_phone in (True, False):
        context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=is_phone, is_mobile=is_phone)
        context.add_init_script(VISITED)
        page = context.new_page()
        page.goto(address)
        expect(page.get_by_text("drop or paste one")).to_be_visible(visible=not is_phone)
        expect(page.get_by_role("button", name="Take a photo")).to_be_visible(visible=is_phone)
        for path, what in (("/text?", "word"), ("/image?model=scenes-vit&", "patch")):
            page.goto(f"{address}{path}methods=random")
            wait_for_maps(page)
            if what == "word":
                shortcut = page.get_by_text("or press Ctrl + Enter")
                expect(shortcut).to_have_count(1)
                expect(shortcut).to_be_visible(visible=not is_phone)
            hint = page.locator(".hint")
            if is_phone:
                expect(hint.locator(".finger")).to_have_text(f"Tap a {what} and every plate shows its value; tap it again to let go.")
                expect(hint.locator(".finger")).to_be_visible()
                assert not keys.search(hint.inner_text())
            else:
                expect(hint.locator(".finger")).to_be_hidden()
                assert keys.search(hint.inner_text())
        page.locator("#help").click()
        help_ = page.get_by_role("dialog", name="Help")
        pages = ("On Collection", "On the slices of a collection")  # which both are told of
        shown = help_.locator("section:visible h3").all_inner_texts()
        assert set(pages) <= set(shown)
        shown = [title for title in shown if title not in pages]
        assert all(title.startswith(("Tap", "Drag")) == is_phone for title in shown)
        assert shown
        help_.get_by_role("button", name="Guided visit").click()
        for _ in range(2):
            page.get_by_role("button", name="Next").click()
        expect(page.locator(".visit")).to_contain_text("Tap a patch" if is_phone else "the arrow keys walk")
        if is_phone:
            assert not keys.search(page.locator(".visit p").first.inner_text())
        for _ in range(2):
            page.get_by_role("button", name="Next").click()
        expect(page.locator("#deletion-bar.visited")).to_be_visible()
        context.close()
