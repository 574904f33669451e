"""Inputs that cannot be read: a run stops at the first, says which it is, and goes on once it is mended; or leaves them out by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import explainers
from explainers import ExplainerError
from explainers.datasets import Dataset, open_dataset
from explainers.evaluation.broken_inputs import BrokenInput
from explainers.evaluation.measuring import EvaluationSetup
from explainers.evaluation.plan import make_plan
from explainers.evaluation.reporting import write_reports
from explainers.evaluation.running import EvaluationRun, run
from explainers.models.model import Model
from tests.explainers.support.made_up_datasets import left, parquet, photo, plane
from tests.explainers.support.saved_models import save_timm
from tests.families import FAMILIES
from tests.support.vocabularies import wordpiece

PICTURES = 6
DAMAGED, OTHER_SIZE = 3, 4  # behind the inputs whose digest says which run it is


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_timm(folder)
    return explainers.load(folder, "cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures, of which one is cut short, and one has a mask of another size."""
    for number in range(PICTURES):
        photo(tmp_path / f"pictures/{number}.jpg", (40 * number, 100, 50))
    damaged = tmp_path / f"pictures/{DAMAGED}.jpg"
    damaged.write_bytes(damaged.read_bytes()[:300])
    plane(tmp_path / f"pictures/masks/{OTHER_SIZE}.png", left(255)[:-1])
    return tmp_path / "pictures"


def measured(model: Model, data: Dataset, out: Path, skip_broken: bool = False) -> EvaluationRun:
    done = run(model, data, make_plan(model, data, ["random", "rollout"], ["class_correlation"]), out, skip_broken=skip_broken)
    assert done is not None
    return done


def test_a_run_says_which_input_is_broken_keeps_what_it_has_and_goes_on_once_that_is_mended(
    model: Model, folder: Path, tmp_path: Path
) -> None:
    data = open_dataset("pictures", folder)
    with pytest.raises(BrokenInput, match=r"Input 3 of pictures cannot be measured: .*3\.jpg is damaged.*--skip-broken"):
        measured(model, data, tmp_path / "run")
    assert len(list((tmp_path / "run/parts").iterdir())) == DAMAGED
    photo(folder / f"{DAMAGED}.jpg", (120, 100, 50))
    with pytest.raises(BrokenInput, match=r"Input 4 of pictures cannot be measured: 4\.jpg: a mask has \(7, 12\) pixels"):
        measured(model, data, tmp_path / "run")
    plane(folder / f"masks/{OTHER_SIZE}.png", left(255))
    done = measured(model, data, tmp_path / "run")
    assert done.rows == measured(model, data, tmp_path / "whole").rows
    assert [row["index"] for row in done.rows[::2]] == list(range(PICTURES))
    assert "broken" not in json.loads((tmp_path / "run/run.json").read_text("utf-8"))


def test_broken_inputs_are_left_out_counted_and_named(model: Model, folder: Path, tmp_path: Path) -> None:
    data = open_dataset("pictures", folder)
    with pytest.raises(BrokenInput):
        measured(model, data, tmp_path / "run")
    done = measured(model, data, tmp_path / "run", skip_broken=True)  # a run that stopped goes on without them
    assert [row["index"] for row in done.rows[::2]] == [0, 1, 2, 5]
    setup = EvaluationSetup(model, data, make_plan(model, data, ["random", "rollout"], ["class_correlation"]))
    report = write_reports(done, setup)
    assert (report["inputs"], report["left_out"]) == (4, 0)
    assert [(row["index"], row["broken"].partition(" ")[0]) for row in report["broken"]] == [(3, "3.jpg"), (4, "4.jpg:")]
    page = (tmp_path / "run/report.html").read_text("utf-8")
    assert "4 inputs; 2 broken and left out (number (3): 3.jpg is damaged" in page
    assert str(tmp_path) not in page + json.dumps(report)
    photo(folder / f"{DAMAGED}.jpg", (120, 100, 50))
    (tmp_path / "run/rows.parquet").unlink()  # all is measured again, the mended picture too
    again = measured(model, data, tmp_path / "run", skip_broken=True)
    assert [row["index"] for row in again.rows[::2]] == [0, 1, 2, 3, 5]
    assert [row["index"] for row in again.about["broken"]] == [OTHER_SIZE]


def test_a_text_that_the_model_cannot_read_is_broken_even_if_it_is_the_first(tmp_path: Path) -> None:
    model = explainers.wrap(FAMILIES["bert"].build(), tokenizer=wordpiece(20), name="tiny")
    file = tmp_path / "sst/data/validation-00000-of-00001.parquet"

    def sentences(*texts: str) -> Dataset:
        parquet(file, [{"sentence": text, "label": 1} for text in texts])
        return open_dataset("sst-2", tmp_path / "sst")

    with pytest.raises(BrokenInput, match=r"Input 0 \(0\) of sst-2 cannot be measured: the text is empty"):
        measured(model, sentences(" ", "a good film"), tmp_path / "run")
    assert [row["index"] for row in measured(model, sentences("mended", "a good film"), tmp_path / "run").rows[::2]] == [0, 1]
    skipped = measured(model, sentences(" ", "a good film"), tmp_path / "other", skip_broken=True)
    assert [row["index"] for row in skipped.rows] == [1, 1]
    assert skipped.about["broken"] == [{"index": 0, "input": "0", "broken": "the text is empty; send at least one word"}]
    with pytest.raises(ExplainerError, match="None of the 2 inputs of sst-2 can be read: run without --skip-broken"):
        measured(model, sentences("", " "), tmp_path / "none", skip_broken=True)
