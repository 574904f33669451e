"""The choices of a collection that are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explainers
from explainers import ExplainerError
from explainers.collection.collect import DEFAULT_METHODS, make_setup
from explainers.methods import METHODS, parse
from explainers.models.model import Model
from tests.explainers.support.collected import save_pictures, tiny_vit


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return tiny_vit(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pictures(tmp_path_factory.mktemp("data"), 1)


def test_the_default_methods_are_fast_and_of_several_kinds(model: Model, data: Path) -> None:
    assert make_setup(model, data, None).methods == DEFAULT_METHODS
    requests = [parse(spec) for spec in DEFAULT_METHODS]
    assert not any(METHODS[request.method.name].slow for request in requests)
    assert len({request.rule for request in requests}) == 3


def test_a_method_that_is_named_twice_is_one(model: Model, data: Path) -> None:
    assert make_setup(model, data, ["rollout", "rollout"]).methods == ("rollout",)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"methods": ["no_such"]}, "no_such"),
        ({"prompts": ["a zebra"]}, "compares pictures"),
        ({"limit": 0}, "limit=0"),
        ({"batch": 0}, "batch=0"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_choices_that_do_not_suit_the_model(model: Model, data: Path, tmp_path: Path, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ExplainerError, match=problem):
        explainers.collect(model, data, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_data_that_do_not_suit_the_model(model: Model, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\na film\n")
    with pytest.raises(ExplainerError, match=r"reads images, and a\.csv holds texts"):
        make_setup(model, tmp_path / "a.csv", None)
    pictures = save_pictures(tmp_path / "flat", 0)
    pictures.mkdir()
    with pytest.raises(ExplainerError):
        make_setup(model, pictures, None)


def test_prompts_are_needed_where_the_data_name_no_classes(model: Model, tmp_path: Path) -> None:
    flat = save_pictures(tmp_path, 1, masks=False) / "ant"
    with pytest.raises(ExplainerError, match="names no classes: give prompts"):
        make_setup(replace(model, kind="clip"), flat, None)
