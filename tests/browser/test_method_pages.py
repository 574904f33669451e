"""The page of one method: its formula is drawn, its example is what the API says, its plates lead to it."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Visit, visit
from tests.browser.numbers import shown_range

DONE = '.plate[data-state="done"]'


def test_a_method_on_a_sample_with_two_rules(desk: Visit) -> None:
    page = desk.open("/methods/fullgrad", maps=False)
    link = page.locator("#try a")
    for rule in ("gradient", "Libra"):
        page.get_by_label("Rule", exact=True).select_option(label=rule)
        spec = "fullgrad" if rule == "gradient" else "fullgrad:libra"
        expect(page.locator(f'{DONE}[data-spec="{spec}"] [data-drawn=true]')).to_be_visible(timeout=60_000)
        one = desk.get("/api/explanations/" + (link.get_attribute("href") or "").split("id=")[1])
        assert one["model"] == "scenes-vit"
        assert [found["method"] for found in one["maps"]] == [spec]
        assert shown_range(one["maps"][0]) in page.locator(".facts").inner_text()
    page.get_by_label("Input", exact=True).select_option(label="a review")
    expect(page.locator(f"{DONE} .reading")).to_be_visible(timeout=60_000)
    link.click()
    desk.maps()
    assert desk.document()["model"] == "reviews-bert"
    assert desk.document()["methods"] == ["fullgrad:libra"]
    page.locator(".plate h2 a").click()
    expect(page.locator("h1")).to_have_text("FullGrad")


def test_formulas_are_drawn_by_the_browser(desk: Visit) -> None:
    page = desk.open("/methods/token_tm", maps=False)
    boxes = page.locator(".formula math").evaluate_all("(all) => all.map((one) => [one.namespaceURI, one.getBoundingClientRect().height])")
    assert len(boxes) == 3
    for name, height in boxes:
        assert name.endswith("MathML")
        assert height > 15
    fraction = "(all) => all.map((one) => [...one.children].map((part) => part.getBoundingClientRect().top))"
    above, below = page.locator(".formula mfrac").evaluate_all(fraction)[0]
    assert above < below


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1440)])
def test_accessibility(browser: Browser, address: str, scheme: str, width: int) -> None:
    for one in visit(browser, address, width, scheme):
        page = one.open("/methods/generic_attention", maps=False)
        expect(page.locator(DONE)).to_be_visible(timeout=60_000)
        found = Axe().run(page).response["violations"]
        assert not found, [(problem["id"], [node["html"] for node in problem["nodes"]]) for problem in found]
        assert page.evaluate("() => document.documentElement.scrollWidth") == width


def test_a_slow_method_waits_to_be_asked(desk: Visit) -> None:
    page = desk.open("/methods/occlusion", maps=False)
    start = page.get_by_role("button", name="Show it")
    expect(start).to_be_visible()
    assert page.locator(".plate").count() == 0
    start.click()
    expect(page.locator(f"{DONE} [data-drawn=true]")).to_be_visible(timeout=120_000)
