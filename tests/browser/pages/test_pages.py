"""The other pages, and what holds for every page."""

from __future__ import annotations

import base64
import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Request, Response, Route, expect

from tests.browser.support.accessibility import no_violation, no_violation_anywhere
from tests.browser.support.typefaces import ALL_FONTS
from tests.browser.support.visit import FEW, Visit, methods, model_path
from tests.conftest import ROOT

PAGES = (
    "/",
    "/image",
    "/prompt",
    "/text",
    "/methods",
    "/models",
    "/your-model",
    "/history",
    "/collection",
    "/leaderboard",
    "/leaderboard/figures",
)
WITH_MAPS = ("/image", "/prompt", "/text")
FIRST_LOAD = 140_000  # bytes


def marks_something(maps: dict[str, Any], spec: str) -> bool:
    """Whether the map of one kind of input at least gives one part in fifty more than a tenth of its largest score."""
    stored = [
        np.frombuffer(base64.b64decode(maps[kind]["maps"][spec]), np.int8)
        for kind in ("image", "clip", "text")
        if spec in maps[kind]["maps"]
    ]
    return any((np.abs(scores.astype(int)) > 12.7).mean() >= 0.02 for scores in stored)


GALLERY_HEIGHT_PER_METHOD = 100  # pixels, headings and filters included: a card takes 380 at 1440 px, seven to a row


def test_the_methods_are_a_gallery_of_the_registry(desk: Visit) -> None:
    page = desk.open("/methods", maps=False)
    listed = desk.get("/api/methods")
    cards = page.locator(".method-card")
    expect(cards).to_have_count(len(listed["methods"]))
    maps = json.loads((ROOT / "static" / "pages" / "gallery" / "gallery.json").read_text("utf-8"))
    drawn = {spec.partition(":")[0].partition("?")[0] for part in ("image", "clip", "text") for spec in maps[part]["maps"]}
    shown = [method["name"] for method in listed["methods"] if method["name"] in drawn]
    assert [method["name"] for method in listed["methods"] if method["name"] not in drawn] == ["d_rise"]  # no model inside draws boxes
    expect(page.locator(".method-card canvas")).to_have_count(len(shown))  # a map each, no empty frame
    told = {card["method"]: card for card in cards.evaluate_all("(all) => all.map((card) => ({ ...card.dataset, text: card.innerText }))")}
    families = {family["name"]: family["title"] for family in listed["families"]}
    ranks = {
        kind: {place["spec"]: place for place in ranking["places"]}
        for kind, ranking in desk.get("/api/leaderboard/rankings")["rankings"].items()
    }
    words = {"first": "ties for first on", "chance": "no better than chance on", "worse": "worse than chance on"}
    for method in listed["methods"]:
        card = told[method["name"]]
        assert method["title"] in card["text"]
        assert ("for and against" if method["signed"] else "strength only") in card["text"]
        assert ("the same for every class" in card["text"]) == (not method["class_specific"])
        assert card["family"] == method["family"]
        if method["name"] == "d_rise":
            assert "no map is stored" in card["text"]
            continue
        sparse = not marks_something(maps, card["spec"])
        assert ("Here it marks next to nothing" in card["text"]) == sparse, method["name"]
        usual = next(pair["spec"] for pair in method["pairs"] if pair["rule"] == method["rule"])
        assert ("marks next to nothing" in card["text"]) == (sparse or card["spec"] != usual), method["name"]
        assert card["spec"] == usual or not marks_something(maps, usual)
        if method["family"] != "control":
            kind = next(kind for kind in ("image", "clip", "text") if card["spec"] in maps[kind]["maps"])
            place = ranks[kind].get(card["spec"])
            assert maps[kind]["model"] in card["text"]
            mark = "not measured" if place is None else words.get(place["group"], f"{place['rank']} of {place['of']} on")
            assert mark in card["text"], method["name"]
    expect(page.locator("#methods h2")).to_have_text(
        [title for name, title in families.items() if any(m["family"] == name for m in listed["methods"])]
    )
    assert page.evaluate("() => document.documentElement.scrollHeight") < GALLERY_HEIGHT_PER_METHOD * len(listed["methods"])
    page.locator('.method-card[data-method="rollout"] a').click()
    expect(page.locator("h1")).to_have_text("Attention rollout")


def test_the_gallery_is_searched_parted_and_drawn_with_another_rule(desk: Visit) -> None:
    page = desk.open("/methods", maps=False)
    cards = page.locator(".method-card")
    expect(cards.first).to_be_visible()
    page.get_by_label("Search").fill("chefer attention")
    expect(page.locator('.method-card[data-method="occlusion"]')).to_have_count(0)
    expect(page.locator('.method-card[data-method="generic_attention"]')).to_be_visible()
    page.get_by_label("Search").fill("libra")  # a rule's name finds the methods that know it
    expect(page.locator('.method-card[data-method="input_x_gradient"]')).to_be_visible()
    for name, spec in (("AttnLRP", "input_x_gradient:attnlrp"), ("conservative lrp", "input_x_gradient:conservative")):
        page.get_by_label("Search").fill(name)  # a name of its own finds the method with its rule, and nothing else
        first = page.locator("#named .method-card").first
        expect(first).to_have_attribute("data-spec", spec)
        assert page.locator("#named h3").all_inner_texts()[0].lower() == name.lower()
        expect(page.locator("#methods > section")).to_have_count(1)
    page.get_by_label("Search").fill("CLIP decomposition")
    expect(page.locator(".method-card h3")).to_have_text("CLIP decomposition")
    page.get_by_label("Search").fill("AttnLRP")
    link = page.locator("#named .method-card a").first.get_attribute("href")
    assert link == "/methods/input_x_gradient?input=image&rule=input_x_gradient%3Aattnlrp"
    page.get_by_label("Search").fill("")
    page.get_by_label("Family").select_option("perturbation")
    hidden = [method for method in desk.get("/api/methods")["methods"] if method["family"] == "perturbation"]
    expect(cards).to_have_count(len(hidden))
    page.get_by_label("Family").select_option("gradients")
    canvas = page.locator('.method-card[data-method="fullgrad"] canvas')
    before = canvas.evaluate("(canvas) => canvas.toDataURL()")
    page.get_by_label("Drawn with the rule").select_option("libra")
    expect(page.locator('.method-card[data-method="fullgrad"]')).to_have_attribute("data-spec", "fullgrad:libra")
    assert canvas.evaluate("(canvas) => canvas.toDataURL()") != before


def test_the_rules_are_those_of_the_registry(desk: Visit) -> None:
    page = desk.open("/methods", maps=False)
    page.get_by_text("What each rule does").click()
    listed = desk.get("/api/rules")
    rows = page.locator("#rules tbody tr")
    expect(rows.get_by_role("rowheader")).to_have_text([rule["label"] for rule in listed["rules"]])
    expect(rows.last).to_be_visible()  # innerText is empty before
    cells = rows.evaluate_all("(rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.innerText))")
    does = [tuple(row[: len(listed["kinds"])]) for row in cells]
    assert len(set(does)) == len(does)  # no two rules look alike


def test_on_a_phone_the_gallery_is_no_longer_than_a_few_screens(phone: Visit) -> None:
    phone.open("/methods", maps=False)
    expect(phone.page.locator(".method-card").first).to_be_visible()
    methods = phone.page.locator(".method-card").count()
    assert phone.page.evaluate("() => document.documentElement.scrollHeight") < GALLERY_HEIGHT_PER_METHOD * methods


MOST_LINES = 5  # of text that a card of a model has, besides its names and its buttons
# How many lines the text of each card takes: its paragraphs without the names and the state.
LINES = """(cards) => cards.map((card) => [...card.querySelectorAll("p:not(.name, .kind, .size)")].reduce((sum, node) => {
  return sum + Math.round(node.getBoundingClientRect().height / parseFloat(getComputedStyle(node).lineHeight));
}, 0))"""


@pytest.mark.trained
def test_the_models_are_inside_or_one_press_away_or_ones_own(desk: Visit) -> None:
    page = desk.open("/models", maps=False)
    models = desk.get("/api/models")["models"]
    expect(page.locator(".card")).to_have_count(len(models))
    expect(page.locator("main h2")).to_have_text(["Inside", "One press away", "Yours"])
    for model in models:
        card = page.locator(f'#{model["origin"]} .card[data-name="{model["name"]}"]')
        expect(card).to_contain_text(model["description"])
        expect(card.get_by_role("link", name="Open")).to_have_count(1 if model["state"] == "loaded" else 0)
        expect(card.locator(".good-for")).to_have_text(f"Good for {model['good_for']}.")
        expect(card.locator(".size")).to_contain_text(
            "parameters" if model["details"] else "download" if model["megabytes"] else "after loading"
        )
        if model["recommended"]:
            expect(card.locator(".name")).to_contain_text(f"@ {model['revision'][:7]}")
            expect(card.get_by_role("button", name=f"Get · {model['megabytes']}")).to_be_visible()
    assert max(page.locator(".card").evaluate_all(LINES)) <= MOST_LINES
    expect(page.locator(".card details")).to_have_count(0)
    tops = page.locator(".card").evaluate_all("(all) => all.map((card) => card.getBoundingClientRect()).map((b) => [b.top, b.height])")
    assert len({tuple(place) for place in tops[:3]}) == 1  # of a row, all alike
    page.get_by_role("link", name="open your model").click()
    expect(page.locator("h1")).to_have_text("Your model")


@pytest.mark.trained  # tiny models have no calibration
def test_what_is_long_about_a_model_has_a_page_of_its_own(desk: Visit) -> None:
    page = desk.page
    for name in ("photos-vit", "clip", "reviews-bert", "scenes-vit"):
        desk.open("/models", maps=False).locator(f'.card[data-name="{name}"]').get_by_role("link", name="About it").click()
        expect(page.locator("main .name")).to_have_text(name)
        desk.settled()
        texts = page.locator(".line").all_text_contents()
        assert texts
        for line in texts:
            assert re.search(r"where the [a-z ()]+ is (below|above) -?[\d.]+", line), line  # what is measured, in words
    detail = desk.get(model_path("scenes-vit"))
    expect(page.locator(".prose :is(h3, h4, h5, h6)")).to_have_text(re.findall(r"^#+ (.*)$", detail["card"], re.MULTILINE))
    expect(page.locator(".facts div").filter(has_text="classes").locator("dd")).to_have_text(str(len(detail["labels"])))
    no_violation(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    page.get_by_role("link", name="Open").click()
    desk.maps()
    assert desk.document()["model"] == "scenes-vit"


def test_a_card_says_where_the_weights_of_its_model_are(desk: Visit) -> None:
    """On the device, in the memory of the machine, or only on the disk. The server's list is played to the page."""
    listed = desk.get("/api/models")
    first, second, third, *_ = listed["models"]
    first.update(state="loaded", resident={"place": "device", "device": "cuda:0", "bytes": 346_400_000})
    second.update(state="loaded", resident={"place": "host", "device": "cuda:0", "bytes": 5_440_000})
    third.update(state="available", downloaded=True)
    third.pop("resident", None)
    desk.page.route("**/api/models", lambda route: route.fulfill(json=listed))
    page = desk.open("/models", maps=False)
    for model, says in (
        (first, "loaded, 346\u2009MB on cuda:0"),
        (second, "5.4\u2009MB in the memory of the machine; moves to cuda:0 when asked"),
        (third, "on this server, not loaded"),
    ):
        expect(page.locator(f'.card[data-name="{model["name"]}"] .kind')).to_have_text(re.compile(rf"^[a-z ]+ · {re.escape(says)}$"))
    page.unroute("**/api/models")
    page.reload()
    desk.settled()
    for model in desk.get("/api/models")["models"]:  # as the server itself says
        kind = page.locator(f'.card[data-name="{model["name"]}"] .kind')
        size = model.get("resident", {}).get("bytes", 0) / 1e6
        expect(kind).to_contain_text(f"{size:.{1 if size < 10 else 0}f}\u2009MB on cpu" if size else "")


def test_a_name_that_is_no_model_says_what_to_type(desk: Visit) -> None:
    desk.open("/models", maps=False)
    desk.page.get_by_label("Load a model by name").fill("no-such-thing")
    desk.page.get_by_role("button", name="Load", exact=True).first.click()
    alert = desk.page.locator("#loading [role=alert]")
    expect(alert).to_contain_text("no-such-thing")
    expect(alert).to_contain_text("timm/<name>")
    desk.refused(422)


def test_loading_shows_its_progress_and_why_it_failed(desk: Visit) -> None:
    """The progress and the failure are the server's; here they are played to the page, as a test must not ask the hub."""
    name = "timm/vit_of_this_test"
    story = [
        ("progress", '{"text": "model.safetensors", "fraction": 0.25}'),
        ("failed", '{"title": "Hub unreachable", "detail": "The hub cannot be reached.", "send": "Send an embedded model."}'),
    ]
    body = "".join(f"event: {event}\ndata: {data}\n\n" for event, data in story)
    loading = desk.get("/api/models")
    entry = {
        "name": name,
        "kind": None,
        "title": "T",
        "description": "D",
        "embedded": False,
        "origin": "yours",
        "default": False,
        "details": {},
    }
    loading["models"].append({**entry, "origin": "yours", "state": "loading"})

    def tell(route: Route) -> None:
        loading["models"][-1]["state"] = "failed"
        route.fulfill(body=body, content_type="text/event-stream")

    desk.page.route("**/api/models", lambda route: route.fulfill(json=loading))
    desk.page.route("**/api/models/events*", tell)
    desk.open("/models", maps=False)
    alert = desk.page.locator(f'.card[data-name="{name}"] [role=alert]')
    expect(alert).to_contain_text("The hub cannot be reached. Send an embedded model.")
    expect(desk.page.locator("#status")).to_have_text(f"{name} could not be loaded")
    expect(desk.page.locator(f'.card[data-name="{name}"]')).to_have_attribute("data-state", "failed")


def test_the_leaderboard_shows_what_ships_and_no_more(desk: Visit) -> None:
    desk.open("/leaderboard/figures", maps=False)
    runs = desk.get("/api/leaderboard")["runs"]
    assert all(run["shipped"] for run in runs)
    if runs:
        desk.page.locator("#figures tbody tr").first.wait_for()
        expect(desk.page.locator("#figures tbody tr")).to_have_count(len(runs[0]["methods"]))
    else:
        expect(desk.page.locator("#status")).to_contain_text("No run is known yet")


@pytest.mark.trained
@pytest.mark.parametrize("path", PAGES)
def test_accessibility(desk: Visit, path: str) -> None:
    """No violation of axe-core's rules: contrast, names, roles, labels, headings, landmarks; on a page with all that it folds away open."""
    desk.open(f"{path}?{FEW}" if path in WITH_MAPS else path, maps=path in WITH_MAPS, folded=True)
    desk.settled()
    if path == "/image":  # the choice of methods is the same on each page with maps
        methods(desk.page)
    if path not in WITH_MAPS:
        desk.page.locator("main details:visible").evaluate_all("(all) => { for (const details of all) details.open = true; }")
        desk.settled()
    no_violation_anywhere(desk.page)


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_scrolls_one_way_only(phone: Visit, path: str) -> None:
    phone.open(path, maps=path in WITH_MAPS)
    phone.settled()
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("path", WITH_MAPS)
def test_the_first_load_is_small(desk: Visit, path: str) -> None:
    """The page itself: template, style, modules. Fonts, which a browser keeps for a year, are counted apart; what it shows comes on top."""
    bodies: dict[str, int] = {}

    def weigh(answer: Response) -> None:
        if "/api/" not in answer.url and not answer.url.startswith("blob:"):  # a blob is a picture that the page made of an answer
            bodies[answer.url] = int(answer.headers["content-length"])  # of what is sent, which is packed

    desk.page.on("response", weigh)
    desk.open(f"{path}?methods=random")
    fonts = [size for url, size in bodies.items() if url.endswith(".woff2")]
    assert 0 < sum(bodies.values()) - sum(fonts) < FIRST_LOAD
    assert 0 < sum(fonts) < ALL_FONTS


def test_a_page_works_without_a_pointer(desk: Visit) -> None:
    """From the top of the page: the Tab key alone reaches the classes, the controls and the plates; the strip of samples is one stop."""
    where = """() => {
      const here = document.activeElement;
      return here.closest("#classes, #controls, #samples, #give")?.id || here.className;
    }"""
    desk.open("/image?methods=random")
    reached = []
    while "map-canvas" not in reached and len(reached) < 60:
        desk.page.keyboard.press("Tab")
        reached.append(desk.page.evaluate(where))
    assert {"skip", "classes", "controls", "samples", "give", "map-canvas"} <= set(reached)
    assert reached.count("samples") == 1


def test_the_arrow_keys_walk_along_the_samples(desk: Visit) -> None:
    desk.open("/image?methods=random")
    before = desk.id
    samples = desk.page.get_by_role("toolbar", name="Samples").get_by_role("button")
    desk.page.get_by_role("button", name="Crop").focus()
    desk.page.keyboard.press("Tab")
    expect(samples.nth(0)).to_be_focused()
    for key, place in (("ArrowRight", 1), ("ArrowDown", 2), ("ArrowLeft", 1), ("Home", 0), ("ArrowUp", 0), ("ArrowRight", 1)):
        desk.page.keyboard.press(key)
        expect(samples.nth(place)).to_be_focused()
    desk.page.keyboard.press("Enter")
    desk.next_maps(before)
    expect(samples.nth(1)).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("path", [*WITH_MAPS, "/molecule", "/image?model=scenes-vit", "/text?sample=review-1", "/prompt?side=text"])
def test_the_head_names_all_that_a_page_asks_before_its_question(desk: Visit, path: str) -> None:
    """So a browser asks for it while the scripts are on their way. What the page asks is seen where the head names nothing."""
    named: list[str] = []
    asked: list[str] = []

    def without_links(route: Route) -> None:
        answer = route.fetch()
        links = re.compile(r'<link rel="preload" href="([^"]+)" as="fetch" crossorigin>')
        named.extend(unescape(address) for address in links.findall(answer.text()))
        route.fulfill(response=answer, body=links.sub("", answer.text()))

    def note(request: Request) -> None:
        asked.append(f"{request.method} {request.url.removeprefix(desk.address)}")

    desk.page.route(lambda url: url == desk.address + path, without_links)
    desk.page.on("request", lambda request: note(request) if "/api/" in request.url else None)
    desk.page.goto(desk.address + path)
    desk.maps()
    before = asked[: asked.index("POST /api/explanations")]
    assert sorted(before) == sorted(f"GET {address}" for address in named)
    assert len(named) >= 5


def test_the_browser_asks_once_for_what_the_head_names(desk: Visit) -> None:
    asked: list[str] = []
    desk.page.on("request", lambda request: asked.append(request.url))
    desk.open("/image")
    named = desk.page.locator("link[rel=preload][as=fetch]").evaluate_all("(links) => links.map((link) => link.href)")
    assert named
    assert [asked.count(address) for address in named] == [1] * len(named)
