"""The bias probe on the Text page, against the numbers of the API."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.support.accessibility import no_violation
from tests.browser.support.drawers import ROWS, opened
from tests.browser.support.number_format import MINUS, percent, shown, shown_score
from tests.browser.support.serving import HTTP
from tests.browser.support.visit import Visit


def _points(value: float) -> str:
    size = shown(100 * value, 2 if abs(100 * value) < 9.95 else 3)
    return f"{'' if size.startswith(MINUS) else '+'}{size} points"


def test_a_word_is_swapped_and_the_example_is_a_stored_result(desk: Visit) -> None:
    """After a sentence without a slot, of which the page says what to write."""
    desk.open("/text?methods=random")
    part = opened(desk, "probe")
    part.get_by_label("Sentence").fill("A good film.")
    part.get_by_role("button", name="Swap the words").click()
    expect(part.get_by_role("alert")).to_contain_text("Write {} once")
    desk.refused(422)

    part.get_by_role("button", name="Languages").click()
    template = part.get_by_label("Sentence").input_value()
    part.get_by_label("Name of list 1").fill("first")
    part.get_by_label("Words of list 1").fill("French, Italian ,")
    part.get_by_label("Words of list 2").fill("Indian")
    part.get_by_role("button", name="Another list").click()
    part.get_by_label("Compare the score of").select_option("positive")
    part.get_by_role("button", name="Swap the words").click()
    table = part.locator(".found table")
    expect(table).to_be_visible(timeout=60_000)
    body = {
        "model": "reviews-bert",
        "template": template,
        "groups": [{"name": "first", "words": ["French", "Italian"]}, {"name": "other", "words": ["Indian"]}],
        "target": "positive",
    }
    answer = HTTP.post(f"{desk.address}/api/probes", json=body).json()
    cells = table.locator("tbody tr").evaluate_all(ROWS)

    def line(numbers: dict[str, float]) -> list[str]:
        return [percent(numbers["probability"]), shown_score(numbers["relevance"], True)]

    rows = {row["word"]: line(row) for row in answer["rows"]}
    assert [row[0].split()[0] for row in cells] == ["first", "French", "Italian", "mean", "other", "Indian", "first"]
    assert [row[1:] for row in cells] == [
        [],
        rows["French"],
        rows["Italian"],
        line(answer["groups"][0]),
        [],
        rows["Indian"],
        [_points(answer["difference"]["probability"]), shown_score(answer["difference"]["relevance"], True)],
    ]
    expect(part.locator(".status")).to_contain_text("first less other")

    part.get_by_text("An example of what this finds").click()
    stored = HTTP.get(f"{desk.address}/static/tools/probe-example.json").json()
    example = part.locator(".example")
    expect(example.locator("tbody tr")).to_have_count(len(stored["rows"]))
    expect(example).to_contain_text("A stored result of reviews-bert, second edition.")
    top, *_ = example.locator("tbody tr").evaluate_all(ROWS)
    row = stored["rows"][0]
    assert top == [row["word"], percent(row["probability"]), shown_score(row["logit"], True), shown_score(row["relevance"], True)]
    no_violation(desk.page)
    example.get_by_role("button", name="Use these words").click()
    expect(part.get_by_label("Sentence")).to_have_value(stored["template"])
    expect(part.get_by_label("Words of list 1")).to_have_value(", ".join(row["word"] for row in stored["rows"]))
    expect(part.get_by_label("Words of list 2")).to_have_count(0)


def test_a_phone(phone: Visit) -> None:
    phone.open("/text")
    for name in ("wordtable", "disagree", "probe"):
        opened(phone, name)
    phone.page.get_by_role("button", name="Swap the words").click()
    expect(phone.page.locator("#drawer-probe .found table")).to_be_visible(timeout=60_000)
    assert phone.page.evaluate("() => document.documentElement.scrollWidth") == 390
