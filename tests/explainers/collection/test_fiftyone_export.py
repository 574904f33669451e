"""A collection as a data set of FiftyOne."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explainers
from explainers import ExplainerError
from explainers.collection.fiftyone_export import field_name, heat_map, sample_of, to_fiftyone
from explainers.collection.records import CollectedRow
from explainers.collection.result import Collection
from tests.explainers.support.collected import finished, made_up_collection, made_up_row, made_up_text, save_pictures, tiny_vit


def test_a_heat_map_lies_on_the_part_that_the_model_saw() -> None:
    row = made_up_row(0, [127, 0, -127, 63], size=[200, 100], crop=[50, 0, 150, 100])
    drawn = heat_map(row, row.maps[0])
    assert drawn.shape == (128, 256)
    assert not drawn[:, :64].any()
    assert not drawn[:, 192:].any()
    assert (drawn[:64, 64:128] == 1).all()
    assert (drawn[64:, 64:128] == -1).all()
    np.testing.assert_allclose(drawn[64:, 128:192], 63 / 127)


def test_fields_are_named_by_letters_and_digits() -> None:
    assert field_name("fullgrad_plus:libra") == "map_fullgrad_plus_libra"
    assert field_name("tis?keep=0.5,0.25") == "map_tis_keep_0_5_0_25"


def test_what_cannot_be_exported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = made_up_collection(tmp_path / "pictures", [made_up_row(0, [1, 2, 3, 4])])
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    with pytest.raises(ExplainerError, match="pip install fiftyone"):
        to_fiftyone(pictures, tmp_path)
    monkeypatch.setitem(sys.modules, "fiftyone", object())  # type: ignore[arg-type]
    with pytest.raises(ExplainerError, match=r"no picture .*0\.png"):
        to_fiftyone(pictures, tmp_path)
    with pytest.raises(ExplainerError, match="a collection of texts"):
        to_fiftyone(made_up_collection(tmp_path / "texts", [made_up_text(0, "a b", [1, 2])], input_kind="text"), tmp_path)


@pytest.fixture
def fiftyone(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package itself. It keeps data sets in MongoDB, which it starts unless an address of one is in FIFTYONE_DATABASE_URI."""
    monkeypatch.setenv("FIFTYONE_DO_NOT_TRACK", "true")
    monkeypatch.setenv("FIFTYONE_DISABLE_SERVICES", "true")
    return pytest.importorskip("fiftyone", reason="FiftyOne is no dependency; it is tested where it is installed")


def are_alike(sample: Any, row: CollectedRow, data: Path) -> bool:
    assert Path(sample.filepath) == (data / row.input).resolve()
    assert (sample.ground_truth.label, sample.prediction.label) == (row.labels[0], row.answer)
    assert sample.prediction.confidence == pytest.approx(row.probability)
    assert sample.right == row.right
    np.testing.assert_allclose(sample.embedding, row.embedding, rtol=1e-6)
    for name, each in zip(("map_rollout", "map_input_x_gradient"), row.maps, strict=True):
        np.testing.assert_allclose(sample[name]["map"], heat_map(row, each))
        assert (sample[name].method, sample[name].falls) == (each.method, each.falls)
        assert sample[name].share_on_border == pytest.approx(each.share_on_border)
    return True


@pytest.mark.filterwarnings("ignore")  # of FiftyOne and what it imports
def test_samples_are_those_of_fiftyone(fiftyone: Any, tmp_path: Path) -> None:
    data, collection = three_pictures(tmp_path)
    assert all(are_alike(sample_of(fiftyone, row, data / row.input), row, data) for row in collection)


@pytest.mark.filterwarnings("ignore")  # of FiftyOne and what it imports
def test_a_data_set_has_a_sample_for_each_row(fiftyone: Any, tmp_path: Path) -> None:
    if not os.environ.get("FIFTYONE_DATABASE_URI"):
        pytest.skip("FiftyOne's data sets need MongoDB: name one in FIFTYONE_DATABASE_URI")
    data, collection = three_pictures(tmp_path)
    dataset = to_fiftyone(collection, data, "three pictures")
    assert len(dataset) == 3
    assert all(are_alike(sample, row, data) for sample, row in zip(dataset, collection, strict=True))
    assert len(dataset.match(fiftyone.ViewField("map_rollout.share_on_border") > 2)) == 0
    with pytest.raises(ExplainerError, match="already"):
        to_fiftyone(collection, data, "three pictures")
    fiftyone.delete_dataset("three pictures")


def three_pictures(folder: Path) -> tuple[Path, Collection]:
    model, data = tiny_vit(folder / "model"), save_pictures(folder / "data", 3)
    return data, finished(explainers.collect(model, data, folder / "out", ["rollout", "input_x_gradient"]))
