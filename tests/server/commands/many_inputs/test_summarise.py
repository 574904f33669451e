"""``vitrine summarise``: many explanations added up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from explainers.analysis.word_ranking import WordTotal
from explainers.models.catalogue import CATALOGUE
from vitrine_server.cli import main
from vitrine_server.commands.many_inputs.summarise import name_tables

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


def test_summarise_ranks_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("A dull film with Hanks in it.\nThe plot is by Lynch.\n", "utf-8")
    command = ["summarise", "--texts", str(texts), "--target", "negative", "--method", "input_x_gradient", "--device", "cpu"]
    assert main([*command, "--out", str(tmp_path / "run"), "--names"]) == 0
    block = capsys.readouterr().out.split("names by their total relevance\n")[1].split("\n\n")[0]
    summary = json.loads((tmp_path / "run/summary.json").read_text("utf-8"))
    ranked = [word["word"] for word in summary["names"]]
    assert sorted(ranked) == ["hanks", "lynch"]
    assert [line.split()[0] for line in block.splitlines()[2:]] == ranked
    texts.write_text("a dull film\n", "utf-8")
    assert main([*command, "--out", str(tmp_path / "other"), "--names"]) == 0
    assert "no names" in capsys.readouterr().out
    names = [WordTotal(f"n{i}", 1, -float(i), -float(i)) for i in range(50)]
    shown = "\n".join(name_tables(names))
    assert [name.word for name in names if f"{name.word} " in shown] == [f"n{i}" for i in [*range(20), *range(30, 50)]]


def test_summarise_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, problem in (
        ([], "give image files"),
        (["nothing.png"], "there is no file"),
        (["nothing.png", "--names"], "--names ranks words"),
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
    page = (tmp_path / "summary.html").read_text("utf-8")
    assert "trusted most" in page
    assert page.count("<img ") == 1
    with Image.open(tmp_path / "mean.png") as drawn:
        assert max(drawn.size) == 448
        colours = np.asarray(drawn.convert("RGB")).astype(int)
    side = 448 // mean.shape[0]
    paper, peak = np.unravel_index(np.abs(mean).argmin(), mean.shape), np.unravel_index(np.abs(mean).argmax(), mean.shape)
    strength = [abs(colours[row * side + side // 2, column * side + side // 2] - 255).sum() for row, column in (paper, peak)]
    assert strength[1] > strength[0]
    assert mean.sum() == pytest.approx(1, rel=1e-4)


def test_an_input_that_fails_is_named_and_what_worked_is_written(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = tmp_path / "fake.jpg"
    fake.write_text("no picture")
    command = ["summarise", str(photo), str(fake), "--target", "zebra", "--method", "rollout", "--device", "cpu"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 1
    printed = capsys.readouterr()
    assert ", 1 input of " in printed.out
    assert "fake.jpg is not an image" in printed.out
    assert printed.err.strip() == "vitrine: 1 of 2 inputs could not be explained; the rest is summed up"
    assert json.loads((tmp_path / "run" / "summary.json").read_text("utf-8"))["inputs"] == 1
