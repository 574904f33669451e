"""The page of one method: its formula is drawn, its example is what the API says, its plates lead to it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.number_format import shown_range
from tests.browser.support.visit import Visit, visit

DONE = '.plate[data-state="done"]'


def test_a_method_on_a_sample_with_two_rules(desk: Visit) -> None:
    page = desk.open("/methods/fullgrad", maps=False)
    link = page.locator("#try a")
    for rule in ("gradient", "Libra"):
        page.get_by_label("Rule", exact=True).select_option(label=f"{rule}, usual" if rule == "gradient" else rule)
        spec = "fullgrad" if rule == "gradient" else "fullgrad:libra"
        expect(page.locator(f'{DONE}[data-spec="{spec}"] [data-drawn=true]')).to_be_visible(timeout=60_000)
        document = desk.get("/api/explanations/" + (link.get_attribute("href") or "").split("id=")[1])
        assert document["model"] == "photos-vit"  # on a photo
        assert [attribution["method"] for attribution in document["maps"]] == [spec]
        assert shown_range(document["maps"][0]) in page.locator(".facts").inner_text()
    page.get_by_label("Input", exact=True).select_option(label="a review")
    expect(page.locator(f"{DONE} .reading")).to_be_visible(timeout=60_000)
    link.click()
    desk.maps()
    assert desk.document()["model"] == "reviews-bert"
    assert desk.document()["methods"] == ["fullgrad:libra"]
    page.locator(".plate h2 a").click()
    expect(page.locator("h1")).to_have_text("FullGrad")


def test_formulas_are_drawn_by_the_browser_nothing_is_cut_and_no_spec_is_broken(browser: Browser, address: str) -> None:
    for width in (1440, 390):
        for visitor in visit(browser, address, width):
            page = visitor.open("/methods/token_tm", maps=False)
            page.evaluate("() => document.querySelectorAll('details').forEach((part) => { part.open = true; })")
            expect(page.locator("#figures tr").nth(1)).to_be_visible()
            lines = page.locator("td code").evaluate_all("(all) => all.map((code) => [code.textContent, code.getClientRects().length])")
            assert ["token_tm:libra", 1] in lines
            assert [text for text, count in lines if count != 1] == []
            right = page.locator(".account").evaluate("(node) => node.getBoundingClientRect().right")
            ends = page.locator(".account :is(p, li, dd)").evaluate_all(
                """(all) => all.filter((node) => !node.closest(".formula")).map((node) => {
                  const range = document.createRange();
                  range.selectNodeContents(node);
                  return range.getBoundingClientRect().right;
                })"""
            )
            assert max(ends) <= right + 0.5
            boxes = page.locator(".formula math").evaluate_all(
                "(nodes) => nodes.map((node) => [node.namespaceURI, node.getBoundingClientRect().height])"
            )
            assert len(boxes) == 3
            for name, height in boxes:
                assert name.endswith("MathML")
                assert height > 15
            fraction = "(nodes) => nodes.map((node) => [...node.children].map((part) => part.getBoundingClientRect().top))"
            above, below = page.locator(".formula mfrac").evaluate_all(fraction)[0]
            assert above < below


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1440)])
def test_accessibility(browser: Browser, address: str, scheme: str, width: int) -> None:
    for visitor in visit(browser, address, width, scheme):
        page = visitor.open("/methods/generic_attention", maps=False)
        expect(page.locator(DONE)).to_be_visible(timeout=60_000)
        no_violation(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") == width


def test_the_usual_rule_is_the_same_in_the_gallery_and_on_the_page(desk: Visit) -> None:
    listed = {method["name"]: method for method in desk.get("/api/methods")["methods"]}
    for name in ("attcat", "decompx", "partial_lrp"):
        page = desk.open("/methods", maps=False)
        spec = page.locator(f'.method-card[data-method="{name}"]').get_attribute("data-spec")
        page = desk.open(f"/methods/{name}?input=text", maps=False)
        chosen = page.locator("#choose-rule option:checked")
        expect(chosen).to_have_attribute("value", str(spec))
        expect(chosen).to_contain_text(", usual")
        pressed = page.locator("#way-rules [aria-pressed=true]")
        expect(pressed).to_have_attribute("data-rule", listed[name]["rule"])
        unit = "answers" if name == "partial_lrp" else "logits"  # of a rule of relevance
        expect(page.locator(".way-back")).to_contain_text(f"in {unit}")


def test_a_method_page_tells_one_sentence_the_formula_the_mechanism_then_figures(desk: Visit) -> None:
    page = desk.open("/methods/attcat", maps=False)
    page.locator(".way").wait_for()
    names = page.locator(".account h2").all_inner_texts()
    assert names[:4] == ["Formula", "Its way back through a block", "What was measured", "When to trust it"]
    page.get_by_role("link", name="its figures").click()
    expect(page.locator("#figures")).to_be_visible()  # the link opens what is folded


def test_a_slow_method_waits_to_be_asked(desk: Visit) -> None:
    page = desk.open("/methods/attention_flow?input=text", maps=False)  # of the slow ones the quickest, on fewer tokens than a picture has
    start = page.get_by_role("button", name="Show it")
    expect(start).to_be_visible()
    assert page.locator(".plate").count() == 0
    start.click()
    expect(page.locator(f"{DONE} .reading")).to_be_visible(timeout=120_000)


def listed(desk: Visit, **states: str) -> None:
    """Let the page find only these models, in these states."""
    models = desk.get("/api/models")
    models["models"] = [model | {"state": states[model["name"]]} for model in models["models"] if model["name"] in states]
    desk.page.route("**/api/models", lambda route: route.fulfill(json=models))


def test_another_model_takes_the_place_of_one_that_is_not_loaded(desk: Visit) -> None:
    listed(desk, **{"photos-vit": "failed", "scenes-vit": "loaded"})
    page = desk.open("/methods/rollout", maps=False)
    expect(page.locator(f"{DONE} [data-drawn=true]")).to_be_visible(timeout=60_000)
    document = desk.get("/api/explanations/" + (page.locator("#try a").get_attribute("href") or "").split("id=")[1])
    assert document["model"] == "scenes-vit"
    assert shown_range(document["maps"][0]) in page.locator(".facts").inner_text()
    expect(page.locator("#against li")).to_have_text(
        [re.compile(f"^Not on {name}: No model") for name in ("a picture and a prompt", "a review", "a molecule")]
    )


def test_a_method_that_no_loaded_model_can_run_says_why(desk: Visit) -> None:
    reason = "photos-vit has no classification token in its blocks."

    def answer(route: Route) -> None:
        document = desk.get("/api/methods?model=photos-vit")
        for method in document["methods"]:
            for pair in method["pairs"]:
                pair["reason"] = reason
        route.fulfill(json=document)

    listed(desk, **{"photos-vit": "loaded"})
    desk.page.route("**/api/methods?model=photos-vit", answer)
    page = desk.open("/methods/rollout", maps=False)
    expect(page.get_by_role("alert")).to_contain_text("None of the loaded models can run this method.")
    expect(page.locator("#against li").first).to_have_text(f"Not on a picture: {reason}")


def test_input_and_rule_are_in_the_address(desk: Visit) -> None:
    page = desk.open("/methods/input_x_gradient", maps=False)
    page.get_by_label("Input", exact=True).select_option(label="a review")
    page.get_by_label("Rule", exact=True).select_option(label="Libra")
    shown = page.locator(f'{DONE}[data-spec="input_x_gradient:libra"] .reading')
    expect(shown).to_be_visible(timeout=60_000)
    assert (desk.query["input"], desk.query["rule"]) == (["text"], ["input_x_gradient:libra"])
    page.reload()
    expect(shown).to_be_visible(timeout=60_000)


def test_the_sample_stands_beside_the_title_and_tables_are_folded(desk: Visit) -> None:
    page = desk.open("/methods/input_x_gradient", maps=False)
    title, sample = page.locator("h1").bounding_box(), page.locator(".example").bounding_box()
    assert title is not None
    assert sample is not None
    assert sample["x"] > title["x"] + 400
    assert abs(sample["y"] - title["y"]) < 40
    of_run = "(Symmetric relevance gain, 60 photos of COCO 2017, train2017)."
    verdict, rule = page.locator("#verdict"), page.get_by_label("Rule", exact=True)
    plain = f"On photos Input × Gradient ranks 15 of 30, in the middle third {of_run} With another rule, AttnLRP ranks 1."
    expect(verdict).to_have_text(plain)  # of the variant whose map is shown
    rule.select_option("input_x_gradient:attnlrp")
    expect(verdict).to_have_text(f"On photos AttnLRP ranks 1 of 30, tied for first {of_run}")
    rule.select_option("input_x_gradient:gim")
    expect(verdict).to_have_text("Not measured on photos with this rule. AttnLRP ranks 1 of 30 there.")
    expect(page.locator("#figures")).to_be_hidden()
    expect(page.get_by_role("region", name="Rules it can be combined with")).to_be_hidden()


def test_on_a_phone_the_sample_comes_right_after_the_title(phone: Visit) -> None:
    page = phone.open("/methods/rollout", maps=False)
    expect(page.locator(f"{DONE} [data-drawn=true]")).to_be_visible(timeout=60_000)
    tops = page.locator(".columns > *").evaluate_all("(all) => all.map((node) => [node.className, node.getBoundingClientRect().top])")
    assert [name for name, _ in sorted(tops, key=lambda place: place[1])] == ["title", "example", "account"]


def test_the_way_back_shows_what_is_lost_and_what_is_kept(desk: Visit) -> None:
    """In the numbers of the stored sample: an ordinary gradient carries nothing through a norm, Libra all of it."""
    page = desk.open("/methods/input_x_gradient", maps=False)
    norm = page.locator('.way-back li[data-operator="norm"]').first
    page.locator("#way-rules").get_by_role("button", name="gradient", exact=True).click()
    expect(norm).to_contain_text("norm, derivative: −0.134 → ")
    expect(norm).to_contain_text(", lost")
    pulse = page.locator(".way .pulse").first
    assert pulse.evaluate("(node) => getComputedStyle(node).animationName") == "way-back"
    page.locator("#way-rules").get_by_role("button", name="Libra").click()
    expect(norm).to_contain_text("norm, constant scale: 0.406 → 0.405 logits, kept whole")
    expect(page.locator(".way rect + text")).to_have_count(4)
    page.emulate_media(reduced_motion="reduce")
    assert pulse.evaluate("(node) => getComputedStyle(node).animationName") == "none"
    page.emulate_media(reduced_motion="no-preference")
    page.get_by_label("Rule", exact=True).select_option(label="AttnLRP")  # the picture follows the example
    expect(page.locator('#way-rules [aria-pressed="true"]')).to_have_text("AttnLRP")


def test_a_method_without_a_rule_has_no_way_back(desk: Visit) -> None:
    page = desk.open("/methods/rollout", maps=False)
    expect(page.locator(f"{DONE} [data-drawn=true]")).to_be_visible(timeout=60_000)
    expect(page.locator("#way")).to_have_count(0)
