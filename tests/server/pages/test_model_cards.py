"""Model cards as HTML."""

from __future__ import annotations

import re

import pytest

from explainers.models.catalogue import embedded_names
from explainers.models.loading import card
from tests.server.conftest import Check, Site
from vitrine_server.pages.model_cards import card_html


def test_headings_fit_under_the_heading_of_the_card_and_metadata_is_left_out() -> None:
    html = card_html("---\nlicense: mit\n---\n# Name\n\n#### Deep\n")
    assert html == "<h3>Name</h3>\n<h6>Deep</h6>\n"


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a <b onclick=alert(1)>b</b>", "[a](javascript:alert(1))"]
)
def test_markup_of_a_card_is_shown_as_text(text: str) -> None:
    html = card_html(text)
    assert set(re.findall(r"<(\w+)", html)) == {"p"}
    assert text.replace("<", "&lt;").replace(">", "&gt;") in html


def test_a_card_loads_nothing_and_its_links_open_beside_the_page() -> None:
    html = card_html("![a](https://example.org/a.png) [b](https://example.org) [c](other.md)")
    assert "<img" not in html
    assert '<a href="https://example.org" rel="noreferrer" target="_blank">b</a>' in html
    assert "[c](other.md)" in html


def test_a_wide_table_scrolls_by_keyboard_too() -> None:
    html = card_html("| a | b |\n|---|---|\n| `c` | **d** |\n")
    assert html.startswith('<div class="scroll" tabindex="0"><table>')
    assert "<td><code>c</code></td>" in html
    assert html.rstrip().endswith("</table></div>")


def test_an_empty_head_of_a_column_is_a_cell() -> None:
    html = card_html("| | b |\n|---|---|\n| c | d |\n")
    assert "<td></td>\n<th>b</th>" in html


@pytest.mark.parametrize("name", embedded_names())
def test_the_cards_that_ship_are_understood(name: str) -> None:
    text = card(name)
    assert text is not None
    html = card_html(text)
    assert len(re.findall(r"<h[3-6]>", html)) == len(re.findall(r"^#+ ", text, re.MULTILINE))
    assert len(re.findall(r"<table>", html)) == len(re.findall(r"^\|-[-|: ]+\|$", text, re.MULTILINE))
    assert "|---" not in html


def test_a_model_has_a_page_with_its_card(site: Site, refused: Check) -> None:
    answer = site.client.get("/models/scenes-vit")
    assert answer.headers["content-type"].startswith("text/html")
    assert "<h3>" in answer.text
    refused(site.client.get("/models/no/such"), 404, "unknown-model")
