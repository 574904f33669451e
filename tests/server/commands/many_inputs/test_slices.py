"""``vitrine slices``: what many wrong rows have in common."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explainers
from explainers.collection.intervals import Mean, share
from explainers.collection.slices.records import HidingTest
from tests.explainers.support.collected import made_up_collection, made_up_map, made_up_row
from vitrine_server.cli import main
from vitrine_server.commands.many_inputs.slices import in_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A collection of 160 rows, of which a quarter is wrong, and half of these stand on the lower right corner."""
    rows = []
    for i in range(160):
        scores = np.random.default_rng(i).integers(-20, 20, 9)
        scores[8] = 120 if i % 8 == 0 else 0
        each = made_up_map(scores.tolist(), embedding=(scores / np.abs(scores).sum()).tolist(), share_on_border=0.9)
        rows.append(made_up_row(i, [], maps=[each], grid=[3, 3], right=i % 4 != 0))
    return made_up_collection(tmp_path / "made", rows).folder


def test_it_prints_what_the_library_finds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slices", str(folder)]) == 0
    printed = capsys.readouterr()
    assert "1 slice in 160 rows. 40 wrong and" in printed.out
    assert "20 of 40 wrong rows have at least" in printed.out
    assert "in the lower right corner." in printed.out
    assert "--model asks the model again" in printed.err
    assert f"report: {folder / 'slices.html'}" in printed.err
    assert json.loads((folder / "slices.json").read_text("utf-8")) == explainers.slices(folder).to_json()
    (folder / "slices.html").unlink()
    assert main(["slices", str(folder), "--json", "--out", str(folder / "out")]) == 0
    assert (folder / "out/slices.html").is_file()
    assert not (folder / "slices.html").exists()
    assert json.loads(capsys.readouterr().out) == explainers.slices(folder).to_json()


def test_a_test_is_printed_with_its_interval(folder: Path) -> None:
    found = explainers.slices(folder)
    test = HidingTest(
        rows=10,
        fall=Mean(10, 0.5, 0.4, 0.6),
        elsewhere=Mean(10, 0.1, 0.0, 0.2),
        difference=Mean(10, 0.4, 0.25, 0.55),
        changed=share(8, 10),
        changed_elsewhere=share(1, 10),
    )
    text = in_text(replace(found, slices=[replace(found.slices[0], test=test)]))
    assert "falls by 50.0 points, with as much hidden elsewhere by 10.0: 40.0 points (25.0 to 55.0) more" in text
    assert (
        "Another answer without it: 8 of 10, 80.0 % (49.0 to 94.3); with as much hidden elsewhere: 1 of 10, 10.0 % (1.8 to 40.4)." in text
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [(["--data", "elsewhere"], "--data goes with --model"), (["--method", "fullgrad"], "it has rollout")],
)
def test_what_is_typed_wrong_is_said(folder: Path, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slices", str(folder), *options]) == 2
    assert problem in capsys.readouterr().err
