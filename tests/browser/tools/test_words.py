"""The table of words and the disagreement of two methods, against the numbers of the API; and what a model did not read."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect
from scipy.stats import rankdata, spearmanr

from tests.browser.support.accessibility import no_violation
from tests.browser.support.drawers import ROWS, opened
from tests.browser.support.number_format import percent, shown, shown_score
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit, set_beside, view
from tests.browser.support.word_scores import word_scores

FEW = "methods=random&methods=fullgrad_plus:libra"
FOUR = f"{FEW}&methods=rollout&methods=generic_attention"


def check_disagreement(desk: Visit, document: dict[str, Any]) -> None:
    """Two methods on one unit or on none: the words that they rank most differently, and in which way."""
    part = opened(desk, "disagree")
    words = [word["text"] for word in document["input"]["words"]]
    maps = {attribution["method"]: attribution for attribution in document["maps"]}
    signed = [name for name, attribution in maps.items() if attribution["signed"]]
    unsigned = next(name for name, attribution in maps.items() if not attribution["signed"])
    for first, second in ((signed[0], signed[-1]), (signed[0], unsigned)):
        part.get_by_label("Between").select_option(first)
        part.get_by_label("and", exact=True).select_option(second)
        values = [word_scores(document, maps[name]) for name in (first, second)]
        if second == unsigned:
            values = [np.abs(values_of) for values_of in values]
        rho = shown(float(spearmanr(*values).statistic), 2)
        expect(part.locator(".correlation")).to_contain_text(f"Rank correlation {rho} over {len(words)} words")
        expect(part.locator(".correlation")).to_contain_text("by score" if second == signed[-1] else "by strength")
        ranks = [rankdata(values_of) for values_of in values]
        apart = ranks[0] - ranks[1]
        worst = [i for i in np.argsort(-np.abs(apart), kind="stable") if apart[i] != 0][:8]
        expected = [[words[i], *(shown(float(len(words) + 1 - values_of[i]), 4) for values_of in ranks)] for i in worst]
        listed = part.locator("tbody tr").evaluate_all(ROWS)
        assert [[row[0], *(float(cell) for cell in row[1:])] for row in listed] == [
            [row[0], *(float(cell) for cell in row[1:])] for row in expected
        ]
        kinds = part.locator(".reading [data-w]").evaluate_all("(spans) => spans.map((span) => span.className)")
        assert kinds == ["more" if gap > 0 else "less" if gap < 0 else "" for gap in apart]


def test_all_words_in_a_table_sorted_by_any_method_and_where_two_methods_disagree(desk: Visit) -> None:
    modules: list[str] = []
    desk.page.on("request", lambda request: modules.append(request.url))
    desk.open(f"/text?{FOUR}")
    assert not [url for url in modules if "wordtable" in url]
    document = desk.document()
    words = document["input"]["words"]
    part = opened(desk, "wordtable")
    plates = desk.page.locator(".plate").evaluate_all("(plates) => plates.map((plate) => plate.dataset.spec)")
    maps = sorted(document["maps"], key=lambda attribution: plates.index(attribution["method"]))  # a column a plate, in their order
    scores = [word_scores(document, attribution) for attribution in maps]
    rows = [
        [
            str(i + 1),
            word["text"],
            *(shown_score(float(values_of[i]), attribution["signed"]) for values_of, attribution in zip(scores, maps, strict=True)),
        ]
        for i, word in enumerate(words)
    ]
    rows_shown = part.locator("tbody tr")

    whole = document["targets"][0]

    def check(order: Any) -> None:
        assert rows_shown.evaluate_all(ROWS) == [rows[i] for i in order]
        removal = part.locator(".without")
        if list(order) == list(range(len(words))):
            expect(removal).to_be_empty()
            return
        top = words[order[0]]
        body = {"target": whole["label"], "remove": top["tokens"]}
        without = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/deletion-test", json=body).raise_for_status().json()
        before, after = percent(whole["probability"]), percent(without["probability"])
        expect(removal).to_contain_text(f"“{top['text']}”, the word on top")
        expect(removal).to_contain_text(f"from {before} to {after}" if before != after else f"({after})")
        answer, now = document["top"][0]["label"], without["top"][0]["label"]
        if answer != now:
            expect(removal).to_contain_text(f"the answer becomes “{now}”")

    expect(part.locator("thead th").nth(2)).to_contain_text(maps[0]["title"])
    check(np.argsort(-scores[0], kind="stable"))
    for number in (1, len(scores) - 1):
        heading = part.locator("thead th").nth(2 + number)
        heading.get_by_role("button").click()
        expect(heading).to_have_attribute("aria-sort", "descending")
        check(np.argsort(-scores[number], kind="stable"))
        expect(heading.get_by_role("button")).to_be_focused()
        desk.page.keyboard.press("Enter")
        expect(heading).to_have_attribute("aria-sort", "ascending")
        check(np.argsort(scores[number], kind="stable"))
    part.get_by_role("button", name="place").click()
    check(range(len(words)))
    rows_shown.nth(3).click()
    expect(desk.page.locator(".plate .reading .on.locked")).to_have_text([words[3]["text"]] * len(scores))
    check_disagreement(desk, document)
    no_violation(desk.page)


def test_the_table_follows_the_page(desk: Visit) -> None:
    desk.open(f"/text?{FEW}")
    part = opened(desk, "wordtable")
    with view(desk.page):
        desk.page.get_by_role("radio", name="pieces").check()
    pieces = [token for token in desk.document()["input"]["tokens"] if not token["special"]]
    expect(part.locator("tbody tr")).to_have_count(len(pieces))
    before = desk.id
    desk.page.get_by_label("The review to explain").fill("Warm, short, good.")
    desk.page.get_by_role("button", name="Explain this review").click()
    desk.next_maps(before)
    document = desk.document()
    expect(part.locator("tbody tr")).to_have_count(sum(not token["special"] for token in document["input"]["tokens"]))
    set_beside(desk, document["top"][1]["label"])
    heads = part.locator("thead th")
    expect(heads).to_have_count(2 + 2 * len(document["maps"]))
    expect(heads.nth(3)).to_contain_text(document["top"][1]["label"])


@pytest.mark.trained
def test_what_was_not_read_is_folded(desk: Visit) -> None:
    desk.explain_too_long()
    document = desk.document()
    tokens = [token for token in document["input"]["tokens"] if not token["special"]]
    gap = max(((token["end"], other["start"]) for token, other in pairwise(tokens)), key=lambda pair: pair[1] - pair[0])
    unread = document["input"]["text"][slice(*gap)]
    plate = desk.page.locator(".plate").first
    count = len(re.findall(r"\w+|[^\w\s]", unread))
    assert f" {count} words" in document["notes"][0]
    fold = plate.get_by_role("button", name=f"… {count} words not read …")
    expect(plate.locator(".unread")).to_be_hidden()
    no_violation(desk.page)
    fold.click()
    expect(plate.locator(".unread")).to_be_visible()
    expect(plate.locator(".unread")).to_have_text(unread)
    plate.locator(".fold").press("Enter")
    expect(plate.locator(".unread")).to_be_hidden()
