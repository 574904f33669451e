"""The comparison of metrics with the truth that ships: what its file says, and what metrics without one get."""

from __future__ import annotations

import json
from typing import Any

import pytest

from explainers.metrics import METRICS
from tests.conftest import ROOT
from vitrine_server.metric_truth import deciding_metric, metric_truth, models_of_known_truth, truth_of, why_it_decides
from vitrine_server.run_reports import shipped_folder

SHIPPED = json.loads((ROOT / "docs" / "results" / "metrics-on-truth" / "truth.json").read_text("utf-8"))


def test_what_ships_is_of_four_worlds_whose_runs_ship_too() -> None:
    document = metric_truth()
    assert document is not None
    assert [{name: metric[name] for name in metric if name != "doubts"} for metric in document["metrics"]] == SHIPPED["metrics"]
    folder = shipped_folder()
    assert folder is not None
    assert [world["kind"] for world in document["worlds"]] == ["image", "image", "image", "text"]
    for world in document["worlds"]:
        report = json.loads((folder / world["name"] / "report.json").read_text("utf-8"))
        assert world["inputs"] <= report["inputs"]
        values = {method["spec"]: method["value"] for method in world["methods"]}
        results = report["results"][world["truth"]["name"]]
        assert values == {spec: round(results[spec]["value"], 4) for spec in values}
        places = [method["value"] for method in world["methods"]]
        assert places == sorted(places, reverse=True)
        assert [(control["value"], control["place"]) for control in world["controls"] if control["name"] == "truth"] == [(1, 1)]
        assert not {control["name"] for control in world["controls"]} & values.keys()
    assert [world["marks_alone"] for world in document["worlds"]] == [False, True, True, True]
    assert document["sentences"]
    compared = [metric for metric in SHIPPED["metrics"] if metric["family"] == "faithfulness" and metric["kinds"]["image"] is not None]
    best = max(compared, key=lambda metric: metric["kinds"]["image"]["tau"])
    agreement = f"{best['title']} ({best['kinds']['image']['tau']:.2f})"
    assert document["advice"][0].startswith(f"To choose a method on pictures by one metric, measure {agreement}: ")


def test_a_metric_has_the_mark_of_the_kind_of_input() -> None:
    of_srg = next(metric for metric in SHIPPED["metrics"] if metric["name"] == "srg")
    document = metric_truth()
    assert truth_of(document, "srg", "image")["truth"] == of_srg["kinds"]["image"] != of_srg["kinds"]["text"]
    nothing = {"truth": None, "doubts": []}
    assert (
        truth_of(document, "srg", "molecule") == truth_of(document, "no-such-metric", "image") == truth_of(None, "srg", "image") == nothing
    )
    (doubt, *_) = truth_of(document, "monotonicity_deletion", "image")["doubts"]
    assert doubt.startswith("puts the truth below random numbers (")
    assert {metric["name"] for metric in SHIPPED["metrics"]} <= METRICS.keys()


def test_metrics_known_by_name_are_compared_in_runs_of_their_own() -> None:
    document, folder = metric_truth("metrics-by-name"), shipped_folder()
    assert document is not None
    assert folder is not None
    by_name = {metric["name"]: metric for metric in document["metrics"]}
    assert not by_name.keys() & {metric["name"] for metric in SHIPPED["metrics"]}
    assert by_name.keys() <= METRICS.keys()
    for world in document["worlds"]:
        report = json.loads((folder / world["name"] / "report.json").read_text("utf-8"))
        assert world["inputs"] <= report["inputs"]
        of_world = [name for name, metric in by_name.items() if metric["worlds"][world["name"]] is not None]
        assert set(of_world) <= report["results"].keys()
    for name in ("faithfulness_correlation", "sensitivity_n", "saco"):
        assert all(by_name[name]["controls"]["kinds"][kind]["first"] for kind in ("image", "text"))
        assert not any(by_name[name]["doubts"].values())
    assert by_name["infidelity"]["doubts"]["text"]


def metrics_named(*names: str) -> list[dict[str, Any]]:
    return [METRICS[name].to_json() for name in names]


@pytest.mark.parametrize(
    ("names", "kind", "decides"),
    [
        (("mif", "lif", "srg", "ap"), "image", "srg"),
        (("mif", "lif", "srg", "comprehensiveness"), "image", "comprehensiveness"),
        (("auac", "srg", "lif", "mif"), "text", "mif"),
        (("monotonicity_deletion", "srg"), "image", "srg"),  # the other is in doubt
        (("completeness", "ap"), "image", "ap"),  # of few methods, and told the truth
        (("mif", "srg"), "molecule", "srg"),  # no world has molecules
        (("completeness", "pointing"), "image", None),
    ],
)
def test_the_metric_decides_that_agrees_best_with_known_truth_among_those_measured(
    names: tuple[str, ...], kind: str, decides: str | None
) -> None:
    chosen = deciding_metric(metrics_named(*names), kind)
    assert (None if chosen is None else chosen["name"]) == decides
    agreement = {metric["name"]: metric["kinds"].get(kind) for metric in SHIPPED["metrics"]}
    if decides is not None and (figure := agreement[decides]) is not None and decides != "ap":
        rivals = [agreement[name]["tau"] for name in names if METRICS[name].family == "faithfulness" and agreement[name] is not None]
        assert figure["tau"] == max(rivals)


def test_why_a_metric_decides_names_its_agreement_and_a_better_one_that_was_not_measured() -> None:
    tau = {metric["name"]: metric["kinds"]["image"]["tau"] for metric in SHIPPED["metrics"] if metric["kinds"]["image"]}
    better = f"Comprehensiveness agrees better ({tau['comprehensiveness']:.2f}); this run did not measure it."
    reason = "It decides: of the metrics here that are not told the truth, it agrees best with known truth ({:.2f} of 1)."
    assert why_it_decides("srg", metrics_named("srg", "mif"), "image") == f"{reason.format(tau['srg'])} {better}"
    both = metrics_named("srg", "comprehensiveness")
    assert why_it_decides("comprehensiveness", both, "image") == reason.format(tau["comprehensiveness"])
    assert "Whether the model looks there is not known." in why_it_decides("ap", metrics_named("ap"), "image")
    assert why_it_decides("srg", metrics_named("srg"), "molecule") == (
        "It decides by our choice: how far it agrees with known truth was tested on pictures and sentences only."
    )


def test_the_test_models_of_known_truth_are_named() -> None:
    assert models_of_known_truth() == ["marks-vit", "votes-vit", "subject-verb-bert"]
