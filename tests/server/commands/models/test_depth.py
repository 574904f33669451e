"""``vitrine depth``: pictures and texts in, a table or JSON out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import explainers
from explainers.json_records import schema_of
from tests.server.support.tiny_models import make_tiny
from vitrine_server.cli import main


@pytest.fixture(autouse=True)
def _tiny_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrine_server.commands.models.depth.open_model", lambda args, name, device: make_tiny(name, "cpu"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for number in range(9):
        Image.fromarray(rng.integers(0, 256, (32, 24, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "notes.md").write_text("no picture")
    return tmp_path


def test_a_folder_of_pictures_gives_a_table(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["depth", "scenes-vit", str(photos), "--limit", "8", "--out", str(photos / "depth.json")]) == 0
    printed = capsys.readouterr()
    assert "block 1 attention" in printed.out
    assert "95 % interval" in printed.out
    assert "note: 8 of 9 inputs were measured, taken evenly." in printed.out
    assert "the model is asked" in printed.err
    assert json.loads((photos / "depth.json").read_text("utf-8"))["inputs"] == 8


def test_texts_give_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(["a good film", "", *["not a bad movie", "a plot", "films"] * 3]), "utf-8")
    assert main(["depth", "reviews-bert", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema_of(explainers.Depth).model_validate(document)
    assert document["inputs"] == 10


def test_molecules_are_lines_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "molecules.txt"
    file.write_text("\n".join(["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "CCCl", "CC#N", "COC"]), "utf-8")
    assert main(["depth", "molecules", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["inputs"] == 8
    assert "atom" in document["reading"]["says"]


@pytest.mark.parametrize(
    ("model", "inputs", "says"),
    [
        ("scenes-vit", ["0.png"], "at least 8 inputs"),
        ("scenes-vit", ["texts.txt"], "looks at images"),
        ("reviews-bert", ["0.png"], "reads text"),
        ("molecules", ["0.png"], "reads molecules"),
        ("reviews-bert", ["0.png", "texts.txt"], "not both"),
        ("reviews-bert", ["missing.txt"], "there is no file"),
        ("clip", ["."], "at least two"),
    ],
)
def test_what_does_not_fit_is_one_line(photos: Path, model: str, inputs: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    (photos / "texts.txt").write_text("one\ntwo", "utf-8")
    assert main(["depth", model, *(str(photos / name) for name in inputs)]) == 2
    error = capsys.readouterr().err
    assert says in error.splitlines()[-1]
