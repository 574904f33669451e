"""``vitrine heads`` and ``vitrine head-words``: the numbers of the library, printed and written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

import explainers
from explainers.models.companion_files.head_words import read_head_words
from vitrine_server.cli import main


def test_heads_prints_and_writes_what_the_library_gives(photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "parts.json"
    session = explainers.Session(explainers.load("clip", "cpu"), photo, "a zebra", prompts=["a zebra"])
    expected = explainers.decompose_similarity(session)
    assert main(["heads", str(photo), "--prompt", "a zebra", "--device", "cpu", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert f"The cosine with 'a zebra' is {expected.cosine:.4f}" in printed
    assert f"{float(expected.totals.max()):+.4f}" in printed
    assert json.loads(out.read_text("utf-8"))["cosine"] == pytest.approx(expected.cosine, rel=1e-6)
    assert main(["heads", str(photo), "--prompt", "a zebra", "--without", "3.1", "--device", "cpu", "--json"]) == 0
    without = json.loads(capsys.readouterr().out)
    assert without["without"] == pytest.approx(explainers.similarity_without_head(session, 2, 0).without, rel=1e-4)


def test_head_words_are_of_the_pictures_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, texts, out = tmp_path / "photos", tmp_path / "texts.txt", tmp_path / "words.json"
    folder.mkdir()
    for number in range(3):
        Image.new("RGB", (64, 64), (80 * number, 40, 200)).save(folder / f"{number}.png")
    texts.write_text("a blue picture\na red picture\n")
    command = [
        "head-words",
        "--pictures",
        str(folder),
        "scenes",
        "--limit",
        "8",
        "--texts",
        str(texts),
        "--device",
        "cpu",
        "--out",
        str(out),
    ]
    assert main(command) == 0
    words = read_head_words(out)
    assert words.pictures == "3 of photos, 8 of scenes"
    assert {text.text for row in words.blocks for head in row for text in head.texts} <= {"a blue picture", "a red picture"}
    assert "The best of 2 texts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["heads", "none.jpg", "--prompt", "a"], "there is no file none.jpg"),
        (["head-words", "--pictures", "nowhere"], "no data set of that name"),
        (["head-words", "--pictures", "sample-reviews"], "holds texts"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err
