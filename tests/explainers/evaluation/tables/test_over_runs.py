"""Tables over made-up runs of several models and data sets, whose figures are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata

from explainers.errors import ExplainerError
from explainers.evaluation.tables.figures import NamedReport
from explainers.evaluation.tables.over_runs import Selection, family_of, pairs_over_runs, table_over_runs
from explainers.evaluation.tables.record import Table
from explainers.metrics import METRICS

SPECS = ("rollout", "fullgrad:libra", "gradcam_plus:libra", "lrp", "random")
DRAW = np.random.default_rng(8)


def run(
    name: str, model: str, dataset: str, values: Any, metrics: tuple[str, ...] = ("mif",), specs: tuple[str, ...] = SPECS
) -> NamedReport:
    """A run whose method k has the value ``values[k]`` by the first metric, and twice as much by the second."""
    results = {
        metric: {
            spec: {"value": value * (1 + i), "error": 0.01, "low": value - 0.02, "high": value + 0.02, "inputs": 50, "tied": False}
            for spec, value in zip(specs, map(float, values), strict=True)
        }
        for i, metric in enumerate(metrics)
    }
    apart = [[1.0 if a == b else 0.001 for b in specs] for a in specs]
    report = {
        "format": 1,
        "plan": {"model": model, "dataset": dataset, "target": "predicted", "how": None, "seed": 0, "limit": 50},
        "inputs": 50,
        "dataset": {"name": dataset, "title": dataset.title()},
        "methods": [{"spec": spec, "title": spec.partition(":")[0].title()} for spec in specs],
        "metrics": [METRICS[metric].to_json() for metric in metrics],
        "results": results,
        "apart": dict.fromkeys(metrics, apart),
    }
    return NamedReport(name, report)


VALUES = np.sort(DRAW.random((6, 4)), 1)  # the last of the four is best everywhere
VALUES[2:4, [1, 2]] = VALUES[2:4, [2, 1]]
RUNS = [
    run(f"run {i}", model, dataset, [*VALUES[2 * i + j], 0.0])
    for i, model in enumerate(("a", "b", "c"))
    for j, dataset in enumerate(("cats", "dogs"))
]


def column(table: Table, *head: str) -> list[Any]:
    place = [column.head for column in table.columns].index(head)
    return [row.cells[place] for row in table.rows]


def test_columns_are_models_data_sets_and_metrics_and_mean_ranks() -> None:
    table = table_over_runs(RUNS)
    assert [column.head for column in table.columns] == [
        *((model, dataset, "MIF accuracy") for model in "abc" for dataset in ("Cats", "Dogs")),
        ("mean rank", "6 pairs of model and data set", "MIF accuracy"),
    ]
    assert [row.spec for row in table.rows] == ["lrp", "gradcam_plus:libra", "fullgrad:libra", "rollout", "random"]  # best first
    assert [cell.value for cell in column(table, "b", "Cats", "MIF accuracy")] == pytest.approx([*VALUES[2][::-1], 0.0])
    assert [cell.best for cell in column(table, "b", "Cats", "MIF accuracy")] == [True, False, False, False, False]
    ranks = column(table, "mean rank", "6 pairs of model and data set", "MIF accuracy")
    assert [cell.value for cell in ranks[:4]] == pytest.approx(rankdata(-VALUES, axis=1).mean(0)[::-1])
    assert ranks[0].best
    assert [cell.tied for cell in ranks[:4]] == [True, True, True, False]  # 1, 2.3, 2.7, 4; Nemenyi's critical difference is 1.9
    assert ranks[4].value is None  # a control has no rank
    assert any("4 methods in 6 pairs" in note and "p = 0.0005" in note for note in table.notes)


def test_two_pairs_are_too_few_to_tell_ranks_apart() -> None:
    table = table_over_runs(RUNS[:2])
    assert not any(row.cells[-1].best or row.cells[-1].tied for row in table.rows)
    assert any("cannot tell any two methods apart" in note for note in table.notes)


def test_a_method_that_lacks_a_value_somewhere_is_not_ranked_and_other_runs_of_a_pair_count_once() -> None:
    fewer = run("fewer", "d", "cats", [0.5, 0.6, 0.7, 0.0], specs=("rollout", "fullgrad:libra", "lrp", "random"))
    again = run("again", "a", "cats", [0.9, 0.1, 0.0], specs=("rollout", "lrp", "random"))
    table = table_over_runs([*RUNS, fewer, again])
    assert [column.head[1] for column in table.columns if column.head[0] == "a"] == ["Cats (run 0)", "Dogs", "Cats (again)"]
    ranks = {row.spec: row.cells[-1].value for row in table.rows}
    assert ranks["gradcam_plus:libra"] is None
    assert ranks["lrp"] == 1  # that of the smaller run of a on cats, where it is second, does not count
    missing = column(table, "d", "Cats", "MIF accuracy")
    assert [cell.note for cell in missing if cell.value is None] == ["Not measured."]


def test_what_is_shown_can_be_chosen() -> None:
    two = [run("1", "a", "cats", [*VALUES[0].tolist(), 0], ("mif", "energy")), run("2", "b", "cats", [*VALUES[1].tolist(), 0])]
    table = table_over_runs(two, Selection(metrics=("localisation",)))
    assert [column.head for column in table.columns] == [("a", "Cats", "Energy inside")]
    named = table_over_runs(two, Selection(metrics=("energy", "mif"), models=("a",), methods=("*:libra", "random")))
    assert [column.head[2] for column in named.columns] == ["Energy inside", "MIF accuracy"]
    assert [row.spec for row in named.rows] == ["gradcam_plus:libra", "fullgrad:libra", "random"]
    family = family_of("lrp")
    assert [row.spec for row in table_over_runs(two, Selection(method_families=(family,))).rows] == ["lrp"]
    turned = table_over_runs(two, Selection(metrics=("mif",), rows=("model", "dataset"), columns=("method", "metric")))
    assert [row.title for row in turned.rows] == ["a · Cats", "b · Cats"]
    assert turned.columns[0].head == ("Rollout", "MIF accuracy")
    assert (turned.rows_are, turned.levels) == ("model · data set", ("method", "metric"))


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"metrics": ("miff",)}, "No run has the metric 'miff': did you mean mif"),
        ({"methods": ("fullgrad",)}, "did you mean fullgrad:libra"),
        ({"models": ("z",)}, "No run has the model 'z': a, b, c"),
        ({"methods": ("nothing*",)}, "No run measured any of these"),
        ({"rows": ("method", "metric"), "columns": ("model", "dataset")}, "name metric among the columns"),
        ({"columns": ("model", "metric")}, "name each of method, model, dataset, metric once"),
    ],
)
def test_what_cannot_be_shown_is_refused(chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ExplainerError, match=message):
        table_over_runs(RUNS, Selection(**chosen))


def test_pairs_are_corrected_for_all_of_a_column() -> None:
    table = pairs_over_runs(RUNS[:2], Selection(methods=("rollout", "lrp", "random")))
    assert [row.spec for row in table.rows] == ["rollout lrp", "rollout random", "lrp random"]
    assert [row.cells[0].value for row in table.rows] == pytest.approx([0.003] * 3)
    assert [column.head for column in table.columns] == [("a", "Cats", "MIF accuracy"), ("a", "Dogs", "MIF accuracy")]


@pytest.mark.parametrize(
    ("metrics", "models", "warned"),
    [
        (("mif_aopc", "mif"), ("a", "b"), "MIF AOPC: "),
        (("comprehensiveness", "sufficiency"), ("a", "b"), "Comprehensiveness, Sufficiency: "),
        (("mif_aopc",), ("a", "a"), ""),
        (("mif", "srg"), ("a", "b"), ""),
        (("naopc",), ("a", "b"), ""),
        (("mif_aopc", "naopc"), ("a", "b"), "MIF AOPC: "),
    ],
)
def test_a_table_of_several_models_warns_of_aopc(metrics: tuple[str, ...], models: tuple[str, str], warned: str) -> None:
    values = [0.1, 0.2, 0.3, 0.4, 0.0]
    runs = [run(f"run on {dataset}", model, dataset, values, metrics) for model, dataset in zip(models, ("x", "y"), strict=True)]
    notes = [note for note in table_over_runs(runs).notes if "how small and how large" in note]
    assert len(notes) == bool(warned)
    if warned:
        assert notes[0].startswith(warned)
        assert ("(naopc)" in notes[0]) == ("naopc" not in metrics)  # its name, to be typed, where it is not there
