"""The heat table of an answer: the numbers of the API, a word of it explained by a press, and files of it."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from math import floor, log10
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, expect

import explainers
from tests.browser.support.accessibility import no_violation
from tests.browser.support.drawers import ROWS, opened
from tests.browser.support.number_format import MINUS
from tests.browser.support.serving import played
from tests.browser.support.task_model import TaskModel
from tests.browser.support.visit import Visit, visit
from tests.support.task_models import writer

PROMPT = "a good film, not a bad movie"


@pytest.fixture
def desk(browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    with played(tmp_path / "server", TaskModel(writer), device="cpu") as address:
        yield from visit(browser, address, 390)


def cells(scores: list[float]) -> list[str]:
    """A row as the table has it: two digits of the largest score, and as many decimals for all."""
    decimals = max(0, 1 - floor(log10(max(map(abs, scores)))))
    texts = [f"{abs(score):.{decimals}f}" for score in scores]
    return ["0" if float(text) == 0 else ("+" if score > 0 else MINUS) + text for text, score in zip(texts, scores, strict=True)]


def test_words_of_the_answer_by_words_of_the_prompt(desk: Visit, tmp_path: Path) -> None:
    first = desk.explained(model="reviews-bert", text=PROMPT, methods=["attcat:libra", "random"])
    page = desk.open(f"/text?id={first['id']}")
    part = opened(desk, "answertable")
    table = explainers.answer_table(writer(), PROMPT)
    expect(part.locator("tbody tr")).to_have_count(len(table.rows))
    assert part.locator("thead th").all_inner_texts() == ["answer", *table.columns]
    rows = [[row, *cells(scores)] for row, scores in zip(table.rows, table.scores.tolist(), strict=True)]
    assert part.locator("tbody tr").evaluate_all(ROWS) == rows
    strongest = max(range(len(table.columns)), key=lambda column: abs(float(table.scores[0, column])))
    colours = (
        part.locator("tbody tr").first.locator("td").evaluate_all("cells => cells.map(cell => getComputedStyle(cell).backgroundColor)")
    )
    assert colours[strongest] != colours[int(table.scores[0].abs().argmin())]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    files = {}
    for ending in ("CSV", "PNG"):
        with page.expect_download() as download:
            part.get_by_role("button", name=ending, exact=True).click()
        files[ending] = tmp_path / f"table.{ending}"
        download.value.save_as(files[ending])
    with files["CSV"].open(encoding="utf-8-sig", newline="") as lines:
        saved = list(csv.reader(lines))
    assert saved[0] == ["word of the answer", "logit", *table.columns]
    assert [float(cell) for cell in saved[1][2:]] == pytest.approx(table.scores[0].tolist(), abs=1e-5)
    with Image.open(files["PNG"]) as picture:
        assert len({picture.convert("RGB").getpixel((x, picture.height - 80)) for x in range(0, picture.width, 10)}) > 2
    part.get_by_label("by", exact=True).select_option("attcat:libra")
    by_attcat = explainers.answer_table(writer(), PROMPT, "attcat:libra").scores[0].tolist()
    expect(part.locator("tbody tr").first.locator("td")).to_have_text(cells(by_attcat))
    before = desk.id
    part.get_by_role("button", name=table.rows[1], exact=True).click()
    desk.next_maps(before)
    document = desk.document()
    assert (document["at"], document["input"]["answer"]) == (table.places[1], first["input"]["answer"])
    expect(part.locator("[aria-pressed=true]")).to_have_text(table.rows[1])
    no_violation(page)
