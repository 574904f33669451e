"""Tables of numbers as CSV."""

from __future__ import annotations

import csv
import io

from tests.support.node import compute_all

CSV = "async (rows) => (await script('export/csv.js')).toCsv(rows)"


def test_cells_with_commas_quotes_and_line_breaks_come_back() -> None:
    rows = [["a,b", 'say "no"', "two\nlines"], ["", "-1.5e-07", "é"]]
    written, numbers = compute_all(CSV, [rows, [[None, 1.25, -3]]])
    assert list(csv.reader(io.StringIO(written, newline=""))) == rows
    assert numbers == ",1.25,-3\r\n"
