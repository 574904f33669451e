"""The rule mixer against the numbers of the API."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.conftest import Visit
from tests.browser.number_format import MINUS, colour_ends, shown, shown_range

PATIENCE = 120_000.0
LIBRA = {"attention": "constant", "norm": "constant", "activation": "gate", "product": "half", "linear": "jacobian", "bias": True}


def ask(desk: Visit, path: str, **body: Any) -> Any:
    """What the API says of the explanation on show."""
    answer = httpx.post(f"{desk.address}/api/explanations/{desk.id}/{path}", json=body, timeout=120)
    answer.raise_for_status()
    return answer.json()


def mixed(desk: Visit, rule: dict[str, Any], readout: str = "fullgrad_plus", target: str | None = None) -> Any:
    return ask(desk, "mix", readout=readout, rule=rule, target=target)


def area(desk: Visit, mix: Any) -> float:
    """The deletion score of a mix."""
    found: float = ask(desk, "deletion", scores=mix["map"]["scores"], target=mix["map"]["target"])["area"]
    return found


def drawer(desk: Visit, path: str) -> Locator:
    """The mixer, opened on a page."""
    desk.open(path)
    found = desk.page.locator("#drawer-mixer")
    found.locator("summary").click()
    settled(found)
    return found


def settled(found: Locator) -> None:
    """Wait until what was asked for is on show."""
    expect(found.locator(".numbers[aria-busy=false]")).to_be_attached(timeout=PATIENCE)


def choose(found: Locator, kind: str, choice: str) -> None:
    found.locator(f"[data-kind={kind}]").get_by_role("radio", name=choice, exact=True).check()


def choices(found: Locator) -> dict[str, str]:
    checked = found.locator("[data-kind] :checked")
    return dict(checked.evaluate_all("(inputs) => inputs.map((input) => [input.name.replace('mix-', ''), input.value])"))


def check(found: Locator, start: Any, mix: Any, desk: Visit | None = None) -> None:
    """Both maps and the numbers are those of the API; with ``desk`` also the deletion scores, which take a while."""
    settled(found)
    plates = found.locator(".plate")
    for i, answer in enumerate((start, mix)):
        plate = plates.nth(i)
        expect(plate.locator(".facts .range dd")).to_have_text(shown_range(answer["map"]))
        words = plate.locator(".ends").inner_text().split()
        if "grid" in answer["map"]:
            assert [words[0], words[-1]] == [shown(end, 2) for end in colour_ends(answer["map"]["scores"], answer["map"]["signed"])]
    numbers = {"completeness_error": (start["completeness_error"], mix["completeness_error"])}
    if desk is not None:
        numbers["deletion"] = (area(desk, start), area(desk, mix))
    for key, (a, b) in numbers.items():
        told = [shown(a), shown(b), ("+" if b > a else "") + shown(b - a)]
        expect(found.locator(f"[data-number={key}] td"), key).to_have_text(told, timeout=PATIENCE)
    expect(found.locator(".numbers thead")).to_contain_text(f"Score {shown(mix['value'], 4)}")


def test_nothing_is_asked_before_it_is_opened(desk: Visit) -> None:
    asked: list[str] = []
    desk.page.on("request", lambda request: asked.append(request.url))
    desk.open("/image?methods=random")
    assert not [url for url in asked if "mix" in url or "layers" in url or "/api/rules" in url]
    before, _ = desk.shift()
    desk.page.locator("#drawer-mixer summary").click()
    settled(desk.page.locator("#drawer-mixer"))
    assert sum(url.endswith("/mix") for url in asked) == 1  # the start and the mix are the same yet
    moved, what = desk.shift()
    assert moved - before < 0.01, what


def test_an_ablation_by_hand(desk: Visit) -> None:
    found = drawer(desk, "/image?methods=random")
    libra = mixed(desk, LIBRA)
    assert libra["rule"]["name"] == "libra"
    assert choices(found) == {name: str(value).lower() for name, value in LIBRA.items()}
    check(found, libra, libra)
    assert libra["completeness_error"] < 1e-4 * abs(libra["value"])

    choose(found, "attention", "derivative")
    without = mixed(desk, LIBRA | {"attention": "jacobian"})
    assert without["rule"]["name"] == "libra-attention"
    assert without["completeness_error"] > 100 * libra["completeness_error"]
    check(found, libra, without, desk)
    expect(found.locator(".plate .caption").last).to_contain_text(without["rule"]["title"])
    r = float(np.corrcoef(libra["map"]["scores"], without["map"]["scores"])[0, 1])
    expect(found.locator(".likeness")).to_have_text(f"the two maps: r\u00a0=\u00a0{MINUS if r < 0 else ''}{abs(r):.2f}")
    kinds = desk.get("/api/rules")["kinds"]
    says = next(choice["says"] for choice in kinds[0]["choices"] if choice["value"] == "jacobian")
    expect(found.locator("[data-kind=attention] .says")).to_have_text(says)
    expect(found.locator("fieldset.changed")).to_have_count(1)

    choose(found, "norm", "unchanged")
    own = mixed(desk, LIBRA | {"attention": "jacobian", "norm": "identity"})
    assert own["rule"]["name"] == "custom"
    check(found, libra, own)
    found.get_by_role("button", name="Back to Libra").click()
    check(found, libra, libra)
    expect(found.locator("fieldset.changed")).to_have_count(0)


def test_presets_and_readouts(desk: Visit) -> None:
    found = drawer(desk, "/image?methods=random")
    found.get_by_label("Start from").select_option("gradient")
    gradient = dict.fromkeys(LIBRA, "jacobian") | {"bias": True}
    check(found, mixed(desk, gradient), mixed(desk, gradient))
    assert set(choices(found).values()) == {"jacobian", "true"}
    expect(found.locator("[data-kind=linear]").get_by_role("radio", name="z⁺", exact=True)).to_be_disabled()

    found.get_by_label("Read-out").select_option("transformer_attribution")
    settled(found)
    assert choices(found)["linear"] == "z_plus"
    expect(found.locator("[data-kind=attention]").get_by_role("radio", name="derivative")).to_be_disabled()
    expect(found.locator(".note").last).to_contain_text("Transformer Attribution reads relevance")
    choose(found, "norm", "constant scale")
    settled(found)
    rule = {name: value for name, value in choices(found).items() if name != "bias"}
    own = mixed(desk, rule, "transformer_attribution")
    expect(found.locator(".plate .facts .range dd").last).to_have_text(shown_range(own["map"]))
    expect(found.locator("[data-number=completeness_error] td")).to_have_text(["–", "–", "–"])


def test_a_mix_follows_the_page(desk: Visit) -> None:
    """The patch in focus, another picture, and what the server refuses."""
    found = drawer(desk, "/image?methods=random")
    face = found.locator(".plate .face").last
    face.focus()
    desk.page.keyboard.press("Home")
    libra = mixed(desk, LIBRA)["map"]
    best = int(np.abs(libra["scores"]).argmax())
    expect(found.locator(".plate .value").first).to_contain_text(("+" if libra["scores"][best] > 0 else "") + shown(libra["scores"][best]))
    expect(desk.plate("random").locator(".patch")).to_be_visible()

    choose(found, "activation", "unchanged")
    before = desk.id
    desk.page.locator("#samples button").nth(2).click()
    desk.page.wait_for_function("(before) => new URLSearchParams(location.search).get('id') !== before", arg=before)
    own = mixed_when_done(desk, LIBRA | {"activation": "identity"})
    check(found, mixed(desk, LIBRA), own)


def mixed_when_done(desk: Visit, rule: dict[str, Any]) -> Any:
    desk.page.wait_for_function("() => / in /.test(document.getElementById('status').textContent)", timeout=PATIENCE)
    return mixed(desk, rule)


def test_the_words_of_a_prompt(desk: Visit) -> None:
    found = drawer(desk, "/prompt?methods=random&side=text")
    own = mixed(desk, LIBRA)
    check(found, own, own, desk)
    expect(found.locator("[data-number=deletion] small")).to_contain_text("Mean logit")


def test_the_map_does_not_wait_for_its_deletion_score(desk: Visit) -> None:
    desk.open("/image?methods=random")
    held: list[Route] = []
    free = False
    desk.page.route("**/deletion", lambda route: route.continue_() if free else held.append(route))
    before, _ = desk.shift()
    found = desk.page.locator("#drawer-mixer")
    found.locator("summary").click()
    libra = mixed(desk, LIBRA)
    check(found, libra, libra)
    row = found.locator("[data-number=deletion]")
    expect(row).to_have_attribute("aria-busy", "true")
    expect(row.locator("td")).to_have_text(["…", "…", "…"])
    with desk.page.expect_request("**/deletion"):
        choose(found, "attention", "derivative")
    without = mixed(desk, LIBRA | {"attention": "jacobian"})
    check(found, libra, without)  # nobody waits for the score of the mix before
    assert len(held) == 2
    free = True
    held[-1].continue_()
    check(found, libra, without, desk)
    expect(row).to_have_attribute("aria-busy", "false")
    moved, what = desk.shift()
    assert moved - before < 0.01, what


def test_a_score_that_does_not_come_is_no_reason_to_wait(desk: Visit) -> None:
    desk.open("/image?methods=random")
    problem = {"title": "Out of memory", "status": 503, "detail": "It did not fit.", "send": "Ask for less."}
    desk.page.route("**/deletion", lambda route: route.fulfill(status=503, content_type="application/problem+json", json=problem))
    found = desk.page.locator("#drawer-mixer")
    found.locator("summary").click()
    expect(found.get_by_role("alert")).to_contain_text("It did not fit. Ask for less.", timeout=PATIENCE)
    desk.complaints.clear()  # Chromium logs the 503
    expect(found.locator("[data-number=deletion] td")).to_have_text(["–", "–", "–"])
    check(found, mixed(desk, LIBRA), mixed(desk, LIBRA))


@pytest.mark.parametrize(("page", "index"), [("text", 0), ("prompt", 1)])
def test_texts_and_prompts(desk: Visit, page: str, index: int) -> None:
    found = drawer(desk, f"/{page}?methods=random")
    document = desk.document()
    target = document["targets"][index]["label"]
    if index:
        found.get_by_label("Target").select_option(target)
    choose(found, "activation", "derivative")
    check(found, mixed(desk, LIBRA, target=target), mixed(desk, LIBRA | {"activation": "jacobian"}, target=target))
    if page == "text":
        expect(found.locator(".plate .reading").last).to_contain_text(document["input"]["text"][:20])


def test_a_problem_is_said_and_goes_away(desk: Visit) -> None:
    found = drawer(desk, "/image?methods=random")
    problem = {"title": "Out of memory", "status": 503, "detail": "It did not fit.", "send": "Ask for less."}
    problems = [problem]

    def answer(route: Route) -> None:
        if problems:
            route.fulfill(status=503, content_type="application/problem+json", json=problems[0])
        else:
            route.continue_()

    desk.page.route("**/mix", answer)
    choose(found, "norm", "derivative")
    expect(found.get_by_role("alert")).to_contain_text("It did not fit. Ask for less.", timeout=PATIENCE)
    desk.complaints.clear()  # Chromium logs the 503
    problems.clear()
    choose(found, "norm", "unchanged")
    check(found, mixed(desk, LIBRA), mixed(desk, LIBRA | {"norm": "identity"}))
    expect(found.get_by_role("alert")).to_have_count(0)


def test_it_fits_a_phone(phone: Visit) -> None:
    found = drawer(phone, "/image?methods=random")
    assert phone.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    choose(found, "attention", "derivative")
    settled(found)
    assert phone.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
