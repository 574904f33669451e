"""Who is marked as the best in a report: no control, and nobody where the control does as well."""

from __future__ import annotations

from typing import Any

import pytest

from explainers.evaluation.html import page_of
from explainers.evaluation.marks import best_methods, cannot_tell
from explainers.methods.registry import is_control
from tests.support.made_up_run import report


def measured(
    direction: str, control: float, tied: bool, *, family: str = "faithfulness", name: str = "lif"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A report of two methods, at 0.8 and 0.4, and the control."""
    metric = {"name": name, "title": "Kept", "direction": direction, "family": family, "unit": "share"}
    values = {"rollout": (0.8, True), "fullgrad:libra": (0.4, True), "random": (control, tied)}
    results = {
        spec: {"value": value, "error": 0.01, "low": value - 0.02, "high": value + 0.02, "tied": mark}
        for spec, (value, mark) in values.items()
    }
    return {"inputs": 6, "metrics": [metric], "results": {name: results}}, metric


def test_only_what_knows_nothing_is_a_control() -> None:
    assert [is_control(spec) for spec in ("random", "random?seed=2", "rollout", "of_another_package:libra", "?")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_column_that_tells_marks_the_best() -> None:
    made = measured("higher", 0.1, tied=False)
    assert cannot_tell(*made) is None
    assert best_methods(*made) == {"rollout", "fullgrad:libra"}


@pytest.mark.parametrize("control", [0.9, 0.8, 0.79])
def test_a_column_in_which_a_control_is_among_the_best_says_why_and_marks_nobody(control: float) -> None:
    made = measured("higher", control, tied=True)
    reason = cannot_tell(*made) or ""
    assert "random numbers does as well as the best, and 2 of 2 methods" in reason
    assert f"the answer stays in {control:.0%} of the cases" in reason
    assert best_methods(*made) == set()


def test_too_many_comparisons_are_another_reason_than_a_control_that_is_good() -> None:
    far = cannot_tell(*measured("lower", 1.0, tied=True, family="sanity", name="randomisation")) or ""
    assert "compares 3 methods at once on 6 inputs" in far
    assert "values lie apart" in far
    never = cannot_tell(*measured("lower", 0.0, tied=True, family="sanity", name="sensitivity")) or ""
    assert "it never changes" in never


def test_the_page_of_a_report_mutes_such_a_column_and_says_why() -> None:
    document = report()
    for spec in document["results"]["ap"]:
        document["results"]["ap"][spec]["tied"] = True
    document["results"]["ap"]["random"].update(value=0.95, low=0.93, high=0.98)
    page = page_of(document, None)
    assert page.count("*") > 0
    assert "<td class=tied>95.0*" not in page
    assert "<td class=soft>95.0" in page
    assert "Segmentation AP</b>, in grey: A map of random numbers does as well as the best" in page
    assert "<td class=tied>80.0*" in page  # of a metric that tells


def test_names_in_a_report_are_no_markup() -> None:
    document = report()
    document["plan"]["model"] = "<script>"
    assert "<script>" not in page_of(document, None)
