"""A run on four scenes: its rows, what it refuses, and that a killed one ends equal to one that ran through."""

from __future__ import annotations

import json
import subprocess
import sys
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

import explainers
from explainers import ExplainerError
from explainers.datasets import AnnotatedObject, Sample, open_dataset
from explainers.evaluation.examples import draw_example, pack_scores, unpack_scores
from explainers.evaluation.measuring import EvaluationSetup, rows_of
from explainers.evaluation.plan import Plan, make_plan, reason_against_metric
from explainers.evaluation.reporting import write_reports
from explainers.evaluation.rows import lock_folder
from explainers.evaluation.running import EvaluationRun, digest_of, run
from explainers.metrics import METRICS
from explainers.models.companion_files.calibration import Calibration
from tests.conftest import ROOT
from tests.explainers.evaluation.interrupted import INPUTS, METHODS, begin
from tests.support.embedded_models import loaded

pytestmark = pytest.mark.slow
#: Begins a run in a folder, or goes on with it.
Tiny = Callable[[Path], EvaluationRun]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, EvaluationRun]:
    """A run that nothing stopped."""
    plan, done = begin(tmp_path_factory.mktemp("runs") / "whole")
    assert done is not None
    return plan, done


@pytest.fixture(scope="module")
def tiny() -> Tiny:
    """Runs of two scenes that take a moment."""
    model, data = loaded("scenes-vit"), open_dataset("scenes")
    plan = make_plan(model, data, ["random", "rollout"], ["ap"], limit=2)

    def measured(folder: Path) -> EvaluationRun:
        done = run(model, data, plan, folder)
        assert done is not None
        return done

    return measured


def test_questions_in_the_midst_of_a_run_change_nothing(finished: tuple[Plan, EvaluationRun]) -> None:
    """The server lets people's questions pass between the forward passes of a run."""
    plan, done = finished
    model, data = loaded("scenes-vit"), open_dataset("scenes")
    passes = asked = 0

    def others_first() -> bool:
        nonlocal passes, asked
        passes += 1
        if passes % 7 == 1:
            asked += 1
            explainers.explain(model, data[asked].model_input, methods=["fullgrad_plus:libra", "transformer_attribution"])
        return False

    first = done.rows[: len(METHODS)]
    again = rows_of(EvaluationSetup(model, data, plan, others_first), first[0]["index"])
    for row in again:
        row["scores"] = array("f", row["scores"])  # as they are read
    assert [{name: row[name] for name in first[0]} for row in again] == first  # all but what the maps cost
    assert asked > 2


def test_rows_hold_what_metrics_found(finished: tuple[Plan, EvaluationRun]) -> None:
    done = finished[1]
    assert len(done.rows) == INPUTS * len(METHODS)
    assert [row["method"] for row in done.rows[: len(METHODS)]] == list(METHODS)
    assert [row["index"] for row in done.rows[:: len(METHODS)]] == open_dataset("scenes").choose(INPUTS)
    for row in done.rows:
        assert 0 <= row["mif"] <= 1
        assert row["srg"] == pytest.approx((sum(row["curve.left"]) - sum(row["curve.most"])) / 10)
        assert (row["completeness"] is None) == (row["method"] != "fullgrad")
        assert len(row["scores"]) == 14 * 14
    model = loaded("scenes-vit")
    scene = open_dataset("scenes")[done.rows[0]["index"]]
    assert scene.image is not None
    alone = explainers.explain(model, scene.image, None, ["fullgrad"])
    fullgrad = done.rows[METHODS.index("fullgrad")]
    assert fullgrad["target"] == alone.target.label
    assert fullgrad["scores"] == pytest.approx(alone["fullgrad"].scores[alone["fullgrad"].content].tolist(), rel=1e-3, abs=1e-4)
    assert fullgrad["completeness"] == pytest.approx(alone["fullgrad"].completeness_error, rel=1e-3)


def test_a_killed_run_ends_equal(finished: tuple[Plan, EvaluationRun], tmp_path: Path) -> None:
    """Killed after two of four inputs, while the third is measured; and with half a file on the disk."""
    folder = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.explainers.evaluation.interrupted", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for expected in ("0", "1", "2"):
            assert process.stdout.readline().strip() == expected
            if expected != "2":
                process.stdin.write("on\n")
                process.stdin.flush()
        process.kill()
    parts = sorted(path.name for path in (folder / "parts").iterdir())
    assert parts == ["000000.parquet", "000001.parquet"]
    (folder / "parts" / ".000002.parquet.half").write_bytes(b"PAR1 and no more")
    measured: list[int] = []
    _, resumed = begin(folder, lambda done, total: measured.append(done))
    assert measured == [2, 3, 4]
    assert resumed is not None
    assert resumed.rows == finished[1].rows
    assert (folder / "rows.parquet").read_bytes() == (finished[1].folder / "rows.parquet").read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == ["costs.parquet", "rows.parquet", "run.json"]


def test_what_maps_cost_lies_beside_the_rows(finished: tuple[Plan, EvaluationRun], tiny: Tiny, tmp_path: Path) -> None:
    """On a CPU that is time alone. Parts that an earlier version measured say nothing of it, and hinder nothing."""
    done = finished[1]
    assert [(row["index"], row["method"]) for row in done.costs] == [(row["index"], row["method"]) for row in done.rows]
    assert all(row["seconds"] > 0 and row["memory"] is None and row["device"] == "cpu" for row in done.costs)
    assert not {"seconds", "memory", "device"} & done.rows[0].keys()
    whole = tiny(tmp_path / "whole")
    (tmp_path / "begun/parts").mkdir(parents=True)
    (tmp_path / "begun/run.json").write_bytes((whole.folder / "run.json").read_bytes())
    pq.write_table(pq.read_table(whole.folder / "rows.parquet").slice(0, 2), tmp_path / "begun/parts/000000.parquet")
    resumed = tiny(tmp_path / "begun")
    assert resumed.rows == whole.rows
    assert [row["seconds"] is None for row in resumed.costs] == [True, True, False, False]
    (whole.folder / "costs.parquet").unlink()
    assert list(tiny(whole.folder).costs) == []


def test_a_folder_belongs_to_one_run(finished: tuple[Plan, EvaluationRun], tmp_path: Path) -> None:
    model, data = loaded("scenes-vit"), open_dataset("scenes")
    other = make_plan(model, data, METHODS, ["mif"], limit=INPUTS - 1)
    with pytest.raises(ExplainerError, match=r"holds another run\. It has other metrics, limit \(4, not 3\): name another"):
        run(model, data, other, finished[1].folder)
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ExplainerError, match="holds other things"):
        run(model, data, other, tmp_path)


def test_a_run_killed_at_its_first_line_begins_anew(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".run.json.half").write_text('{"form')
    assert tiny(folder).rows
    assert sorted(path.name for path in folder.iterdir()) == ["costs.parquet", "rows.parquet", "run.json"]


def test_the_same_plan_on_other_files_is_another_run(tmp_path: Path) -> None:
    """Texts are numbered, so their names say nothing of what they are."""
    model = loaded("reviews-bert")
    file = tmp_path / "texts.csv"

    def measured(text: str) -> EvaluationRun | None:
        file.write_text(f"text\n{text}\n")
        data = open_dataset("texts", file)
        return run(model, data, make_plan(model, data, ["random"], ["class_correlation"]), tmp_path / "run")

    first = measured("A good film")
    assert first is not None
    with pytest.raises(ExplainerError, match="other inputs: name another folder"):
        measured("A dull film")
    about = json.loads((tmp_path / "run/run.json").read_text("utf-8"))
    del about["data_digest"]  # a run of an earlier version
    (tmp_path / "run/run.json").write_text(json.dumps(about))
    again = measured("A good film")
    assert again is not None
    assert again.rows == first.rows


def test_the_same_weights_with_other_probabilities_are_another_run(tmp_path: Path) -> None:
    model = loaded("reviews-bert")
    file = tmp_path / "texts.csv"
    file.write_text("text\nA good film\n")
    data = open_dataset("texts", file)
    plan = make_plan(model, data, ["random"], ["class_correlation"])
    assert run(model, data, plan, tmp_path / "run") is not None
    with pytest.raises(ExplainerError, match="It has other calibration of the probabilities: name another folder"):
        run(replace(model, calibration=Calibration(1.0, lapse=0.1)), data, plan, tmp_path / "run")


def test_two_processes_do_not_measure_in_one_folder(tiny: Tiny, tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(ExplainerError, match="another process measures"):
        tiny(tmp_path)
    assert tiny(tmp_path).rows


def test_the_digest_is_of_all_that_is_given() -> None:
    def digest(**changes: object) -> str:
        mask = np.zeros((2, 3), bool)
        given: dict[str, Any] = {
            "name": "a",
            "image": Image.new("RGB", (3, 2)),
            "labels": (np.int64(1),),
            "objects": (AnnotatedObject(label="b", mask=mask),),
        }
        return digest_of([Sample(**{**given, **changes})])

    other = np.ones((2, 3), bool)
    digests = {
        digest(),
        digest(name="b"),
        digest(image=Image.new("RGB", (3, 2), "red")),
        digest(labels=(2,)),
        digest(objects=(AnnotatedObject(label="b", mask=other),)),
        digest(objects=(AnnotatedObject(label="c", mask=~other),)),
        digest(labelled=other),
        digest(labelled=~other),
    }
    assert len(digests) == 8
    assert digest() in digests


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"plan": 1}'])
def test_a_run_that_nobody_can_read_is_refused(tiny: Tiny, tmp_path: Path, content: str) -> None:
    tiny(tmp_path)
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ExplainerError, match=r"run\.json is damaged"):
        tiny(tmp_path)


def test_damaged_rows_are_named_and_measured_anew_once_they_are_gone(tiny: Tiny, tmp_path: Path) -> None:
    whole = tiny(tmp_path / "whole")
    rows = (whole.folder / "rows.parquet").read_bytes()
    (tmp_path / "begun/parts").mkdir(parents=True)
    (tmp_path / "begun/run.json").write_bytes((whole.folder / "run.json").read_bytes())
    for path in (whole.folder / "rows.parquet", tmp_path / "begun/parts/000000.parquet"):
        for damaged in (b"no rows", b"", rows[: len(rows) // 2], rows[:40] + bytes(100) + rows[140:]):
            path.write_bytes(damaged)
            with pytest.raises(ExplainerError, match=rf"{path.name} is damaged .*: remove it and type the same"):
                tiny(whole.folder if path.parent == whole.folder else tmp_path / "begun")
        path.unlink()
        assert tiny(whole.folder if path.parent == whole.folder else tmp_path / "begun").rows == whole.rows
    assert (whole.folder / "rows.parquet").read_bytes() == (tmp_path / "begun/rows.parquet").read_bytes() == rows


def test_a_folder_that_cannot_be_made_is_named(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExplainerError, match="is a file: name a folder"):
        tiny(tmp_path / "file")
    with pytest.raises(ExplainerError, match=r"No folder can be made at .*inside \(.*\): name another"):
        tiny(tmp_path / "file" / "inside")


def test_a_data_set_without_inputs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text,label\n")
    with pytest.raises(ExplainerError, match="texts holds no inputs"):
        make_plan(loaded("reviews-bert"), open_dataset("texts", tmp_path / "texts.csv"), ["random"], ["mif"])


def test_what_cannot_be_measured_is_refused() -> None:
    model, scenes = loaded("scenes-vit"), open_dataset("scenes")
    with pytest.raises(ExplainerError, match="it is for texts and molecules"):
        make_plan(model, scenes, ["random"], ["auac"])
    with pytest.raises(ExplainerError, match="scenes gives no cell"):
        make_plan(model, scenes, ["random"], ["grid_pointing"])
    with pytest.raises(ExplainerError, match="no metric 'miff'"):
        make_plan(model, scenes, ["random"], ["miff"])
    with pytest.raises(ExplainerError, match="no method 'rolout'"):
        make_plan(model, scenes, ["rolout"], ["mif"])
    with pytest.raises(ExplainerError, match="is not a way to remove tokens"):
        make_plan(model, scenes, ["random"], ["mif"], how="masked")
    every = make_plan(model, scenes, ["default"], ["all"])
    assert {one for one in METRICS if reason_against_metric(METRICS[one], scenes, 2) is None} == set(every.metrics)
    assert "random" in every.methods


def test_reports_say_what_the_rows_say(finished: tuple[Plan, EvaluationRun]) -> None:
    plan, done = finished
    setup = EvaluationSetup(loaded("scenes-vit"), open_dataset("scenes"), plan)
    report = write_reports(done, setup, command="vitrine evaluate")
    assert report == json.loads((done.folder / "report.json").read_text("utf-8"))
    found = report["results"]["mif"]["rollout"]
    own = [row["mif"] for row in done.rows if row["method"] == "rollout"]
    assert found["value"] == pytest.approx(sum(own) / INPUTS, rel=1e-5)
    assert found["low"] <= found["value"] <= found["high"]
    assert report["results"]["completeness"]["rollout"]["value"] is None
    assert report["blocks"]["rollout"] is None
    of_blocks = report["blocks"]["fullgrad"]
    assert len(of_blocks) == len(loaded("scenes-vit").blocks)
    conservation = report["results"]["conservation"]["fullgrad"]["value"]
    assert sum(block["value"] for block in of_blocks) / len(of_blocks) == pytest.approx(conservation, rel=1e-4)
    own = [row["blocks.tokens"][0] - row["blocks.explained"][0] for row in done.rows if row["method"] == "fullgrad"]
    size = sum(abs(row["blocks.explained"][0]) for row in done.rows if row["method"] == "fullgrad")
    assert of_blocks[0]["without_biases"] == pytest.approx(sum(map(abs, own)) / size, rel=1e-4)
    assert report["costs"]["devices"] == ["cpu"]
    seconds = report["costs"]["seconds"]["rollout"]
    assert 0 < seconds["low"] <= seconds["value"] <= seconds["high"]
    assert report["costs"]["memory"] == dict.fromkeys(METHODS)
    examples = json.loads((done.folder / "examples.json").read_text("utf-8"))
    best = examples["chosen"]["ap"]["rollout"]["best"]
    values = [row["ap"] for row in done.rows if row["method"] == "rollout" and row["ap"] is not None]
    assert best[0][1] == pytest.approx(max(values), rel=1e-5)
    assert draw_example(examples, "rollout", best[0][0], signed=False).startswith(b"\x89PNG")
    page = (done.folder / "report.html").read_text("utf-8")
    assert all(spec in page for spec in METHODS)
    assert 'src="data:image/png' in page
    assert "http" not in page.replace("http-equiv", "")
    assert pq.read_table(done.folder / "rows.parquet").num_rows == len(done.rows)
    alone = write_reports(done, setup, command="vitrine evaluate", with_examples=False)
    assert alone == report
    assert not (done.folder / "examples.json").exists()
    assert "data:image" not in (done.folder / "report.html").read_text("utf-8")


def test_scores_are_packed_to_127_steps() -> None:
    assert unpack_scores(pack_scores([0.5, -1.0, 2.0])).tolist() == pytest.approx([32 / 127, -64 / 127, 1.0])
    assert unpack_scores(pack_scores([0.0, 0.0])).tolist() == [0, 0]
