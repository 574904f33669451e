"""The comparison of metrics with the truth that ships: what its file says, and what metrics without one get."""

from __future__ import annotations

import json

from explainers.metrics import METRICS
from server.metric_truth import metric_truth, truth_of
from server.run_reports import shipped_folder
from tests.conftest import ROOT

SHIPPED = json.loads((ROOT / "docs" / "results" / "metrics-on-truth" / "truth.json").read_text("utf-8"))


def test_what_ships_is_of_four_worlds_whose_runs_ship_too() -> None:
    document = metric_truth()
    assert document is not None
    assert document["metrics"] == SHIPPED["metrics"]
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
    assert document["sentences"]


def test_a_metric_has_the_mark_of_the_kind_of_input() -> None:
    of_srg = next(metric for metric in SHIPPED["metrics"] if metric["name"] == "srg")
    document = metric_truth()
    assert truth_of(document, "srg", "image") == of_srg["kinds"]["image"] != of_srg["kinds"]["text"]
    assert truth_of(document, "srg", "molecule") is None
    assert truth_of(document, "no-such-metric", "image") is None
    assert truth_of(None, "srg", "image") is None
    assert {metric["name"] for metric in SHIPPED["metrics"]} <= METRICS.keys()
