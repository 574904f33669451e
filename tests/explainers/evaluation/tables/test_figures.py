"""Figures of made-up reports as cells: marks, what has no value and why, what data sets are called."""

from __future__ import annotations

from typing import Any

import pytest

from explainers.evaluation.tables.figures import MeasuredColumn, NamedReport, dataset_titles, measured_columns
from tests.support.made_up_run import report

SPECS = ("rollout", "fullgrad:libra", "random")


def found(document: dict[str, Any], *metrics: str, specs: tuple[str, ...] = SPECS) -> list[MeasuredColumn]:
    return list(measured_columns([NamedReport("a", document)], lambda name, family: name in metrics or family in metrics, specs))


def test_the_best_of_what_is_shown_is_marked_and_what_is_like_it() -> None:
    document = report()
    (column,) = found(document, "mif")
    assert column.column.head == ("MIF accuracy",)
    assert column.cells["fullgrad:libra"].best
    assert column.cells["rollout"].tied  # p is 1 for each pair
    assert not column.cells["random"].tied  # a control
    document["apart"]["mif"] = [[1, 0.04, 0.01], [0.04, 1, 0.01], [0.01, 0.01, 1]]
    (column,) = found(document, "mif")
    assert not column.cells["rollout"].tied
    (alone,) = found(document, "mif", specs=("rollout", "random"))
    assert not alone.cells["rollout"].best  # there is nothing to compare it with


def test_where_a_control_is_as_good_nothing_is_marked() -> None:
    document = report()
    for figure in document["results"]["mif"].values():
        figure["tied"] = True
    (column,) = found(document, "mif")
    assert column.doubt is not None
    assert not any(cell.best or cell.tied for cell in column.cells.values())


def test_what_has_no_value_says_why() -> None:
    (column,) = found(report(), "completeness")
    assert column.cells["rollout"].value is None
    assert "promises no sum" in column.cells["rollout"].note
    (column,) = found(report(), "ap")
    assert (column.cells["rollout"].inputs, column.cells["rollout"].of) == (5, 7)


def test_costs_and_blocks_are_columns_too() -> None:
    figure = {"value": 0.5, "low": 0.4, "high": 0.7, "inputs": 7}
    nothing = {"value": None, "low": None, "high": None, "inputs": 0}
    document = report()
    document["costs"] = {
        "devices": ["a GPU"],
        "seconds": {"rollout": figure, "fullgrad:libra": figure, "random": nothing},
        "memory": {"rollout": 2**29, "fullgrad:libra": None, "random": None},
    }
    blocks = [{"value": value, "low": 0, "high": 1, "without_biases": 1} for value in (0.1, 0.2)]
    document["blocks"] = {"rollout": None, "fullgrad:libra": blocks, "random": None}
    seconds, memory = found(document, "costs")
    assert (seconds.cells["rollout"].value, seconds.cells["rollout"].high, seconds.column.unit) == (0.5, 0.7, "s")
    assert "earlier version" in seconds.cells["random"].note
    assert (memory.cells["rollout"].value, memory.column.unit) == (0.5, "GiB")
    assert "a GPU" in memory.cells["random"].note
    first, second = found(document, "conservation_by_block")
    assert [column.cells["fullgrad:libra"].value for column in (first, second)] == [0.1, 0.2]
    assert "follows no rule" in first.cells["rollout"].note
    runs = [NamedReport("new", document), NamedReport("old", report("photos-vit"))]
    every = list(measured_columns(runs, lambda name, family: name in ("mif", "seconds"), SPECS))
    assert [(column.model, column.metric) for column in every] == [
        ("scenes-vit", "mif"),
        ("scenes-vit", "seconds"),
        ("photos-vit", "mif"),
        ("photos-vit", "seconds"),
    ]
    assert "recorded no costs" in every[3].cells["rollout"].note
    alone = list(measured_columns(runs, lambda name, family: name == "seconds", SPECS))
    assert [column.model for column in alone] == ["scenes-vit"]  # no column of dashes alone


@pytest.mark.parametrize(
    ("changes", "titles"),
    [
        ([{}, {"model": "photos-vit"}], ["Scenes", "Scenes"]),
        ([{}, {"how": "black"}], ["Scenes", "Scenes, how black"]),
        ([{"steps": 10}, {"steps": 20, "target": "gold"}], ["Scenes", "Scenes, steps 20, target gold"]),
        ([{}, {}], ["Scenes (run 0)", "Scenes (run 1)"]),
    ],
)
def test_data_sets_say_what_sets_runs_apart(changes: list[dict[str, Any]], titles: list[str]) -> None:
    reports = [report() for _ in changes]
    for document, change in zip(reports, changes, strict=True):
        document["plan"] |= change
    called = dataset_titles([NamedReport(f"run {number}", document) for number, document in enumerate(reports)])
    assert [sorted(title.split(", ")) for title in called] == [sorted(title.split(", ")) for title in titles]


def test_runs_of_other_inputs_say_how_many() -> None:
    few, many = report(), report()
    many["inputs"] = 500
    assert dataset_titles([NamedReport("a", few), NamedReport("b", many)]) == ["Scenes, 7 inputs", "Scenes, 500 inputs"]
