"""A collection on disk: interrupted and continued, refused where it is of something else, and flat in memory."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

import explainers
from explainers import ExplainerError
from explainers.collection.result import open_collection
from explainers.collection.running import usual_batch
from explainers.collection.sources import Sources, sources_of
from explainers.datasets import Dataset, Sample
from explainers.models.model import Model
from tests.explainers.support.collected import LABELS, finished, picture, save_pictures, tiny_vit

FILES = ("rows.parquet", "thumbnails.parquet")
METHODS = ["rollout", "random"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return tiny_vit(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pictures(tmp_path_factory.mktemp("data"), 9)


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def test_an_interrupted_collection_ends_with_the_same_bytes(model: Model, data: Path, tmp_path: Path) -> None:
    whole = finished(explainers.collect(model, data, tmp_path / "whole", METHODS, batch=2))
    told: list[tuple[int, int]] = []
    stopped = explainers.collect(
        model, data, tmp_path / "out", METHODS, batch=2, progress=lambda *of: told.append(of), cancelled=lambda: len(told) > 2
    )
    assert stopped is None
    assert told == [(0, 9), (2, 9), (4, 9)]
    assert not (tmp_path / "out/rows.parquet").exists()
    with pytest.raises(ExplainerError, match="no finished collection"):
        open_collection(tmp_path / "out")
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/parts").iterdir()}
    assert len(kept) == 2

    (tmp_path / "out/parts/.000002.parquet.half").write_bytes(b"killed while it was written")
    again: list[tuple[int, int]] = []
    collection = finished(explainers.collect(model, data, tmp_path / "out", METHODS, progress=lambda *of: again.append(of)))
    assert again == [(4, 9), (6, 9), (8, 9), (9, 9)]
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["rows.parquet", "run.json", "thumbnails.parquet"]
    assert list(collection) == list(whole)
    assert list(open_collection(tmp_path / "out")) == list(whole)


def test_a_finished_collection_is_not_collected_again(model: Model, data: Path, tmp_path: Path) -> None:
    finished(explainers.collect(model, data, tmp_path, METHODS))
    before = contents(tmp_path)

    def engine(setup: Any, parts: Any) -> Any:
        assert not parts
        yield from ()

    finished(explainers.collect(model, data, tmp_path, METHODS, engine=engine))
    assert contents(tmp_path) == before


def test_inputs_are_drawn_with_a_seed(model: Model, data: Path, tmp_path: Path) -> None:
    drawn = [
        [row.index for row in finished(explainers.collect(model, data, tmp_path / str(seed), METHODS, limit=4, seed=seed))]
        for seed in (0, 1)
    ]
    assert drawn[0] != drawn[1]
    assert [len(set(indices)) for indices in drawn] == [4, 4]


@pytest.mark.parametrize(
    ("options", "other"),
    [({"methods": ["random"]}, "methods"), ({"limit": 3}, "number of inputs, limit"), ({"seed": 1}, "seed"), ({"labels": False}, "labels")],
)
def test_a_folder_of_another_collection_is_refused(model: Model, data: Path, tmp_path: Path, options: dict[str, Any], other: str) -> None:
    arguments: dict[str, Any] = {"methods": METHODS}
    finished(explainers.collect(model, data, tmp_path, **arguments))
    with pytest.raises(ExplainerError, match=f"has other .*{other}"):
        explainers.collect(model, data, tmp_path, **arguments | options)


def test_other_files_of_the_same_name_are_refused(model: Model, data: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "data" / "ant").mkdir(parents=True, exist_ok=True)
        picture(number).save(tmp_path / "data/ant/a.png")
        if number == 1:
            finished(explainers.collect(model, tmp_path / "data", tmp_path / "out", METHODS))
    with pytest.raises(ExplainerError, match="has other inputs"):
        explainers.collect(model, tmp_path / "data", tmp_path / "out", METHODS)


def test_a_batch_stays_that_of_the_beginning(model: Model, data: Path, tmp_path: Path) -> None:
    finished(explainers.collect(model, data, tmp_path, METHODS, batch=4))
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["batch"] == 4
    with pytest.raises(ExplainerError, match="4 inputs in a pass"):
        explainers.collect(model, data, tmp_path, METHODS, batch=3)


def test_on_a_cpu_a_pass_has_some_two_thousand_tokens(model: Model, data: Path) -> None:
    from explainers.collection.collect import make_setup

    assert usual_batch(make_setup(model, data, METHODS)) == 64  # 64 pictures of 13 tokens have fewer


def test_what_cannot_be_read_is_named(model: Model, data: Path, tmp_path: Path) -> None:
    folder = save_pictures(tmp_path / "data", 6)
    (folder / "eel/004.png").write_bytes(b"no picture")
    with pytest.raises(ExplainerError, match=r"Input 5 \(eel/004.png\)|Input 5 of pictures"):
        explainers.collect(model, folder, tmp_path / "out", METHODS, batch=2)
    collection = finished(explainers.collect(model, folder, tmp_path / "out", METHODS, batch=2, skip_broken=True))
    assert [row.input for row in collection] == ["ant/000.png", "ant/005.png", "bee/001.png", "cat/002.png", "dog/003.png"]
    assert [(row["index"], row["input"]) for row in collection.broken] == [(5, None)]
    assert "004.png" in collection.broken[0]["broken"]
    assert str(tmp_path) not in json.dumps(collection.broken)
    taken = finished(explainers.collect(model, folder / "dog", tmp_path / "dog", METHODS))  # pictures beside each other have no class
    assert [(row.labels, row.right) for row in taken] == [([], None)]


def test_a_label_that_the_model_does_not_know_is_neither_right_nor_wrong(model: Model, tmp_path: Path) -> None:
    folder = save_pictures(tmp_path / "data", 2, masks=False)
    (folder / "yak").mkdir()
    picture(7).save(folder / "yak/007.png")
    collection = finished(explainers.collect(model, folder, tmp_path / "out", METHODS))
    assert [(row.labels, row.right is None, row.label_probability is None) for row in collection] == [
        (["ant"], False, False),
        (["bee"], False, False),
        (["yak"], True, True),
    ]
    (*_, row) = finished(explainers.collect(model, folder, tmp_path / "notes", METHODS, labels=False))
    assert (row.labels, row.right, row.label_probability) == (["yak"], None, None)


def test_folders_are_classes_by_their_names_not_by_their_order(model: Model, tmp_path: Path) -> None:
    """As many folders as the model has classes, in another order and written otherwise."""
    names = {"1_ant": None, "Bee": "bee", "-cat": "cat", "dog_": "dog", "zz": None}
    for number, name in enumerate(names):
        (tmp_path / "data" / name).mkdir(parents=True)
        picture(number).save(tmp_path / "data" / name / "a.png")
    collection = finished(explainers.collect(model, tmp_path / "data", tmp_path / "out", METHODS, removal=False))
    rights = {row.labels[0]: None if row.right is None else row.right == (row.answer == names[row.labels[0]]) for row in collection}
    assert rights == {"1_ant": None, "Bee": True, "-cat": True, "dog_": True, "zz": None}


def test_memory_does_not_grow_with_the_number_of_inputs(model: Model, tmp_path: Path) -> None:
    """Four times as many inputs: what Python and numpy hold at most stays below a quarter more, without cycles that wait to be freed."""
    image: Image.Image = picture(0)

    def made_up(length: int) -> Dataset:
        read = lambda index: Sample(name=str(index), image=image, labels=(LABELS[0],))  # noqa: E731
        return Dataset(kind="image", length=length, read=read, name="made up")

    def peak(length: int) -> int:
        def progress(done: int, total: int) -> None:
            gc.collect()

        tracemalloc.start()
        try:
            collection = finished(
                explainers.collect(model, made_up(length), tmp_path / str(length), ["rollout"], batch=8, progress=progress)
            )
            assert sum(1 for _ in collection) == length
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(8)  # what is imported and cached
    small, large = peak(32), peak(128)
    assert large < 1.25 * small
    assert pq.read_metadata(tmp_path / "128/rows.parquet").num_row_groups == 16


def test_the_model_is_not_asked_again_if_nothing_shall_be_removed(model: Model, data: Path, tmp_path: Path) -> None:
    asked, alone = (
        list(finished(explainers.collect(model, data, tmp_path / str(again), METHODS, removal=again))) for again in (True, False)
    )
    for row, other in zip(asked, alone, strict=True):
        assert [(each.answer_without, each.logit_without, each.falls) for each in other.maps] == [(None, None, None)] * 2
        assert [(each.scores, each.top) for each in row.maps] == [(each.scores, each.top) for each in other.maps]
        assert (row.answer, row.embedding) == (other.answer, other.embedding)


def test_it_says_where_its_inputs_lie(model: Model, data: Path, tmp_path: Path) -> None:
    collection = finished(explainers.collect(model, data, tmp_path / "out", ["rollout"], limit=2, removal=False))
    sources = sources_of(collection.about)
    assert sources is not None
    assert [sample.name for sample in sources.open()] == [f"{LABELS[i % 5]}/{i:03d}.png" for i in (0, 5, 1, 6, 2, 7, 3, 8, 4)]
    moved = save_pictures(tmp_path / "moved", 9)
    again = finished(explainers.collect(model, moved, tmp_path / "out", ["rollout"], limit=2, removal=False))
    assert sources_of(again.about) == Sources(str(moved))
    assert sources_of({}) is sources_of({"sources": "elsewhere"}) is None
