"""Small tables as text, against what must be written."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest

from explainers.evaluation.tables.record import Cell, Column, Row, Table
from explainers.evaluation.tables.writing import to_csv, to_html, to_latex, to_markdown

COLUMNS = (
    Column(("ViT_B", "A&B", "MIF"), "share", "higher"),
    Column(("ViT_B", "A&B", "Error"), direction="lower"),
    Column(("BERT", "SST-2", "Time"), "s", "lower"),
)
ROWS = (
    Row(
        "Rollout",
        "rollout",
        (
            Cell(value=0.51234, low=0.4, high=0.6, inputs=10, best=True, tied=True),
            Cell(value=None, note="promises no sum | at all"),
            Cell(value=0.25, error=0.01),
        ),
    ),
    Row(
        "Grad <CAM>",
        "gradcam?a=b",
        (
            Cell(value=0.5, low=0.4, high=0.6, inputs=9, tied=True),
            Cell(value=-2e-7, best=True),
            Cell(value=None, note="not recorded"),
        ),
    ),
)
TABLE = Table("50 % of _it_", ("Holm, 5 %.",), COLUMNS, ROWS)


def test_csv_has_a_line_a_cell_and_all_digits() -> None:
    head, first, second, *_, last = csv.reader(io.StringIO(to_csv(TABLE)))
    assert ",".join(head) == "method,spec,model,data set,metric,unit,better,value,low,high,error,inputs,of,best,tied,note"
    assert first == [
        "Rollout",
        "rollout",
        "ViT_B",
        "A&B",
        "MIF",
        "share",
        "higher",
        "0.51234",
        "0.4",
        "0.6",
        "",
        "10",
        "",
        "True",
        "True",
        "",
    ]
    assert second[7:] == ["", "", "", "", "", "", "False", "False", "promises no sum | at all"]
    assert last[:7] == ["Grad <CAM>", "gradcam?a=b", "BERT", "SST-2", "Time", "s", "lower"]


def test_markdown() -> None:
    expected = r"""**50 % of \_it\_**

| Method | ViT_B · A&B · MIF % ↑ | ViT_B · A&B · Error ↓ | BERT · SST-2 · Time (s) ↓ |
| --- | ---: | ---: | ---: |
| Rollout `rollout` | **51.2** \[40.0, 60.0\] | – \[1\] | 0.25 ±0.01 |
| Grad \<CAM> `gradcam?a=b` | 50.0\* \[40.0, 60.0\] 9 of 10 | **-2e-07** | – \[2\] |

- Bold: the best.
- \*: cannot be told from the best.
- In brackets: the interval.
- ±: one standard error.
- n of m: so many of the inputs have a value; the others are left out of it.
- Holm, 5 %.
- \[1\] promises no sum \| at all
- \[2\] not recorded
"""
    assert to_markdown(TABLE) == expected


def test_latex_escapes_text_and_joins_columns_under_their_heads() -> None:
    lines = to_latex(TABLE).splitlines()
    start = lines.index(r"\toprule")
    assert lines[:start] == [r"\begin{table}", r"\centering", r"\caption{50 \% of \_it\_}", r"\begin{tabular}{lrrr}"]
    assert lines[start + 1 : lines.index(r"\bottomrule")] == [
        r" & \multicolumn{2}{c}{ViT\_B} & \multicolumn{1}{c}{BERT} \\",
        r"\cmidrule(lr){2-3}\cmidrule(lr){4-4}",
        r" & \multicolumn{2}{c}{A\&B} & \multicolumn{1}{c}{SST-2} \\",
        r"\cmidrule(lr){2-3}\cmidrule(lr){4-4}",
        r"Method & MIF \% $\uparrow$ & Error $\downarrow$ & Time (s) $\downarrow$ \\",
        r"\midrule",
        r"Rollout & \textbf{51.2} {\scriptsize {[}40.0, 60.0{]}} & --\textsuperscript{1} & 0.25 {\scriptsize $\pm$0.01} \\",
        r"Grad \textless{}CAM\textgreater{} & 50.0* {\scriptsize {[}40.0, 60.0{]}} {\scriptsize 9 of 10} & \textbf{-2e-07}"
        r" & --\textsuperscript{2} \\",
    ]
    assert r"\par {\footnotesize \textsuperscript{1} promises no sum \textbar{} at all}" in lines
    assert lines[-1] == r"\end{table}"


@pytest.mark.parametrize(
    ("columns", "environment", "size", "is_shrunk"),
    [
        (3, "table", "", False),
        (5, "table", r"\small", False),
        (8, "sidewaystable", r"\small", False),
        (11, "sidewaystable", r"\footnotesize", True),
    ],
)
def test_latex_of_a_wide_table_is_small_then_turned_then_shrunk(columns: int, environment: str, size: str, is_shrunk: bool) -> None:
    heads = tuple(Column((f"ViT {number}", "ImageNet", "MIF"), "share", "higher") for number in range(columns))
    cells = tuple(Cell(value=0.512, low=0.4, high=0.6) for _ in heads)
    lines = to_latex(Table("wide", (), heads, (Row("Libra FullGrad+", "fullgrad_plus:libra", cells),))).splitlines()
    assert rf"\begin{{{environment}}}" in lines
    assert lines[-1] == rf"\end{{{environment}}}"
    assert (r"\usepackage{rotating}" in lines[0]) == (environment == "sidewaystable")
    assert [line for line in lines if line in (r"\small", r"\footnotesize")] == ([size] if size else [])
    assert (r"\resizebox{\linewidth}{!}{%" in lines) == (r"\end{tabular}}" in lines) == is_shrunk
    text = "\n".join(lines)
    assert text.count("{") == text.count("}")


def test_differences_stand_in_one_place_and_figures_have_the_digits_of_the_paper() -> None:
    column = Column(("AUC",), "share", "higher", decimals=2)
    number = Column(("AUAC",), "number", "higher", decimals=3)
    row = Row("Rollout", "", (Cell(value=0.5, low=0.41234, high=0.6), Cell(value=0.9)))
    table = Table("t", ("A note.",), (column, number), (row,), levels=("measure",), differences=("Other photos.", "Other & fewer."))
    markdown = to_markdown(table)
    assert r"| Rollout | 50.00 \[41.23, 60.00\] | 0.900 |" in markdown
    assert markdown.endswith("- A note.\n- How it differs from the paper and its code:\n  - Other photos.\n  - Other & fewer.\n")
    assert to_html(table).count("<li>") == 2
    assert r"\par {\footnotesize Other \& fewer.}" in to_latex(table)
    assert "differs" not in to_markdown(TABLE) + to_html(TABLE) + to_latex(TABLE)


class Cells(HTMLParser):
    """The text of each cell of a page, row by row, and over how many columns heads stand."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.widths: list[int] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.widths += [int(value) for name, value in attributes if name == "colspan" and value]

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_html_needs_nothing_else() -> None:
    page = to_html(TABLE)
    cells = Cells()
    cells.feed(page[: page.index("</table>")])
    rows = [[" ".join(text.split()) for text in row] for row in cells.rows]
    assert rows[:3] == [["", "ViT_B", "BERT"], ["A&B", "SST-2"], ["Method", "MIF % ↑", "Error ↓", "Time (s) ↓"]]
    assert rows[3:] == [
        ["Rollout rollout", "51.2 [40.0, 60.0]", "–1", "0.25 ±0.01"],
        ["Grad <CAM> gradcam?a=b", "50.0* [40.0, 60.0] 9 of 10", "-2e-07", "–2"],
    ]
    assert cells.widths == [2, 1, 2, 1]
    assert "<sup>1</sup> promises no sum | at all" in page
    assert "http" not in page


def test_a_table_is_as_wide_as_its_rows() -> None:
    with pytest.raises(ValueError, match="'Rollout' has 3 cells, the table 2 columns"):
        Table("t", (), COLUMNS[:2], ROWS)
    with pytest.raises(ValueError, match="not one part for each"):
        Table("t", (), (Column(("MIF",)),), ())
