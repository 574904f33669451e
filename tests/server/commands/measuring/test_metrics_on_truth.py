"""``vitrine metrics-on-truth``: a table, sentences and a file of two runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.made_up_world import write_world
from vitrine_server.cli import main


def test_runs_are_compared_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(write_world(tmp_path / name)) for name in ("one", "two")]
    assert main(["metrics-on-truth", *runs, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    lines = {line.split()[0]: line for line in printed.splitlines() if line}
    assert lines["srg"].count("1.00 (1.00 to 1.00)") == 3  # on pictures, and in both worlds
    assert "yes" in lines["energy"]
    assert "Against the truth on pictures: MIF log-odds." in printed
    assert "the truth itself; its inverse" not in printed  # of worlds without controls
    known = [str(write_world(tmp_path / name, dataset="votes")) for name in ("three", "four")]
    assert main(["metrics-on-truth", *known, "--out", str(tmp_path / "known")]) == 0
    printed = capsys.readouterr().out
    places = printed[printed.index("the truth itself; its inverse") :]
    assert next(line for line in places.splitlines() if line.startswith("srg ")).count("1 of 6; 6 of 6") == 2
    assert "To choose a method on pictures by one metric, measure Symmetric relevance gain (1.00): it agrees best" in printed
    assert main(["metrics-on-truth", *runs, "--out", str(tmp_path / "again"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "out" / "truth.json").read_text("utf-8"))


def test_what_is_no_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics-on-truth", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "no finished run" in capsys.readouterr().err
