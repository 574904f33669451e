"""Controls beside methods in a world whose truth is known: their order, and that the rows of methods and reports are the same without."""

from __future__ import annotations

import explainers

# isort: split
from pathlib import Path

import pytest

from explainers import ExplainerError
from explainers.datasets import open_dataset
from explainers.evaluation.measuring import EvaluationSetup, rows_of
from explainers.evaluation.plan import Plan, make_plan
from explainers.evaluation.reporting import write_reports
from explainers.evaluation.rows import read_rows
from explainers.evaluation.running import run
from tests.conftest import ROOT

METHODS = ["random", "rollout"]
METRICS = ["patch_ap", "comprehensiveness", "completeness", "class_tau", "agreement"]
LADDER = ("truth", "truth_doubled", "truth_half", "random", "truth_inverted")


@pytest.fixture(scope="module")
def model() -> explainers.Model:
    return explainers.load(str(ROOT / "explainers/embedded/worlds/votes-vit"))


def plan_of(model: explainers.Model, controls: list[str], metrics: list[str] = METRICS) -> Plan:
    data = open_dataset("votes")
    return make_plan(model, data, METHODS, metrics, limit=2, target="gold", how="painted", controls=controls)


def test_controls_have_their_known_order_and_change_nothing(model: explainers.Model, tmp_path: Path) -> None:
    data, plan = open_dataset("votes"), plan_of(model, ["all"])
    done = run(model, data, plan, tmp_path / "with")
    assert done is not None
    rows = read_rows(tmp_path / "with")
    names = [row["method"] for row in rows]
    assert names == [*METHODS, *plan.controls] * 2
    values = {name: {metric: [row[metric] for row in rows if row["method"] == name] for metric in METRICS} for name in names}
    assert values["truth"]["patch_ap"] == [1, 1]
    for metric in ("patch_ap", "comprehensiveness"):
        sums = [sum(values[name][metric]) for name in LADDER]
        assert sums[0] > max(sums[1], sums[2])
        assert min(sums[1], sums[2]) > sums[3] > sums[4]
    assert all(values[name][metric] == [None, None] for name in plan.controls for metric in ("completeness", "class_tau", "agreement"))
    alone = run(model, data, plan_of(model, []), tmp_path / "without")
    assert alone is not None
    assert [row["method"] for row in done.rows] == METHODS * 2
    assert done.rows == alone.rows
    assert len(done.costs) == len(alone.costs)
    setups = (EvaluationSetup(model, data, plan_of(model, controls)) for controls in (["all"], []))
    reports = [write_reports(each, setup) for each, setup in zip((done, alone), setups, strict=True)]
    assert reports[0]["results"] == reports[1]["results"]
    assert reports[0]["plan"]["controls"] == list(plan.controls)
    with pytest.raises(ExplainerError, match="other controls"):
        run(model, data, plan_of(model, ["truth"]), tmp_path / "with")


def test_a_picture_without_a_true_patch_has_rows_without_values(model: explainers.Model) -> None:
    data = open_dataset("scenes-mosaic")  # whose things the model does not know
    plan = make_plan(model, data, METHODS, ["patch_ap", "mif"], limit=1, controls=["truth", "edges"])
    rows = rows_of(EvaluationSetup(model, data, plan), 0)
    assert [row["method"] for row in rows] == [*METHODS, "truth", "edges"]
    assert all("patch_ap" not in row for row in rows[2:])
    assert rows[0]["mif"] is not None
