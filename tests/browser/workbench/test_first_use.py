"""What people stumbled over who saw the pages for the first time: what is in sight, and words that nobody explained."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.support.number_format import percent
from tests.browser.support.questions import explained
from tests.browser.support.scenes import scene
from tests.browser.support.visit import Visit
from tests.conftest import ROOT
from tests.server.conftest import png

DOGS = ROOT / "explainers" / "embedded" / "samples" / "photos" / "dogs.jpg"
LOW = 900  # pixels of a laptop's window


def bottom(located: Locator) -> float:
    box = located.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


def explained_where_it_stands(page: Page, word: str, says: str) -> None:
    """A word of the field, by keyboard: the note lies in the window, and Escape goes back to the word."""
    term = page.get_by_role("button", name=word, exact=True).first
    term.focus()
    page.keyboard.press("Enter")
    note = page.locator(".term-note")
    expect(note).to_contain_text(says)
    box = note.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 1440
    assert 0 <= box["y"] <= box["y"] + box["height"] <= LOW
    page.keyboard.press("Escape")
    expect(note).to_be_hidden()
    expect(term).to_be_focused()


@pytest.mark.trained
def test_what_the_model_says_is_in_sight_at_once_and_a_rule_is_explained(desk: Visit) -> None:
    page = desk.open("/image", folded=True)
    rows = page.locator("#classes li")
    assert rows.count() == 5
    assert bottom(rows.last) <= LOW
    assert bottom(page.get_by_text("Why not another class?")) <= LOW
    expect(page.locator(".columns")).to_have_text("the model saysside by side")  # what the ticks are for
    explained_where_it_stands(page, "AttnLRP", "how the signal travels back")


@pytest.mark.trained
def test_prompts_and_the_button_that_looks_for_them_are_in_sight_at_once_and_cosine_is_explained(desk: Visit) -> None:
    page = desk.open("/prompt", folded=True)
    assert bottom(page.get_by_role("textbox", name="Prompt").last) <= LOW
    assert bottom(page.get_by_role("button", name="Look for these")) <= LOW
    explained_where_it_stands(page, "cosine", "how alike the model finds picture and prompt")
    expect(page.locator("#asking")).to_have_text("Where it found")


def height_in_sight(phone: Visit) -> float:
    """How much room the first picture has to the end of the screen."""
    first = phone.page.locator(":is(.regions:not([hidden]), #plates) :is(.map-canvas, .reading)").first.bounding_box()
    assert first is not None
    assert first["y"] >= 0
    return 844 - first["y"]


@pytest.mark.trained
@pytest.mark.parametrize("path", ["/image", "/prompt", "/text"])
def test_the_maps_are_in_sight_at_once_and_those_that_were_asked_for(phone: Visit, path: str) -> None:
    """The first maps begin on the first screen, without scrolling; what else can be asked waits behind a button."""
    page = phone.open(path, folded=True)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => scrollY") == 0
    assert height_in_sight(phone) > 40
    before = phone.id
    page.locator("#samples button").nth(2).click()
    phone.next_maps(before)
    assert height_in_sight(phone) > 100
    more = page.get_by_role("button", name="Ask more")
    expect(page.get_by_label("What is explained")).to_be_hidden()
    more.click()
    expect(more).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_label("What is explained")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390


@pytest.mark.trained
@pytest.mark.parametrize("other", ["gorilla", "great white shark"])
def test_on_a_phone_the_first_map_of_one_class_rather_than_another_is_fully_in_sight(phone: Visit, other: str) -> None:
    page = phone.page
    page.set_viewport_size({"width": 390, "height": 844})
    phone.open("/image", folded=True)
    answer = phone.document()
    document = phone.explained(DOGS.read_bytes(), model=answer["model"], target=answer["targets"][0]["label"], against=other)
    phone.open(f"/image?id={document['id']}", folded=True)
    box = page.locator(".plate .map-canvas").first.bounding_box()
    assert box is not None
    assert page.evaluate("() => scrollY") == 0
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 844
    strip, more = (page.locator(selector).bounding_box() for selector in ("#samples", ".verdict > .act"))
    assert strip is not None
    assert more is not None
    assert strip["x"] + strip["width"] <= more["x"]  # next to each other, none over the other
    assert more["x"] + more["width"] <= 390


def test_the_input_panel_is_reached_whole_in_a_low_window(desk: Visit) -> None:
    """It stays in view beside the plates, so what does not fit into the window must be reached without the end of the page."""
    page = desk.open("/image?model=scenes-vit")
    page.set_viewport_size({"width": 1440, "height": 620})
    page.evaluate("() => scrollTo(0, 0)")
    box = page.locator(".input-panel").bounding_box()
    assert box is not None
    assert box["height"] <= 620
    page.locator(".input-panel").hover()
    page.mouse.wheel(0, 2000)
    page.wait_for_function("() => document.querySelector('.input-panel').scrollTop > 0")
    expect(page.get_by_label("Compare with")).to_be_in_viewport()


def test_help_begins_at_its_beginning(phone: Visit) -> None:
    page = phone.open("/models", maps=False)
    page.get_by_role("button", name="Help").click()
    expect(page.get_by_role("heading", name="Help")).to_be_in_viewport()


@pytest.mark.trained
def test_a_class_is_set_against_any_other_by_search(desk: Visit) -> None:
    page = desk.open("/image?methods=rollout&methods=fullgrad_plus:libra", folded=True)
    before = desk.document()
    first, second = (answer["label"] for answer in before["top"][:2])
    ask, entries = page.get_by_text("Why not another class?"), page.locator("#against-list li")
    ask.click()
    expect(page.locator("#against")).to_be_focused()
    expect(entries.first).to_have_text(f"{second} {percent(before['top'][1]['probability'])}")
    page.locator("#against").fill("zebra")
    expect(entries.first).to_contain_text("zebra")
    page.keyboard.press("Enter")
    desk.next_maps(before["id"])
    expect(page.locator("#answer")).to_have_text(f"{first} rather than zebra")
    signed = page.locator('.plate[data-spec="fullgrad_plus:libra"] .meaning span')
    expect(signed).to_have_text(["for zebra", f"for {first}"])  # what the two colours speak for
    page.keyboard.press("Enter")  # the focus is back on the button
    expect(entries.first).to_have_text(f"no other class: “{first}” alone")
    page.keyboard.press("Escape")
    expect(entries.first).to_be_hidden()
    before = desk.document()
    page.get_by_role("button", name="No longer rather than zebra").click()
    desk.next_maps(before["id"])
    expect(signed).to_have_text(["against", "for"])


@pytest.mark.trained
def test_of_two_classes_nobody_has_to_search(desk: Visit) -> None:
    page = desk.open("/text?methods=rollout", folded=True)
    page.get_by_text("Why not another class?").click()
    expect(page.locator("#against")).to_be_hidden()
    expect(page.locator("#against-list li")).to_have_count(1)
    expect(page.get_by_label("Compare with")).to_be_disabled()
    expect(page.locator("#more-asking")).to_contain_text("No other loaded model reads what this one does")


def test_prompts_that_come_from_the_image_page_say_so(desk: Visit) -> None:
    page = desk.open("/image?methods=rollout")
    before = desk.id
    page.get_by_label("Picture file").set_input_files({"name": "s.png", "mimeType": "image/png", "buffer": scene(5, 90, 90)[0]})
    desk.next_maps(before)
    page.get_by_role("link", name="Prompt", exact=True).click()
    origin = page.locator(".origin")
    expect(origin).to_contain_text("the model of the Image page")
    desk.maps()
    expect(origin).to_be_visible()
    page.get_by_role("textbox", name="Prompt").first.fill("a photo of a spoon")
    expect(origin).to_be_hidden()


def requests_of(page: Page) -> list[str]:
    """The explanations whose maps are tested from now on."""
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url) if request.url.endswith("/deletion-test") else None)
    return addresses


def test_a_closed_test_asks_nothing_of_the_next_picture_and_an_open_one_begins_anew(desk: Visit) -> None:
    page = desk.open("/image?model=scenes-vit&methods=rollout&methods=random", folded=True)
    requests, panels = requests_of(page), page.locator(".panels svg")
    page.locator("#removed").fill("30")
    expect(panels).to_have_count(2, timeout=60_000)
    expect(page.locator(".panels .end", has_text="random baseline").first).to_be_visible()
    before = desk.id  # of the third, the first that belongs to this model
    page.locator("#samples button").nth(3).click()
    desk.next_maps(before)
    expect(panels).to_have_count(2, timeout=60_000)  # it is still open
    assert len(requests) == 2
    assert f"/{before}/" in requests[0]
    assert f"/{desk.id}/" in requests[1]
    page.get_by_role("button", name="End the test").click()
    expect(page.locator("#curves")).to_be_hidden()
    expect(page.locator("#removed")).to_have_value("0")
    expect(page.locator(".after").first).to_be_hidden()
    before = desk.id
    page.locator("#samples button").first.click()
    desk.next_maps(before)
    assert len(requests) == 2
    assert "open" not in desk.query


def test_the_axis_of_a_contrast_says_that_it_is_a_difference(desk: Visit) -> None:
    text = "a warm film, and a dull end"
    explanation = desk.explained(model="reviews-bert", text=text, target="positive", against="negative", methods=["rollout"])
    page = desk.open(f"/text?id={explanation['id']}")
    page.locator("#removed").fill("30")
    expect(page.locator(".panels .axis").first).to_have_text("logit difference", timeout=60_000)
    expect(page.locator(".after dt").first).to_have_text("difference without them")


def test_on_a_phone_a_link_opens_at_the_picture(phone: Visit) -> None:
    """Who gets a link has to see first what it is about; who asks on the page is taken to the answer."""
    page = phone.open(f"/image?id={explained(phone, 'image', png(3))}")
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    phone.maps()
    assert page.evaluate("() => scrollY") == 0
    expect(page.locator("#picture img")).to_be_in_viewport()
