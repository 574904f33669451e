"""``vitrine evaluate``: what it measures and reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from server.cli import main


def test_evaluate_measures_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "--model", "scenes-vit", "--dataset", "scenes", "--methods", "random,rollout", "--metrics", "mif,ap,completeness"]
    assert main([*words, "--limit", "1", "--device", "cpu", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "rollout" in printed
    assert "ap %" in printed
    assert "–: no value: the method promises no sum" in printed
    report = json.loads((tmp_path / "run/report.json").read_text("utf-8"))
    assert report["command"].endswith("--methods random,rollout --metrics mif,ap,completeness --limit 1 --out DIR")
    assert str(tmp_path) not in json.dumps(report)
    assert main([*words, "--limit", "1", "--device", "cpu", "--out", str(tmp_path / "run"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["results"] == report["results"]
    assert again["seconds"] is None


def test_evaluate_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--model", "scenes-vit"]) == 2
    assert "--dataset, --out" in capsys.readouterr().err
    assert main(["evaluate", "--model", "scenes-vit", "--dataset", "voc", "--out", str(tmp_path)]) == 2
    assert "--data DIR" in capsys.readouterr().err
    assert main(["evaluate", "--list"]) == 0
    printed = capsys.readouterr().out
    assert "imagenet-s" in printed
    assert "srg" in printed
