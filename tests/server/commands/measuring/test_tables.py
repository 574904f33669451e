"""``vitrine tables``: two runs in one table, printed and in files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.support.made_up_run import write_run
from vitrine_server.cli import main


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of two runs."""
    write_run(tmp_path / "runs" / "first")
    write_run(tmp_path / "runs" / "second", "photos-vit")
    return tmp_path / "runs"


def test_two_runs_are_one_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables", str(runs / "first"), str(runs / "second"), "--metrics", "mif,ap"]) == 0
    printed = capsys.readouterr().out
    head = next(line for line in printed.splitlines() if line.startswith("| Method"))
    assert [part.strip() for part in head.split("|")[2:-1]] == [
        "scenes-vit · Scenes · MIF accuracy % ↑",
        "scenes-vit · Scenes · Segmentation AP % ↑",
        "photos-vit · Scenes · MIF accuracy % ↑",
        "photos-vit · Scenes · Segmentation AP % ↑",
        "mean rank · 2 pairs of model and data set · MIF accuracy ↓",
        "mean rank · 2 pairs of model and data set · Segmentation AP ↓",
    ]
    assert "| Fullgrad:Libra `fullgrad:libra` | **80.0** \\[78.0, 83.0\\]" in printed


def test_a_table_is_written_in_several_forms(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tmp_path / f"table.{name}" for name in ("csv", "markdown", "latex", "html", "pairs")}
    words = ["tables", str(runs), str(runs / "first"), "--methods", "rollout,fullgrad*", "--title", "Both"]
    assert (
        main([*words, "--rows", "methods", "--columns", "model", "dataset", "metric"] + [f"--{k}={file}" for k, file in files.items()]) == 0
    )
    assert capsys.readouterr().out == ""
    lines = list(csv.DictReader(files["csv"].read_text("utf-8").splitlines()))
    assert len([line for line in lines if line["model"] == "photos-vit"]) == 2 * 3  # a run that is named twice counts once
    assert lines[0]["spec"] == "fullgrad:libra"
    assert r"\caption{Both}" in files["latex"].read_text("utf-8")
    assert "<h1>Both</h1>" in files["html"].read_text("utf-8")
    assert files["markdown"].read_text("utf-8").startswith("**Both**")
    pairs = list(csv.DictReader(files["pairs"].read_text("utf-8").splitlines()))
    assert {line["spec"] for line in pairs} == {"rollout fullgrad:libra"}


def test_what_cannot_be_done_says_what_to_type(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables", str(tmp_path / "nothing")]) == 2
    assert "holds no report.json" in capsys.readouterr().err
    assert main(["tables", str(runs), "--metrics", "miff"]) == 2
    assert "did you mean mif" in capsys.readouterr().err
    assert main(["tables", str(runs), "--rows", "colour"]) == 2
    assert "name each of method, model, dataset, metric once" in capsys.readouterr().err
    assert main(["tables", str(runs), "--csv", str(tmp_path / "no" / "table.csv")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    (runs / "first" / "report.json").write_text(json.dumps({"format": 1}), "utf-8")
    assert main(["tables", str(runs)]) == 2
    assert "is no report of vitrine evaluate" in capsys.readouterr().err
