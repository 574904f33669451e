"""The deletion bar and the words that are clicked away, against the numbers of the API."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.support.number_format import percent, probability_end, shown
from tests.browser.support.questions import explained
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit

# The patches of a plate that are covered.
COVERED = """
(plate) => {
  const cover = plate.querySelector("canvas.cover");
  const context = new OffscreenCanvas(cover.width, cover.height).getContext("2d", { willReadFrequently: true });
  context.drawImage(cover, 0, 0);
  const { data } = context.getImageData(0, 0, cover.width, cover.height);
  return Array.from({ length: cover.width * cover.height }, (_, i) => i).filter((i) => data[4 * i + 3] > 0);
}
"""
# few methods of a small model: the test asks it for each of them
FEW = "/image?model=scenes-vit&methods=rollout&methods=fullgrad_plus:libra&methods=generic_attention"
REVIEW = "A dull, boring film, but I loved the movie."  # words of one piece and of several


def ask(visit: Visit, name: str | None = None, **body: Any) -> Any:
    """The deletion test of the explanation of this id, without one of the page's own."""
    answer = HTTP.post(f"{visit.address}/api/explanations/{name or visit.id}/deletion-test", json=body)
    answer.raise_for_status()
    return answer.json()


def use(page: Page, share: int) -> None:
    """Move the slider, and wait for the curves and for the plates."""
    page.locator("#removed").fill(str(share))
    expect(page.locator(".panels svg")).to_have_count(2, timeout=240_000)
    expect(page.locator(".said")).to_contain_text("shares measured", timeout=240_000)
    expect(page.locator(".deletion-bar output")).to_contain_text(f"{share}\u2009% · ", timeout=240_000)
    page.evaluate("() => new Promise(requestAnimationFrame)")


def check_after(visit: Visit, deletion: Any, first: str, share: float, caption: str | None = None) -> None:
    """Under each plate of a target, or with this caption, stands what the model says there, and the rank."""
    ranks = {row["method"]: row["rank"] for row in deletion["ranking"] if row["rank"]}
    gaps = {"random baseline" if "control" in row else row["method"]: row["gap"] for row in deletion["ranking"]}
    removed = int(share * deletion["tokens"] + 0.5)
    for curve in deletion["curves"]:
        if curve["order"] != first:
            continue
        plate = visit.page.locator(f'.plate[data-spec="{curve["method"]}"]').filter(has_text=caption or visit_caption(visit, deletion))
        lines = plate.locator(".after dd").all_inner_texts()
        value = float(np.interp(removed, deletion["counts"], curve[deletion["read"]]))
        expected = percent(value) if deletion["read"] == "probability" else shown(value)
        assert lines[0].removeprefix("≈ ") == expected
        assert lines[0].startswith("≈") == (removed not in deletion["counts"])
        if curve["method"] not in ranks:
            assert lines[1] == "the control"
            continue
        fails = ", fails" if gaps[curve["method"]] <= chance_of(deletion) else ""
        place = f"{ranks[curve['method']]} of {len(ranks)}" if len(ranks) > 1 else "the only map"
        assert re.sub(r"(?<=\d)(st|nd|rd|th)", "", lines[1]) == f"{place}{fails}"


def chance_of(deletion: Any) -> float:
    """The gap that chance may make: a map with a smaller one fails."""
    return float(max(deletion["chance_gap"], *(row["gap"] for row in deletion["ranking"] if row["rank"] == 0)))


def visit_caption(visit: Visit, deletion: Any) -> str:
    """What tells the plates of a target from the others."""
    return deletion["target"] if visit.page.locator(".matrix").count() else ""


def test_the_slider_takes_away_what_each_map_names(desk: Visit) -> None:
    calls: list[str] = []
    wanted = re.compile(r"/deletion-test$|/deletionview\.js\b")
    desk.page.on("request", lambda request: calls.append(request.url) if wanted.search(request.url) else None)
    page = desk.open(FEW)
    assert not calls  # nothing is asked or loaded before the deletion bar is used
    use(page, 30)
    assert len(calls) == 2
    deletion = ask(desk)
    check_after(desk, deletion, "most", 0.3)
    for method in ("rollout", "fullgrad_plus:libra"):
        single = ask(desk, method=method, fraction=0.3)
        assert desk.plate(method).evaluate(COVERED) == single["removed"]
        assert desk.plate(method).locator(".after dd").first.inner_text() == percent(single["probability"])
    use(page, 33)
    check_after(desk, deletion, "most", 0.33)
    page.locator(".deletion-bar").get_by_role("radio", name="least relevant").check()
    use(page, 10)
    check_after(desk, deletion, "least", 0.1)
    assert desk.plate("rollout").evaluate(COVERED) == ask(desk, method="rollout", order="least", fraction=0.1)["removed"]
    assert len(calls) == 2
    page.wait_for_function("() => /removed=10/.test(location.search) && /order=least/.test(location.search)")
    page.reload()
    desk.maps()
    use(page, 10)
    check_after(desk, deletion, "least", 0.1)


def test_the_figure_shows_every_curve_and_the_table_the_areas(desk: Visit) -> None:
    page = desk.open(FEW)
    use(page, 20)
    deletion = ask(desk)
    rows = page.locator(".ranks tbody tr")
    expect(rows).to_have_count(len(deletion["ranking"]))
    for row, ranked in zip(rows.all(), deletion["ranking"], strict=True):
        cells = row.locator("td").all_inner_texts()
        fails = " fails" if ranked["rank"] and ranked["gap"] <= chance_of(deletion) else ""
        assert cells[1:] == [percent(ranked["most"]), percent(ranked["least"]), f"{shown(ranked['gap'], 2)}{fails}"]
        assert cells[0] == (str(ranked["rank"]) if ranked["rank"] else "–")
    end = probability_end(deletion)
    for order in ("most", "least"):
        panel = page.locator(f'.panels svg[data-order="{order}"]')
        expect(panel.get_by_text(f"{100 * end:.12g}\u2009%", exact=True)).to_have_count(1)
        expect(panel.locator(".baseline path:not(.near)")).to_have_count(1)
        for curve in deletion["curves"]:
            if curve["order"] == order:
                heights = panel.locator(f'.line[data-spec="{curve["method"]}"] circle').evaluate_all(
                    "(dots) => dots.map((dot) => Number(dot.getAttribute('cy')))"
                )
                top, bottom = 30, 230  # of the axis in the drawing
                expected = bottom - np.array(curve["probability"]) / end * (bottom - top)
                np.testing.assert_allclose(heights, expected, atol=0.06)
    button = page.locator(".ranks button").nth(2)
    button.click()
    spec = button.get_attribute("data-spec")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator(f'.panels .picked[data-spec="{spec}"]')).to_have_count(2)
    expect(page.locator(".plate.picked")).to_have_attribute("data-spec", spec or "")
    button.click()
    expect(page.locator(".panels .picked")).to_have_count(0)


def test_the_page_says_what_the_curves_wait_for_and_another_picture_is_whole(desk: Visit) -> None:
    page = desk.open(FEW)
    held: list[Any] = []
    page.route("**/deletion-test", lambda route: held.append(route))
    page.locator("#removed").fill("30")
    expect(page.locator(".curves .figure")).to_contain_text("All maps are there. The model now answers")
    for route in held:
        route.continue_()
    use(page, 30)
    expect(page.locator(".curves .figure")).not_to_contain_text("All maps are there")
    expect(page.locator(".plate canvas[data-removed]").first).to_be_attached()
    page.unroute("**/deletion-test")
    before = desk.id
    page.locator("#samples button[aria-pressed=false]").first.click()
    desk.next_maps(before)
    expect(page.locator("#removed")).to_have_value("0")
    expect(page.locator(".plate canvas[data-removed]:not([data-removed='0'])")).to_have_count(0)
    assert "removed" not in desk.query


def test_each_prompt_has_its_own_curves(desk: Visit) -> None:
    page = desk.open(f"/prompt?id={explained(desk, 'prompt', methods=['rollout', 'fullgrad_plus:libra'])}")
    targets = [target["label"] for target in desk.document()["targets"]]
    use(page, 15)
    for target in targets:
        check_after(desk, ask(desk, target=target), "most", 0.15)
    assert len(targets) > 1
    expect(page.locator(".curves select option")).to_have_text(targets)


def test_each_prompt_loses_its_own_words(desk: Visit) -> None:
    page = desk.open(f"/prompt?id={explained(desk, 'prompt', side='text', methods=['random', 'fullgrad_plus:libra'])}")
    document = desk.document()
    page.locator("#removed").fill("50")
    expect(page.locator(".asked-of")).to_contain_text("likeness to the picture", timeout=240_000)
    expect(page.locator(".panels svg")).to_have_count(2)
    for prompt in document["prompts"]:
        deletion = ask(desk, target=prompt["prompt"])
        assert deletion["read"] == "logit"
        check_after(desk, deletion, "most", 0.5)
        single = set(ask(desk, target=prompt["prompt"], method="fullgrad_plus:libra", fraction=0.5)["removed"])
        plate = page.locator('.plate[data-spec="fullgrad_plus:libra"]').filter(has=page.get_by_text(prompt["prompt"], exact=True)).first
        states = plate.evaluate("(plate) => [...plate.querySelectorAll('.reading [data-w]')].map((span) => span.dataset.removed ?? '')")
        left = [len(set(word["tokens"]) - single) for word in prompt["words"]]
        assert states == [
            "all" if n == 0 else "some" if n < len(word["tokens"]) else "" for n, word in zip(left, prompt["words"], strict=True)
        ]


def test_two_models_each_lose_what_their_own_maps_name(desk: Visit) -> None:
    page = desk.open("/image?methods=rollout&methods=fullgrad_plus:libra")
    first = desk.document()
    other = "photos-vit" if first["model"] == "scenes-vit" else "scenes-vit"
    use(page, 20)  # before there is another model
    page.get_by_label("Compare with").select_option(other)
    page.wait_for_function("() => new URLSearchParams(location.search).has('compare')")
    desk.maps()
    second = desk.get(f"/api/explanations/{desk.query['compare'][0]}")
    titles = {model["name"]: model["title"] for model in desk.get("/api/models")["models"]}
    expect(page.locator(".asked-of")).to_contain_text(f"{titles[other]}: 2 methods, measured with", timeout=240_000)
    sizes = {len(document["maps"][0]["scores"]) for document in (first, second)}
    page.locator("#removed").fill("30")
    number = f" · {int(0.3 * min(sizes) + 0.5)} of {min(sizes)} patches" if len(sizes) == 1 else " of each"
    expect(page.locator(".deletion-bar output")).to_have_text(f"30\u2009%{number}")
    page.evaluate("() => new Promise(requestAnimationFrame)")
    names = []
    for side, document in enumerate((first, second)):
        deletion = ask(desk, document["id"])
        check_after(desk, deletion, "most", 0.3, titles[document["model"]])
        names.append(f"{titles[document['model']]} · {deletion['target']}")
        single = ask(desk, document["id"], method="rollout", fraction=0.3)
        assert desk.plate("rollout").nth(side).evaluate(COVERED) == single["removed"]
    choice = page.get_by_label("Curves of")
    expect(choice.locator("option")).to_have_text(names)
    choice.select_option(names[1])
    area = next(row for row in deletion["ranking"] if row["method"] == "rollout")["most"]  # of the second
    expect(page.locator('.ranks tr[data-spec="rollout"] td').nth(1)).to_have_text(percent(area))
    page.get_by_label("Compare with").select_option("")
    expect(page.locator(".asked-of")).not_to_contain_text(titles[other])
    expect(choice).to_be_hidden()


def test_words_go_with_their_pieces_and_are_clicked_away_and_written_anew(desk: Visit) -> None:
    page = desk.open("/text?methods=rollout&methods=fullgrad_plus:libra")
    page.locator("#text").fill(REVIEW)
    before = desk.id
    page.get_by_role("button", name="Explain this review").click()
    desk.next_maps(before)
    use(page, 40)
    document, deletion = desk.document(), ask(desk)
    words, tokens = zip(*((word["text"], word["tokens"]) for word in document["input"]["words"]), strict=True)
    check_after(desk, deletion, "most", 0.4)
    single = set(ask(desk, method="fullgrad_plus:libra", fraction=0.4)["removed"])
    states = desk.plate("fullgrad_plus:libra").evaluate(
        "(plate) => [...plate.querySelectorAll('.reading [data-w]')].map((span) => span.dataset.removed ?? '')"
    )
    left = [len(set(pieces) - single) for pieces in tokens]
    assert states == ["all" if n == 0 else "some" if n < len(pieces) else "" for n, pieces in zip(left, tokens, strict=True)]
    page.get_by_role("button", name="End the test").click()
    page.get_by_role("button", name="Remove words").click()
    edits = page.locator("#edits")
    buttons = edits.locator(".word")
    expect(buttons).to_have_text(words)

    def check(edited: int, **body: Any) -> None:
        expect(edits).to_have_attribute("data-edited", str(edited), timeout=240_000)
        answered = ask(desk, **body)
        for answer in answered["top"]:
            row = edits.locator("tbody tr").filter(has_text=answer["label"])
            expect(row.locator("td").nth(1)).to_have_text(percent(answer["probability"]))

    dull, loved = words.index("dull"), words.index("loved")
    buttons.nth(dull).click()
    check(1, remove=tokens[dull])
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(buttons.nth(dull + 1)).to_have_attribute("aria-pressed", "true")
    check(2, remove=tokens[dull] + tokens[dull + 1])
    page.keyboard.press("Enter")
    buttons.nth(loved).click()
    buttons.nth(loved).click()
    edits.get_by_label("In place of “loved”").fill("hated")
    page.keyboard.press("Enter")
    expect(buttons.nth(loved)).to_have_text("hated")
    check(2, remove=tokens[dull], replace={str(loved): "hated"})
    edits.get_by_role("button", name="Put all back").click()
    check(0, remove=[])
    expect(buttons).to_have_text(words)


def test_the_dock_fits_a_phone(phone: Visit) -> None:
    page = phone.open(FEW)
    use(page, 25)
    check_after(phone, ask(phone), "most", 0.25)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    box = page.locator(".deletion-bar").bounding_box()
    assert box is not None
    assert box["height"] < 150


@pytest.mark.trained
@pytest.mark.parametrize("path", ["/image", "/text"])
def test_what_the_test_finds_is_said_over_the_maps_and_no_map_moves(desk: Visit, path: str) -> None:
    page = desk.open(path, folded=True)
    first = page.locator(".plate").first
    before = first.bounding_box()
    lead = page.locator(".advice.lead")
    expect(lead).to_contain_text("the best comes first.")
    use(page, 20)
    failed = re.compile(r"Here .*fails?( this test)?: what (it|each) marks matters (no )?more than random parts")
    expect(page.locator(".tested")).to_contain_text(failed)
    assert lead.inner_text().count("the best comes first.") == 0
    assert first.bounding_box() == before
    page.get_by_role("button", name="End the test").click()


#: Texts and controls of the deletion bar that lie over each other or are cut.
SPOILT = """() => {
  const names = "h2, .removal label, .removal input, .removal output, .seg, .said, button";
  const parts = [...document.querySelectorAll("#deletion-bar :is(" + names + ")")].filter((node) => {
    const { visibility, clipPath } = getComputedStyle(node);
    return node.checkVisibility() && visibility !== "hidden" && clipPath === "none";
  });
  const isCut = (node) => node.clientWidth > 0 && (node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 5);
  const meet = (a, b) => {
    const [one, other] = [a, b].map((node) => node.getBoundingClientRect());
    const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
    return across > 1 && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1;
  };
  const isOther = (a, b) => a !== b && !a.contains(b) && !b.contains(a);
  return [
    ...parts.filter((node) => node.tagName !== "INPUT" && isCut(node)),
    ...parts.filter((node) => parts.some((other) => isOther(node, other) && meet(node, other))),
  ].map((node) => node.textContent || node.tagName);
}"""


@pytest.mark.trained
@pytest.mark.parametrize("path", ["/image?methods=rollout&methods=random", "/text?methods=rollout&methods=random"])
def test_nothing_in_the_deletion_bar_is_cut_or_covered_and_every_count_has_its_unit(desk: Visit, path: str) -> None:
    page = desk.page
    for width, height in ((1440, 900), (1024, 800), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        desk.open(path, folded=True)
        use(page, 20)
        assert page.evaluate(SPOILT) == [], width
    shown_input = desk.document()["input"]
    if path.startswith("/image"):
        noun = "patches"
    else:
        pieces = [token for token in shown_input["tokens"] if not token["special"]]
        assert len(pieces) > len(shown_input["words"])  # this model cuts words of this text
        noun = "word pieces"
    expect(page.locator(".removal output")).to_have_text(re.compile(rf"20\u2009% · \d+ of \d+ {noun}$"))
    expect(page.locator(".asked-of")).to_contain_text("values marked ≈ are in between.")


def test_in_the_curves_no_name_is_cut_and_methods_are_called_as_on_their_plates(desk: Visit) -> None:
    """The title of the axis lies over no value, also where that has a decimal, and a long name takes two lines."""
    page = desk.open("/image?model=scenes-vit&methods=pytorch_grad_cam&methods=transformer_attribution&methods=fullgrad_plus:libra")
    use(page, 20)
    names = page.locator(".plate h2").all_inner_texts()
    assert sorted(page.locator(".ranks tr[data-spec] th").all_inner_texts()) == sorted(names)
    named = (
        page.locator(".panels svg")
        .first.locator(".named")
        .evaluate_all("(lines) => lines.map((line) => [...line.querySelectorAll('.end')].map((part) => part.textContent).join(' '))")
    )
    assert sorted(named) == sorted(names)
    cut = page.locator(".panels svg").evaluate_all(
        """(all) => all.flatMap((svg) => {
          const box = svg.getBoundingClientRect();
          return [...svg.querySelectorAll("text")].filter((text) => {
            const { left, right, width } = text.getBoundingClientRect();
            return width > 0 && (left < box.left || right > box.right || text.textContent.includes("…"));
          }).map((text) => text.textContent);
        })"""
    )
    assert cut == []
    over = page.locator(".panels svg").evaluate_all(
        """(all) => all.filter((svg) => {
          const axis = svg.querySelector(".axis").getBoundingClientRect();
          return [...svg.querySelectorAll(".tick")].some((tick) => tick.getBoundingClientRect().left < axis.right);
        }).length"""
    )
    assert over == 0
