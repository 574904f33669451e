"""``vitrine collect``: a table of many inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.explainers.support.collected import save_pictures, tiny_vit
from vitrine_server.cli import main


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A command without its data and its options: six pictures, of which the last cannot be read."""
    tiny_vit(tmp_path / "model")
    data = save_pictures(tmp_path / "data", 6)
    (data / "eel/004.png").write_bytes(b"no picture")
    return ["collect", str(data), "--model", str(tmp_path / "model"), "--device", "cpu", "--out", str(tmp_path / "out")]


def test_a_broken_input_stops_or_is_named(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--methods", "rollout,random"]) == 2
    assert "eel/004.png is not an image" in (said := capsys.readouterr().err)
    assert "(--skip-broken)" in said
    assert main([*words, "--methods", "rollout,random", "--skip-broken", "--json"]) == 0
    printed = capsys.readouterr()
    rows = pq.read_table(tmp_path / "out/rows.parquet").to_pylist()
    summary = json.loads(printed.out)
    assert (summary["inputs"], summary["judged"]) == (5, 5)
    assert summary["right"] == sum(row["right"] for row in rows) / 5
    assert [each["method"] for each in summary["methods"]] == ["rollout", "random"]
    for i, each in enumerate(summary["methods"]):
        assert each["falls"] == sum(row["maps"][i]["falls"] for row in rows) / 5
        assert each["share_on_border"] == pytest.approx(sum(row["maps"][i]["share_on_border"] for row in rows) / 5)
    assert "1 input left out, named in run.json" in printed.err
    assert main([*words, "--methods", "rollout,random", "--skip-broken"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("5 inputs, ")
    assert "on the object %" in printed.out


def test_labels_that_the_model_does_not_know_are_said_once(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data/eel/004.png").unlink()
    (tmp_path / "data/ant").rename(tmp_path / "data/yak")
    assert main([*words, "--methods", "rollout", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["unknown_labels"] == {"yak": 2}
    assert printed.err.count("2 of 5 rows have a label that this model does not know") == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["collect", "scenes"], "say --model and --out"),
        (["collect", "nowhere", "--model", "scenes-vit", "--out", "x", "--device", "cpu"], "no file or folder"),
        (["collect", "scenes", "--model", "scenes-vit", "--out", "x", "--workers", "2"], "--engine ray"),
        (["collect", "scenes", "--model", "scenes-vit", "--out", "x", "--device", "cpu", "--prompt", "a cat"], "compares pictures"),
    ],
)
def test_what_is_typed_wrong_is_said(
    options: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(options) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
