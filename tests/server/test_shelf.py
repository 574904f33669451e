"""Which collections a visitor finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.made_up_collection import made_up_row, write_collection
from vitrine_server import shelf as module
from vitrine_server.http.problems import Problem
from vitrine_server.http.visitors import Visitor
from vitrine_server.shelf import Shelf

ANN, BOB = Visitor("ann", "ann"), Visitor("bob", "bob")


def test_folders_of_collections_and_collections(tmp_path: Path) -> None:
    for name in ("all/photos", "all/films", "alone"):
        write_collection(tmp_path / name, [made_up_row(0)])
    (tmp_path / "all/notes").mkdir()
    (tmp_path / "all/unfinished").mkdir()
    (tmp_path / "all/unfinished/run.json").write_text('{"kind": "collection"}')
    write_collection(tmp_path / "all/run", [made_up_row(0)], kind="run")
    shelf = Shelf([tmp_path / "all", tmp_path / "alone", tmp_path / "all/films", tmp_path / "gone"])
    assert [each.title for each in shelf.all(ANN)] == ["alone", "films", "photos"]
    assert len({each.id for each in shelf.all(ANN)}) == 3
    assert not any(str(tmp_path) in str(each.entry().to_json()) for each in shelf.all(ANN))


def test_a_model_in_a_folder_is_named_without_it(tmp_path: Path) -> None:
    write_collection(tmp_path / "photos", [made_up_row(0)], model="/home/ann/models/mine")
    assert Shelf([tmp_path]).all(ANN)[0].model == "mine"


def test_what_a_visitor_made_is_theirs_alone(tmp_path: Path) -> None:
    write_collection(tmp_path / "own", [made_up_row(0)])
    shelf = Shelf([], lambda visitor: [("own-1", tmp_path / "own", "My photos")] if visitor == ANN else [])
    assert shelf.find("own-1", ANN).entry().to_json() == {
        "id": "own-1",
        "title": "My photos",
        "model": "scenes-vit",
        "kind": "image",
        "rows": 1,
        "is_own": True,
    }
    with pytest.raises(Problem) as refused:
        shelf.find("own-1", BOB)
    assert (refused.value.status, refused.value.slug) == (404, "no-such-collection")


def test_a_table_stays_open_until_its_files_change(tmp_path: Path) -> None:
    write_collection(tmp_path / "a", [made_up_row(0)])
    shelf = Shelf([tmp_path / "a"])
    (found,) = shelf.all(ANN)
    assert shelf.table(found) is shelf.table(found)
    before = shelf.table(found)
    write_collection(tmp_path / "a", [made_up_row(0), made_up_row(1)])
    os.utime(tmp_path / "a/rows.parquet", (1, 1))
    (found,) = shelf.all(ANN)
    assert found.rows == 2
    assert shelf.table(found) is not before


def test_few_tables_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_TABLES", 1)
    for name in ("a", "b"):
        write_collection(tmp_path / name, [made_up_row(0)])
    shelf = Shelf([tmp_path])
    a, b = shelf.all(ANN)
    first = shelf.table(a)
    shelf.table(b)
    assert shelf.table(a) is not first


def test_one_that_is_too_large_or_broken_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_collection(tmp_path / "a", [made_up_row(0), made_up_row(1)], methods=None)
    shelf = Shelf([tmp_path])
    (found,) = shelf.all(ANN)
    monkeypatch.setattr(module, "MAX_SHOWN", 1)
    with pytest.raises(Problem) as refused:
        shelf.table(found)
    assert (refused.value.status, refused.value.slug) == (413, "collection-too-large")
    monkeypatch.undo()
    whole = (tmp_path / "a/rows.parquet").read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8  # what the file says of itself
    (tmp_path / "a/rows.parquet").write_bytes(whole[:4] + bytes(len(whole) - footer - 4) + whole[-footer:])
    (found,) = shelf.all(ANN)
    with pytest.raises(Problem) as refused:
        shelf.table(found)
    assert (refused.value.status, refused.value.slug) == (422, "broken-collection")
    assert str(tmp_path) not in str(refused.value.to_json())
