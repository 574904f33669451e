"""Tables of numbers as CSV: what a spreadsheet reads is what the API says."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.support.serving import HTTP
from tests.browser.support.visit import FEW, Visit


def saved(page: Page, press: Locator) -> tuple[str, list[dict[str, str]]]:
    """The name of the file that a press saves, and its rows."""
    with page.expect_download() as download:
        press.click()
    text = download.value.path().read_text("utf-8-sig")
    return download.value.suggested_filename, list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_words_of_a_text_with_their_scores(desk: Visit) -> None:
    page = desk.open(f"/text?{FEW}&open=wordtable")
    name, rows = saved(page, page.locator("#drawer-wordtable").get_by_role("button", name="CSV"))
    document = desk.document()
    assert name == "vitrine-reviews-bert-positive-words.csv"
    assert [row["word"] for row in rows] == [word["text"] for word in document["input"]["words"]]
    assert [row["place"] for row in rows] == [str(i + 1) for i in range(len(rows))]
    for attribution in document["maps"]:
        if attribution["signed"]:  # a word's score is the sum of its pieces
            sums = [sum(attribution["scores"][token] for token in word["tokens"]) for word in document["input"]["words"]]
            assert [float(row[attribution["title"]]) for row in rows] == pytest.approx(sums)


def test_the_curves_of_the_deletion_test(desk: Visit) -> None:
    page = desk.open(f"/image?{FEW}")
    page.locator("#removed").fill("35")
    expect(page.locator(".panels svg")).to_have_count(2)
    page.get_by_role("group", name="Export the figure").or_(page.locator("#export summary")).last.click()
    name, rows = saved(page, page.get_by_text("CSV of the deletion curves"))
    target = desk.document()["targets"][0]["label"]
    asked = HTTP.post(f"{desk.address}/api/explanations/{desk.id}/deletion-test", json={"target": target}).json()
    assert name == f"vitrine-{desk.document()['model']}-{target.lower().replace(' ', '-')}-curves.csv"
    read = asked["read"]
    for curve in asked["curves"]:
        found = [row for row in rows if (row["method"], row["first"]) == (curve["method"], curve["order"])]
        assert [int(row["gone"]) for row in found] == asked["counts"]
        assert [float(row[read]) for row in found] == pytest.approx(curve[read])
    assert [float(row[read]) for row in rows if row["first"] == "random"] == pytest.approx(asked["random"][read])


def test_a_run_of_the_leaderboard(desk: Visit) -> None:
    page = desk.open("/leaderboard/figures?run=clip-on-coco-pairs", maps=False)
    name, rows = saved(page, page.get_by_role("button", name="CSV"))
    run: dict[str, Any] = next(run for run in desk.get("/api/leaderboard")["runs"] if run["id"] == "clip-on-coco-pairs")
    assert name == "vitrine-clip-on-coco-pairs.csv"
    assert len(rows) == len(run["methods"]) * len(run["metrics"])
    for row in rows:
        figure = run["results"][row["metric"]][row["method"]]
        value, low = (float(row[name]) if row[name] else None for name in ("value", "low"))  # no map of RefineCAM has a value here
        assert (value, low, int(row["inputs"])) == (figure["value"], figure["low"], figure["inputs"])
        assert row["tied_with_best"] == str(figure["tied"]).lower()
