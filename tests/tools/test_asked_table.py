"""The table of asked-for families is what is measured, and has each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.asked_families import ASKED_FAMILIES, outcome_of
from tools.asked_table import PAGE, block_of
from vitrine_server.commands.text_tables import markdown_table

TEXT = PAGE.read_text("utf-8").partition("<!-- asked for -->\n")[2].partition("<!-- end of asked for -->")[0]
ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_family_is_there_and_the_count_is_that_of_the_rows() -> None:
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in TEXT.splitlines() if line.startswith("| ")][2:]
    assert [row[0] for row in rows] == [asked.name for asked in ASKED_FAMILIES]
    assert TEXT.partition("\n")[0] == block_of([(name, "", what) for name, _, what in rows]).partition("\n")[0]
    assert all(asked.make or (ROOT / asked.tests).is_file() for asked in ASKED_FAMILIES)


@pytest.mark.parametrize("name", ["Qwen2.5-VL", "T5", "AST", "Whisper", "RT-DETR", "BLIP-ITM"])
def test_a_row_is_measured_anew(name: str) -> None:
    """``python -m tools.asked_table`` writes them."""
    asked = next(asked for asked in ASKED_FAMILIES if asked.name == name)
    assert markdown_table(("", "", ""), [outcome_of(asked)]).splitlines()[-1] in TEXT
