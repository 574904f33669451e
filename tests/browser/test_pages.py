"""The other pages, and what holds for every page."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Route, expect

from tests.browser.conftest import Visit, model_path, visit

PAGES = ("/", "/image", "/prompt", "/text", "/methods", "/models", "/history", "/leaderboard")
WITH_MAPS = ("/image", "/prompt", "/text")
FIRST_LOAD = 350_000  # bytes


def test_the_first_page_has_three_doors_with_real_maps(desk: Visit) -> None:
    desk.open("/", maps=False)
    for name in ("image", "prompt", "text"):
        expect(desk.page.locator(f"a[href='/{name}'] .tag")).to_be_visible(timeout=60_000)
    expect(desk.page.locator(".pane canvas")).to_have_count(2)
    assert desk.page.locator("#door-text .pro").count() > 0
    desk.page.locator("a.door[href='/text']").click()
    desk.maps()
    assert desk.document()["model"] == "reviews-bert"


def test_the_methods_are_those_of_the_registry(desk: Visit) -> None:
    desk.open("/methods", maps=False)
    listed = desk.get("/api/methods")
    rows = desk.page.locator("#methods tbody tr")
    expect(rows).to_have_count(len(listed["variants"]))
    assert rows.evaluate_all("(rows) => rows.map((row) => row.dataset.spec)") == [one["spec"] for one in listed["variants"]]
    for one in listed["variants"]:
        row = desk.page.locator(f'#methods tr[data-spec="{one["spec"]}"]')
        expect(row).to_contain_text(one["by"])
        expect(row.locator("td code")).to_have_text(one["spec"])
    for one in listed["methods"]:
        head = desk.page.locator("#methods th", has_text=one["description"])
        expect(head).to_contain_text(one["title"])
        expect(head).to_contain_text("for and against" if one["signed"] else "strength only")
        expect(head).to_contain_text("specific to the class" if one["class_specific"] else "the same map for every class")
        for option in one["options"]:
            expect(head.locator("dd", has_text=f"{option['help']} ({option['allowed']})")).to_have_count(1)
        why = {pair["reason"].split(": ")[1].split(". ")[0] for pair in one["pairs"] if pair["reason"] and one["rules"]}
        expect(head.locator(".refused")).to_have_count(len(why))
        for reason in why:
            expect(head).to_contain_text(reason)
    named = {one["title"] for one in listed["variants"]} & {"AttnLRP", "Conservative LRP"}
    assert named
    for name in named:
        expect(desk.page.locator("#methods td", has_text=name).first).to_be_visible()
    expect(desk.page.locator("#rules tbody tr")).to_have_count(len(desk.get("/api/rules")["rules"]))


def test_the_models_and_their_cards(desk: Visit) -> None:
    desk.open("/models", maps=False)
    models = desk.get("/api/models")["models"]
    expect(desk.page.locator(".card")).to_have_count(len(models))
    for one in models:
        card = desk.page.locator(f'.card[data-name="{one["name"]}"]')
        expect(card).to_contain_text(one["description"])
        expect(card.get_by_role("link", name="Open")).to_have_count(1 if one["state"] == "loaded" else 0)
    card = desk.page.locator(".card[data-name=scenes-vit]")
    card.get_by_text("Model card").click()
    written = desk.get(model_path("scenes-vit"))["card"]
    expect(card.locator(".prose :is(h4, h5, h6)")).to_have_text(re.findall(r"^#+ (.*)$", written, re.MULTILINE))
    card.get_by_role("link", name="Open").click()
    desk.maps()
    assert desk.document()["model"] == "scenes-vit"


def test_a_name_that_is_no_model_says_what_to_type(desk: Visit) -> None:
    desk.open("/models", maps=False)
    desk.page.get_by_label("Load a model by name").fill("no-such-thing")
    desk.page.get_by_role("button", name="Load", exact=True).first.click()
    alert = desk.page.locator("#loading [role=alert]")
    expect(alert).to_contain_text("no-such-thing")
    expect(alert).to_contain_text("timm/<name>")
    assert len(desk.complaints) == 1
    assert "422" in desk.complaints.pop()


def test_loading_shows_its_progress_and_why_it_failed(desk: Visit) -> None:
    """The progress and the failure are the server's; here they are played to the page, as a test must not ask the hub."""
    name = "timm/vit_of_this_test"
    story = [
        ("progress", '{"text": "model.safetensors", "fraction": 0.25}'),
        ("failed", '{"title": "Hub unreachable", "detail": "The hub cannot be reached.", "send": "Send an embedded model."}'),
    ]
    body = "".join(f"event: {event}\ndata: {data}\n\n" for event, data in story)
    loading = desk.get("/api/models")
    entry = {"name": name, "kind": None, "title": "T", "description": "D", "embedded": False, "default": False, "details": {}}
    loading["models"].append({**entry, "state": "loading"})

    def tell(route: Route) -> None:
        loading["models"][-1]["state"] = "failed"
        route.fulfill(body=body, content_type="text/event-stream")

    desk.page.route("**/api/models", lambda route: route.fulfill(json=loading))
    desk.page.route("**/api/models/events*", tell)
    desk.open("/models", maps=False)
    alert = desk.page.locator("#loading [role=alert]")
    expect(alert).to_contain_text("The hub cannot be reached. Send an embedded model.")
    expect(desk.page.locator("#status")).to_have_text(f"{name} could not be loaded")
    expect(desk.page.locator(f'.card[data-name="{name}"]')).to_have_attribute("data-state", "failed")


def test_the_leaderboard_claims_nothing(desk: Visit) -> None:
    desk.open("/leaderboard", maps=False)
    expect(desk.page.locator("main")).to_contain_text("still empty")
    assert desk.page.locator("table").count() == 0


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(browser: Browser, address: str, path: str, scheme: str) -> None:
    """No violation of axe-core's rules: contrast, names, roles, labels, headings, landmarks."""
    for one in visit(browser, address, scheme=scheme):
        one.open(path, maps=path in WITH_MAPS)
        one.page.wait_for_load_state("networkidle")
        if path in WITH_MAPS:
            one.page.locator(".chooser summary").click()
        found = Axe().run(one.page).response["violations"]
        assert not found, [(problem["id"], [node["html"] for node in problem["nodes"]]) for problem in found]


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_scrolls_one_way_only(phone: Visit, path: str) -> None:
    phone.open(path, maps=path in WITH_MAPS)
    phone.page.wait_for_load_state("networkidle")
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("path", WITH_MAPS)
def test_the_first_load_is_small(desk: Visit, path: str) -> None:
    """The page itself: template, style, modules. What it shows comes on top."""
    bodies: list[int] = []
    desk.page.on("response", lambda answer: bodies.append(len(answer.body())) if "/api/" not in answer.url else None)
    desk.open(path)
    assert 0 < sum(bodies) < FIRST_LOAD


def test_a_page_works_without_a_pointer(desk: Visit) -> None:
    """From the top of the page: the Tab key alone reaches the classes, the controls and the plates."""
    where = """() => {
      const here = document.activeElement;
      return here.closest("#classes, #controls, #samples, #give")?.id || here.className;
    }"""
    desk.open("/image")
    reached = set()
    for _ in range(60):
        desk.page.keyboard.press("Tab")
        reached.add(desk.page.evaluate(where))
    assert {"skip", "classes", "controls", "samples", "give", "face"} <= reached
