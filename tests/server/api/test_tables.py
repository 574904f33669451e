"""The calls behind the table over all runs of the Leaderboard page."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.conftest import Check, Site, Sites
from tests.support.made_up_run import report, write_run
from vitrine_server.api.tables import MIN_INPUTS

TABLE = "/api/leaderboard/table"
MINE = "model=mine&model=other"


@pytest.fixture
def site(sites: Sites, tmp_path: Path) -> Iterator[Site]:
    """A server with two runs of models that no run which ships is of, and a trial of a third."""
    write_run(tmp_path / "first", "mine")
    write_run(tmp_path / "second", "other")
    trial = {**report("trial"), "inputs": MIN_INPUTS - 1}
    (write_run(tmp_path / "trial", "trial") / "report.json").write_text(json.dumps(trial), "utf-8")
    with sites(loaded=False, runs=(str(tmp_path),)) as running:
        yield running


def test_figures_come_printed_and_as_numbers(site: Site) -> None:
    table = site.get(f"{TABLE}?{MINE}&metric=mif&metric=completeness")
    assert table["upper_heads"][0] == [
        {"head": "mine", "columns": 2},
        {"head": "other", "columns": 2},
        {"head": "mean rank", "columns": 1},  # of completeness one method alone has values
    ]
    assert [column["printed"] for column in table["columns"][:2]] == ["MIF accuracy % ↑", "Completeness error ↓"]
    best = table["rows"][0]
    assert best["spec"] == "fullgrad:libra"
    assert best["cells"][0] == {
        "value": 0.8,
        "printed": "80.0",
        "spread": "[78.0, 83.0]",
        "count": "",
        "note": None,
        "best": True,
        "star": False,
    }
    missing = next(row for row in table["rows"] if row["spec"] == "rollout")["cells"][1]
    assert (missing["value"], missing["printed"]) == (None, "–")
    assert "promises no sum" in table["numbered_notes"][missing["note"] - 1]
    assert any("cannot tell any two methods apart" in note for note in table["notes"])


def test_rows_may_be_models_and_data_sets(site: Site) -> None:
    table = site.get(f"{TABLE}?{MINE}&metric=mif&family=attention&rows=settings")
    assert [row["title"] for row in table["rows"]] == ["mine · Scenes", "other · Scenes"]
    assert [column["printed"] for column in table["columns"]] == ["Rollout % ↑"]


def test_choices_are_those_of_runs_that_are_no_trials(site: Site) -> None:
    choices = site.get("/api/leaderboard/choices")
    assert {"mine", "other", "photos-vit"} <= set(choices["models"])
    assert "trial" not in choices["models"]
    assert {"name": "scenes", "title": "Scenes"} in choices["datasets"]
    assert {"name": "ap", "title": "Segmentation AP", "family": "localisation"} in choices["metrics"]
    assert {"attention", "control"} <= {family["name"] for family in choices["method_families"]}


def test_files_hold_the_same(site: Site) -> None:
    answer = site.client.get(f"{TABLE}.csv?{MINE}&metric=mif")
    assert answer.headers["content-disposition"] == 'attachment; filename="vitrine-table.csv"'
    lines = list(csv.DictReader(answer.text.splitlines()))
    assert {(line["model"], line["value"]) for line in lines if line["spec"] == "rollout"} >= {("mine", "0.4"), ("other", "0.4")}
    latex = site.client.get(f"{TABLE}.tex?{MINE}&metric=mif")
    assert r"\multicolumn{1}{c}{mine}" in latex.text
    assert latex.headers["content-type"].startswith("application/x-tex")


def test_nothing_is_left_of_a_selection(site: Site) -> None:
    table = site.get(f"{TABLE}?model=mine&metric=auprc")
    assert table["rows"] == table["columns"] == []
    assert table["notes"] == ["No run measured any of these methods by any of these metrics: select less at once."]


@pytest.mark.parametrize("wrong", ["model=none", "metric=miff", "family=colour"])
def test_what_no_run_has_is_refused(site: Site, refused: Check, wrong: str) -> None:
    for ending in ("", ".csv", ".tex"):
        assert "/choices" in refused(site.client.get(f"{TABLE}{ending}?{wrong}"), 404, "no-such-table")["send"]
