"""``vitrine summarise``: many explanations added up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from explainers.models.catalogue import CATALOGUE
from server.cli import main

REVIEW = "A dull and lifeless film. The first hour is a mess, and the ending is even worse."


def test_summarise_ranks_words_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{REVIEW}\n\nA warm and wonderful film.\n", "utf-8")
    words = ["summarise", "--texts", str(texts), "--target", "negative", "--method", "input_x_gradient", "--device", "cpu"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    for heading in ("words by their total relevance", "trusted most", "trusted least"):
        assert heading in printed
    summary = json.loads((tmp_path / "run/summary.json").read_text("utf-8"))
    assert summary["inputs"] == 2
    assert {word["word"]: word["count"] for word in summary["words"]}["film"] == 2
    lines = (tmp_path / "run/rows.jsonl").read_text("utf-8")
    assert main([*words, "--out", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == summary
    assert (tmp_path / "run/rows.jsonl").read_text("utf-8") == lines


def test_summarise_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, problem in (
        ([], "give image files"),
        (["nothing.png"], "there is no file"),
        ([str(tmp_path)], "there is no picture"),
        (["--texts", str(tmp_path / "none.txt")], "none.txt"),
    ):
        assert main(["summarise", *words, "--out", str(tmp_path / "run")]) == 2
        assert problem in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".heic", ".avif", ".TIF", ".tiff"])
def test_a_folder_is_read_as_single_files_are_and_says_what_it_leaves_out(
    photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    with Image.open(photo) as image:
        image.save(folder / "more" / f"zebra{ending}")
    (folder / "notes.txt").write_text("seen at noon")
    out = tmp_path / "run"
    assert main(["summarise", str(folder), "--method", "rollout", "--device", "cpu", "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert (summary["inputs"], summary["problems"]) == (1, [])
    assert [row["name"] for row in summary["most_trusted"]] == [f"zebra{ending}"]
    assert "1 of 2 files" in printed.err
    assert [entry.photos for entry in CATALOGUE if entry.name == summary["model"]] == [True]


def test_summarise_saves_the_mean_map_of_pictures(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["summarise", str(photo.parent), "--target", "zebra", "--method", "rollout", "--device", "cpu", "--out", str(tmp_path)]
    assert main(words) == 0
    assert "the mean map is largest at row" in capsys.readouterr().out
    mean = np.load(tmp_path / "mean.npy")
    assert mean.sum() == pytest.approx(1, rel=1e-4)
