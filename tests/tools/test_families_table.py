"""docs/families.md lists every family, with figures that running them gives."""

from __future__ import annotations

import math
import re

import pytest

from tests.families import FAMILIES
from tools.families_table import HEADINGS, NEEDS, PAGE, Row, measure, page

COMMITTED = PAGE.read_text("utf-8")
ROWS = [
    dict(zip(HEADINGS, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
    for line in COMMITTED.splitlines()
    if re.match(r"\| `[\w-]+` \| (timm|transformers|open_clip) \|", line)
]


def test_the_page_lists_every_family_once_and_no_other() -> None:
    """``python -m tools.families_table`` writes it again."""
    assert [row["family"].strip("`") for row in ROWS] == list(FAMILIES)


def test_what_is_said_around_the_table_is_fresh() -> None:
    """Methods and their needs, from the registry."""
    assert page([]).split("| --- |")[0].splitlines()[:-1] == COMMITTED.split("| --- |")[0].splitlines()[:-1]
    assert COMMITTED.endswith(page([]).split("does not run:")[1])


@pytest.mark.parametrize("name", ["deit3", "swin", "cait", "bert"])
def test_figures_are_those_of_a_run(name: str) -> None:
    told = next(row for row in ROWS if row["family"] == f"`{name}`")
    found: Row = measure(name)
    now = dict(zip(HEADINGS, found.cells(), strict=True))
    for exact in ("package", "kind", "blocks", "rules", "methods", "lacks"):
        assert told[exact] == now[exact], exact
    assert abs(math.log10(float(told["FullGrad, gradient"]) / found.gradient)) < 0.3
    assert max(float(told["FullGrad, Libra"]), found.libra) < 1e-13
    assert max(float(told["Libra, float32"]), found.libra32) < 1e-5
    assert float(told["deep Taylor"]) == pytest.approx(found.deep_taylor, rel=1e-3)


def test_libra_accounts_for_every_family_and_every_operator_has_its_rules() -> None:
    for row in ROWS:
        assert float(row["FullGrad, Libra"]) < 1e-10
        assert float(row["Libra, float32"]) < 1e-4
        assert row["rules"].startswith("all ")
        assert set(filter(None, row["lacks"].split(", "))) <= {need.replace("_", " ") for need in NEEDS}
