"""The inputs of a collection: by name, as a folder, as tables; and what is said of those that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from explainers import ExplainerError
from explainers.collection.sources import Sources, open_inputs
from explainers.datasets import open_dataset
from tests.explainers.support.collected import save_pictures


def test_a_table_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_text('text,text_pair,label,site\n"One, two",three,good,here\nfour,,,\n', "utf-8")
    data = open_inputs(path)
    assert (data.kind, len(data), data.name, tuple(data.classes)) == ("text", 2, "texts.csv", ())
    first, second = data
    assert (first.name, first.text, first.text_pair, first.labels, dict(first.own_columns)) == (
        "0",
        "One, two",
        "three",
        ("good",),
        {"site": "here"},
    )
    assert (second.text, second.text_pair, second.labels, dict(second.own_columns)) == ("four", None, (), {})
    assert tuple(open_inputs(path, names_classes=True).classes) == ("good",)


def test_a_parquet_file_is_read_as_a_csv_file(tmp_path: Path) -> None:
    for number in (1, 2):
        rows = [{"text": f"text {number}", "label": "good", "stars": number, "seen": None, "vector": [1.0]}]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{number}.parquet")
    for data, count in ((open_inputs(tmp_path / "2.parquet"), 1), (open_inputs(tmp_path), 2)):
        assert len(data) == count
        assert (data[count - 1].text, data[count - 1].labels, dict(data[count - 1].own_columns)) == ("text 2", ("good",), {"stars": "2"})
    assert tuple(open_inputs(tmp_path, names_classes=True).classes) == ("good",)


def test_a_table_of_pictures_with_masks(tmp_path: Path) -> None:
    save_pictures(tmp_path, 1)
    path = tmp_path / "pictures.csv"
    path.write_text("path,mask,label,camera\nant/000.png,masks/ant/000.png,ant,left\n", "utf-8")
    (sample,) = open_inputs(path)
    (known,) = open_dataset("pictures", tmp_path)
    assert (sample.name, sample.labels, dict(sample.own_columns)) == ("ant/000.png", ("ant",), {"camera": "left"})
    assert sample.image is not None
    assert known.image is not None
    assert sample.image.tobytes() == known.image.tobytes()
    assert (sample.objects[0].mask == known.objects[0].mask).all()
    assert sample.objects[0].label == "ant"


def test_a_table_of_molecules(tmp_path: Path) -> None:
    path = tmp_path / "molecules.csv"
    path.write_text("smiles,text\nCCO,ethanol\n", "utf-8")
    (sample,) = open_inputs(path.rename(tmp_path / "m.csv"))
    assert (sample.text, dict(sample.own_columns)) == ("ethanol", {"smiles": "CCO"})  # a text comes first
    (tmp_path / "m.csv").write_text("smiles,dose\nCCO,3\n", "utf-8")
    data = open_inputs(tmp_path / "m.csv")
    assert (data.kind, data[0].text, dict(data[0].own_columns)) == ("molecule", "CCO", {"dose": "3"})


def test_names_and_folders(tmp_path: Path) -> None:
    assert open_inputs("scenes").name == "scenes"
    save_pictures(tmp_path, 2)
    assert (open_inputs(tmp_path).name, len(open_inputs(tmp_path))) == ("pictures", 2)
    (tmp_path / "texts.jsonl").write_text('{"text": "one"}\n', "utf-8")
    assert open_inputs(tmp_path / "texts.jsonl").name == "texts"
    opened = open_inputs("scenes")
    assert open_inputs(opened) is opened


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match=r"no file or folder .*nowhere"):
        open_inputs(tmp_path / "nowhere")
    (tmp_path / "notes.txt").write_text("a text\n")
    with pytest.raises(ExplainerError, match="does not end in"):
        open_inputs(tmp_path / "notes.txt")
    (tmp_path / "a.csv").write_text("review,label\na,b\n")
    with pytest.raises(ExplainerError, match="no column path, text, smiles, but review, label"):
        open_inputs(tmp_path / "a.csv")
    (tmp_path / "b.parquet").write_bytes(b"no table")
    with pytest.raises(ExplainerError, match=r"b\.parquet cannot be read"):
        open_inputs(tmp_path / "b.parquet")
    with pytest.raises(ExplainerError, match="--data and --split"):
        open_inputs(tmp_path / "a.csv", split="test")


def test_what_a_row_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\n"",good\n')
    with pytest.raises(ExplainerError, match=r"row 1 of .*a\.csv has an empty text"):
        open_inputs(tmp_path / "a.csv")[0]
    pq.write_table(pa.table({"text": ["a"], "label": [3]}), tmp_path / "b.parquet")
    with pytest.raises(ExplainerError, match="label must be the name of a class, not 3"):
        open_inputs(tmp_path / "b.parquet")[0]
    (tmp_path / "c.csv").write_text("path\ngone.png\n")
    with pytest.raises((ExplainerError, OSError), match=r"gone\.png"):
        open_inputs(tmp_path / "c.csv")[0]


def test_sources_for_other_machines_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("text\na\n")
    monkeypatch.chdir(tmp_path)
    sources = Sources("a.csv").absolute()
    assert sources.data == str(tmp_path / "a.csv")
    assert Sources("scenes", Path("x")).absolute() == Sources("scenes", tmp_path / "x")
    monkeypatch.chdir("/")
    assert len(sources.open()) == 1
