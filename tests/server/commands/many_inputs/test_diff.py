"""``vitrine diff``: what changed between two models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explainers.collection.running import CollectionEngine, local
from explainers.collection.sources import Sources
from tests.explainers.support.collected import made_up_collection, made_up_row, save_pictures
from tests.explainers.support.saved_models import save_timm
from vitrine_server.cli import main


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command on two collections of ten rows, of which two got another answer."""
    for name, changed in (("old", 0), ("new", 2)):
        made_up_collection(tmp_path / name, [made_up_row(i, [9, 5, 2, 1], answer="bee" if i < changed else "ant") for i in range(10)])
    return ["diff", str(tmp_path / "old"), str(tmp_path / "new"), "--out", str(tmp_path / "out")]


def test_it_prints_what_changed(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "2 of 10 answers changed: 20.0 %" in printed.out
    assert "report.html" in printed.err
    assert (tmp_path / "out/report.html").is_file()
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "out/report.json").read_text("utf-8"))


@pytest.mark.parametrize(("limit", "code"), [("0.2", 0), ("0.19", 1), ("0", 1), ("1", 0)])
def test_the_exit_code_is_one_above_the_share(words: list[str], limit: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--fail-above", limit]) == code
    assert ("2 of 10 inputs have to be looked at" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--fail-above", "5"], "a share of the inputs"),
        (["--out", "/dev/null/x"], "/dev/null"),
        (["--workers", "2"], "go with --engine ray"),
        (["--reference", "nowhere-at-all"], "nowhere-at-all"),
    ],
)
def test_what_is_typed_wrong_is_said(words: list[str], options: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, *options]) == 2
    assert problem in capsys.readouterr().err


def test_an_engine_gets_the_name_of_its_side_and_of_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster each side has its own model and the same inputs."""
    old, data = tmp_path / "old", save_pictures(tmp_path / "data", 4)
    save_timm(old)
    asked: list[tuple[str, str, int | None, str | None]] = []

    def ray_engine(model: str, sources: Sources, *, workers: int | None, address: str | None, device: str | None) -> CollectionEngine:
        asked.append((model, sources.data, workers, address))
        return local

    monkeypatch.setattr("explainers.collection.distributed.ray_engine", ray_engine)
    words = ["diff", str(old), str(old), "--data", str(data), "--out", str(tmp_path / "out"), "--methods", "rollout", "--device", "cpu"]
    assert main([*words, "--engine", "ray", "--workers", "2", "--ray-address", "here"]) == 0
    assert asked == [(str(old), str(data), 2, "here")] * 2
    assert main(words) == 0
    assert len(asked) == 2
