"""Two models compared: the collections that are made, used again and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explainers
from explainers import ExplainerError
from explainers.collection.diff.diff import DiffSide
from explainers.collection.diff.difference import Difference
from explainers.collection.running import CollectionEngine, local
from explainers.models.model import Model
from tests.explainers.support.collected import save_pictures, tiny_bert, tiny_vit

Twice = tuple[Model, Path, Path, Difference]


def found(difference: Difference | None) -> Difference:
    assert difference is not None
    return difference


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Twice:
    """A model and itself on 22 pictures."""
    folder = tmp_path_factory.mktemp("twice")
    model, data = tiny_vit(folder / "model"), save_pictures(folder / "data", 22)
    return model, data, folder / "out", found(explainers.diff(model, model, data, folder / "out", ["input_x_gradient", "rollout"]))


def test_a_model_and_itself_do_not_differ(twice: Twice) -> None:
    _, _, _, difference = twice
    assert (difference.inputs, difference.changed.count, difference.to_check.count) == (22, 0, 0)
    assert all(value == pytest.approx(1) for row in difference.rows for value in row.correlations)
    assert difference.old_right == difference.new_right
    assert all(place.difference.value == 0 for place in difference.places)
    assert {(place.method, place.place) for place in difference.places} == {
        (method, place) for method in ("input_x_gradient", "rollout") for place in ("object", "border")
    }


def test_the_null_is_what_mirroring_does_to_the_maps_of_the_old_model(twice: Twice) -> None:
    _, _, out, difference = twice
    null = difference.null
    assert null.kind == "mirror"
    assert 0 < null.rows <= 22
    assert null.median is not None
    assert null.median < 0.99
    assert sorted(path.name for path in out.iterdir()) == ["differences.parquet", "new", "null", "old", "report.html", "report.json"]


def test_each_side_but_mirrored_pictures_is_made_where_its_engine_says(twice: Twice, tmp_path: Path) -> None:
    model, data, _, difference = twice
    made: list[str] = []

    def engine_of(side: DiffSide) -> CollectionEngine:
        made.append(side)
        return local

    methods = ["input_x_gradient", "rollout"]
    elsewhere = found(explainers.diff(model, model, data, tmp_path / "mirror", methods, engine_of=engine_of))
    assert made == ["old", "new"]
    assert elsewhere.rows == difference.rows
    found(explainers.diff(model, model, data, tmp_path / "reference", methods, reference=model, engine_of=engine_of))
    assert made[2:] == ["old", "new", "null"]


def test_finished_collections_are_used_again(twice: Twice, tmp_path: Path) -> None:
    _, _, out, difference = twice
    again = found(explainers.diff(out / "old", out / "new", None, tmp_path / "again"))
    assert again.null.kind == "rows"
    assert [row.correlations for row in again.rows] == [row.correlations for row in difference.rows]
    assert not (tmp_path / "again/old").exists()
    third = found(explainers.diff(out / "old", out / "new", None, tmp_path / "third", reference=out / "new"))
    assert third.null.kind == "reference"
    assert third.null.median == pytest.approx(1)


def test_a_model_is_asked_as_the_finished_collection_was(twice: Twice, tmp_path: Path) -> None:
    model, data, _, _ = twice
    explainers.collect(model, data, tmp_path / "kept", ["rollout"], limit=4, seed=3, labels=False, removal=False)
    difference = found(explainers.diff(tmp_path / "kept", model, data, tmp_path / "out"))
    assert (difference.inputs, difference.methods, difference.old_right.of) == (4, ["rollout"], 0)


def test_a_stopped_comparison_goes_on(twice: Twice, tmp_path: Path) -> None:
    model, data, _, difference = twice
    seen: list[tuple[str, int, int]] = []
    methods = ["input_x_gradient", "rollout"]

    def cancelled() -> bool:
        return bool(seen) and seen[-1] == ("new", 0, 22)

    def progress(name: str, done: int, total: int) -> None:
        seen.append((name, done, total))

    assert explainers.diff(model, model, data, tmp_path / "out", methods, progress=progress, cancelled=cancelled) is None
    assert not (tmp_path / "out/report.json").exists()
    seen.clear()
    again = found(explainers.diff(model, model, data, tmp_path / "out", methods, progress=progress))
    assert seen[0] == ("old", 22, 22)  # nothing of it is asked again
    assert again.to_json() == difference.to_json()


def test_texts_are_compared_word_by_word(tmp_path: Path) -> None:
    model = tiny_bert(tmp_path / "model")
    (tmp_path / "texts.csv").write_text("text\na dull film\na film\n", "utf-8")
    difference = found(explainers.diff(model, model, tmp_path / "texts.csv", tmp_path / "out", ["rollout"]))
    assert (difference.null.kind, difference.null.threshold, difference.places, difference.grid) == ("rows", None, [], [])
    assert [row.correlations for row in difference.rows] == [[pytest.approx(1)], [pytest.approx(1)]]


def test_models_cannot_be_compared_without_data(twice: Twice, tmp_path: Path) -> None:
    model, data, out, _ = twice
    given: tuple[tuple[Any, Any], ...] = ((model, model), (out / "old", model))
    for old, new in given:
        with pytest.raises(ExplainerError, match="name the data"):
            explainers.diff(old, new, None, tmp_path / "out")
    with pytest.raises(ExplainerError, match="name the data"):
        explainers.diff(out / "old", out / "new", None, tmp_path / "out", reference=model)
    with pytest.raises(ExplainerError, match="has other limit"):
        explainers.diff(out / "old", _of_four(model, data, tmp_path), None, tmp_path / "out")


def _of_four(model: Model, data: Path, folder: Path) -> Path:
    explainers.collect(model, data, folder / "four", ["rollout"], limit=4, removal=False)
    return folder / "four"
