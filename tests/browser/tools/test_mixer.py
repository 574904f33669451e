"""The rule mixer against the numbers of the API."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Route, expect

from tests.browser.support.number_format import MINUS, end_texts, shown, shown_range
from tests.browser.support.questions import SCENES, explained
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit

PATIENCE = 120_000.0
LIBRA = {"attention": "constant", "norm": "constant", "activation": "gate", "product": "half", "linear": "jacobian", "bias": True}


def ask(desk: Visit, path: str, **body: Any) -> Any:
    """What the API says of the explanation on show."""
    answer = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/{path}", json=body)
    answer.raise_for_status()
    return answer.json()


def mixed(desk: Visit, rule: dict[str, Any], method: str = "fullgrad_plus", target: str | None = None) -> Any:
    return ask(desk, "mix", method=method, rule=rule, target=target)


def area(desk: Visit, mix: Any) -> float:
    """The deletion score of a mix."""
    score: float = ask(desk, "deletion-test/score", scores=mix["map"]["scores"], target=mix["map"]["target"])["area"]
    return score


def drawer(desk: Visit, path: str) -> Locator:
    """The mixer, opened on a page."""
    desk.open(path)
    tool = desk.page.locator("#drawer-mixer")
    tool.locator("summary").click()
    settled(tool)
    return tool


def settled(tool: Locator) -> None:
    """Wait until what was asked for is on show."""
    expect(tool.locator(".numbers[aria-busy=false]")).to_be_attached(timeout=PATIENCE)


def choose(tool: Locator, kind: str, choice: str) -> None:
    tool.locator(f"[data-kind={kind}]").get_by_role("radio", name=choice, exact=True).check()


def choices(tool: Locator) -> dict[str, str]:
    checked = tool.locator("[data-kind] :checked")
    return dict(checked.evaluate_all("(inputs) => inputs.map((input) => [input.name.replace('mix-', ''), input.value])"))


def check(tool: Locator, start: Any, mix: Any, desk: Visit | None = None) -> None:
    """Both maps and the numbers are those of the API; with ``desk`` also the deletion scores, which take a while."""
    settled(tool)
    plates = tool.locator(".plate")
    for i, answer in enumerate((start, mix)):
        plate = plates.nth(i)
        expect(plate.locator(".facts .range dd")).to_have_text(shown_range(answer["map"]))
        texts = plate.locator(".ends span:visible").all_inner_texts()
        if "grid" in answer["map"]:
            assert [texts[0], texts[-1]] == end_texts(answer["map"]["scores"], answer["map"]["signed"])
    numbers = {"completeness_error": (start["completeness_error"], mix["completeness_error"])}
    if desk is not None:
        numbers["deletion"] = (area(desk, start), area(desk, mix))
    for key, (a, b) in numbers.items():
        cells_shown = [shown(a), shown(b), ("+" if b > a else "") + shown(b - a)]
        expect(tool.locator(f"[data-number={key}] td"), key).to_have_text(cells_shown, timeout=PATIENCE)
    expect(tool.locator(".numbers thead")).to_contain_text(f"Score {shown(mix['value'], 4)}")


def test_nothing_is_asked_before_it_is_opened(desk: Visit) -> None:
    addresses: list[str] = []
    desk.page.on("request", lambda request: addresses.append(request.url))
    desk.open("/image?methods=random")
    assert not [url for url in addresses if "mix" in url or "layers" in url or "/api/rules" in url]
    before, _ = desk.shift()
    desk.page.locator("#drawer-mixer summary").click()
    settled(desk.page.locator("#drawer-mixer"))
    assert sum(url.endswith("/mix") for url in addresses) == 1  # the start and the mix are the same yet
    moved, what = desk.shift()
    assert moved - before < 0.01, what


def test_an_ablation_by_hand(desk: Visit) -> None:
    tool = drawer(desk, SCENES)
    libra = mixed(desk, LIBRA)
    assert libra["rule"]["name"] == "libra"
    assert choices(tool) == {name: str(value).lower() for name, value in LIBRA.items()}
    check(tool, libra, libra)
    assert libra["completeness_error"] < 1e-4 * abs(libra["value"])

    choose(tool, "attention", "derivative")
    without = mixed(desk, LIBRA | {"attention": "jacobian"})
    assert without["rule"]["name"] == "libra-attention"
    assert without["completeness_error"] > 100 * libra["completeness_error"]
    check(tool, libra, without, desk)
    expect(tool.locator(".plate .caption").last).to_contain_text(without["rule"]["title"])
    r = float(np.corrcoef(libra["map"]["scores"], without["map"]["scores"])[0, 1])
    number = f"r\u00a0=\u00a0{MINUS if r < 0 else ''}{abs(r):.2f}"
    expect(tool.locator(".likeness")).to_have_text(f"your mix and {libra['rule']['title']} correlate: {number}")
    kinds = desk.get("/api/rules")["kinds"]
    says = next(choice["says"] for choice in kinds[0]["choices"] if choice["value"] == "jacobian")
    expect(tool.locator("[data-kind=attention] .says")).to_have_text(says)
    expect(tool.locator("fieldset.changed")).to_have_count(1)

    choose(tool, "norm", "unchanged")
    mix = mixed(desk, LIBRA | {"attention": "jacobian", "norm": "identity"})
    assert mix["rule"]["name"] == "custom"
    check(tool, libra, mix)
    tool.get_by_role("button", name="Back to Libra").click()
    check(tool, libra, libra)
    expect(tool.locator("fieldset.changed")).to_have_count(0)


def test_presets_and_readouts(desk: Visit) -> None:
    tool = drawer(desk, f"/image?id={explained(desk, 'image')}")
    tool.get_by_label("Start from").select_option("gradient")
    gradient = dict.fromkeys(LIBRA, "jacobian") | {"bias": True}
    check(tool, mixed(desk, gradient), mixed(desk, gradient))
    assert set(choices(tool).values()) == {"jacobian", "true"}
    expect(tool.locator("[data-kind=linear]").get_by_role("radio", name="z⁺", exact=True)).to_be_disabled()

    tool.get_by_label("Method", exact=True).select_option("transformer_attribution")
    settled(tool)
    assert choices(tool)["linear"] == "z_plus"
    expect(tool.locator("[data-kind=attention]").get_by_role("radio", name="derivative")).to_be_disabled()
    expect(tool.locator(".note").last).to_contain_text("Transformer Attribution reads relevance")
    choose(tool, "norm", "constant scale")
    settled(tool)
    rule = {name: value for name, value in choices(tool).items() if name != "bias"}
    mix = mixed(desk, rule, "transformer_attribution")
    expect(tool.locator(".plate .facts .range dd").last).to_have_text(shown_range(mix["map"]))
    expect(tool.locator("[data-number=completeness_error] td")).to_have_text(["–", "–", "–"])


def test_a_mix_follows_the_page(desk: Visit) -> None:
    """The patch in focus, and another picture."""
    tool = drawer(desk, SCENES)
    map_canvas = tool.locator(".plate .map-canvas").last
    map_canvas.focus()
    desk.page.keyboard.press("Home")
    libra = mixed(desk, LIBRA)["map"]
    best = int(np.abs(libra["scores"]).argmax())
    expect(tool.locator(".plate .value").first).to_contain_text(("+" if libra["scores"][best] > 0 else "") + shown(libra["scores"][best]))
    expect(desk.plate("random").locator(".patch")).to_be_visible()

    choose(tool, "activation", "unchanged")
    before = desk.id
    desk.page.locator("#samples button").nth(3).click()
    desk.page.wait_for_function("(before) => new URLSearchParams(location.search).get('id') !== before", arg=before)
    mix = mixed_when_done(desk, LIBRA | {"activation": "identity"})
    check(tool, mixed(desk, LIBRA), mix)


def mixed_when_done(desk: Visit, rule: dict[str, Any]) -> Any:
    desk.page.wait_for_function("() => / in /.test(document.getElementById('status').textContent)", timeout=PATIENCE)
    return mixed(desk, rule)


def test_the_words_of_a_prompt(desk: Visit) -> None:
    tool = drawer(desk, f"/prompt?id={explained(desk, 'prompt', side='text')}")
    mix = mixed(desk, LIBRA)
    check(tool, mix, mix, desk)
    expect(tool.locator("[data-number=deletion] small")).to_contain_text("Mean logit")


def test_the_map_does_not_wait_for_its_deletion_score(desk: Visit) -> None:
    desk.open(f"/image?id={explained(desk, 'image')}")
    held: list[Route] = []
    free = False
    desk.page.route("**/deletion-test/score", lambda route: route.continue_() if free else held.append(route))
    before, _ = desk.shift()
    tool = desk.page.locator("#drawer-mixer")
    tool.locator("summary").click()
    libra = mixed(desk, LIBRA)
    check(tool, libra, libra)
    row = tool.locator("[data-number=deletion]")
    expect(row).to_have_attribute("aria-busy", "true")
    expect(row.locator("td")).to_have_text(["…", "…", "…"])
    with desk.page.expect_request("**/deletion-test/score"):
        choose(tool, "attention", "derivative")
    without = mixed(desk, LIBRA | {"attention": "jacobian"})
    check(tool, libra, without)  # nobody waits for the score of the mix before
    assert len(held) == 2
    free = True
    held[-1].continue_()
    check(tool, libra, without, desk)
    expect(row).to_have_attribute("aria-busy", "false")
    moved, what = desk.shift()
    assert moved - before < 0.01, what


def test_a_score_that_does_not_come_is_no_reason_to_wait_and_a_problem_is_said_and_goes_away(desk: Visit) -> None:
    desk.open(f"/image?id={explained(desk, 'image')}")
    problem = {"title": "Out of memory", "status": 503, "detail": "It did not fit.", "send": "Ask for less."}
    problems = ["score"]

    def answer(route: Route) -> None:
        if route.request.url.split("/")[-1] in problems:
            route.fulfill(status=503, content_type="application/problem+json", json=problem)
        else:
            route.continue_()

    desk.page.route("**/deletion-test/score", answer)
    desk.page.route("**/mix", answer)
    tool = desk.page.locator("#drawer-mixer")
    alert = tool.get_by_role("alert")
    tool.locator("summary").click()
    expect(alert).to_contain_text("It did not fit. Ask for less.", timeout=PATIENCE)
    desk.refused(503)
    expect(tool.locator("[data-number=deletion] td")).to_have_text(["–", "–", "–"])
    libra = mixed(desk, LIBRA)
    check(tool, libra, libra)

    problems.clear()
    choose(tool, "activation", "unchanged")
    check(tool, libra, mixed(desk, LIBRA | {"activation": "identity"}), desk)
    expect(alert).to_have_count(0)
    problems.append("mix")
    choose(tool, "norm", "derivative")
    expect(alert).to_contain_text("It did not fit. Ask for less.", timeout=PATIENCE)
    desk.refused(503)
    problems.clear()
    choose(tool, "norm", "unchanged")
    check(tool, libra, mixed(desk, LIBRA | {"activation": "identity", "norm": "identity"}))
    expect(alert).to_have_count(0)


@pytest.mark.parametrize(("page", "index"), [("text", 0), ("prompt", 1)])
def test_texts_and_prompts(desk: Visit, page: str, index: int) -> None:
    tool = drawer(desk, f"/{page}?id={explained(desk, page)}")
    document = desk.document()
    target = document["targets"][index]["label"]
    if index:
        tool.get_by_label("Target").select_option(target)
    choose(tool, "activation", "derivative")
    check(tool, mixed(desk, LIBRA, target=target), mixed(desk, LIBRA | {"activation": "jacobian"}, target=target))
    if page == "text":
        expect(tool.locator(".plate .reading").last).to_contain_text(document["input"]["text"][:20])


def test_it_fits_a_phone(phone: Visit) -> None:
    tool = drawer(phone, SCENES)
    assert phone.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    choose(tool, "attention", "derivative")
    settled(tool)
    assert phone.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
