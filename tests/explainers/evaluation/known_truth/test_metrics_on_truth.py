"""Orders of methods against the truth: tau of SciPy, rows whose order is made up, and runs that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

from explainers import ExplainerError
from explainers.evaluation.known_truth.metrics_on_truth import agreement_with_truth, kendall, write_truth
from explainers.evaluation.known_truth.truth_in_words import advice, conclusions, doubts, metrics_without_marks, usable_metrics
from explainers.evaluation.known_truth.world import World, read_world
from explainers.evaluation.rows import read_rows
from explainers.metrics import METRICS
from tests.support.made_up_world import CONTROLS, INPUTS, METHODS, NAMES, write_world


def test_tau_is_that_of_scipy_with_ties() -> None:
    draw = np.random.default_rng(1)
    first, second = (draw.integers(0, 6, (20, 9)).astype(float) for _ in range(2))
    assert kendall(first, second) == pytest.approx([kendalltau(a, b).statistic for a, b in zip(first, second, strict=True)])
    assert np.isnan(kendall(np.ones((1, 4)), first[:1, :4])).all()


def test_a_metric_has_the_agreement_that_its_rows_were_made_with(tmp_path: Path) -> None:
    document = write_truth([write_world(tmp_path / "one"), write_world(tmp_path / "two")], tmp_path / "out")
    assert json.loads((tmp_path / "out" / "truth.json").read_text("utf-8")) == document
    metrics = {metric["name"]: metric for metric in document["metrics"]}
    assert set(metrics) == set(NAMES) - {"patch_ap", "agreement"}  # the truth itself, and what has no better end
    assert metrics["srg"]["kinds"]["image"] == {"tau": 1.0, "low": 1.0, "high": 1.0, "methods": 5, "of": 5, "worlds": 2}
    assert metrics["srg"]["worlds"]["one"] == {
        **{"tau": 1.0, "low": 1.0, "high": 1.0, "methods": 5, "of": 5},
        **{"first": "best", "first_place": 1},
    }
    assert metrics["srg"]["kinds"]["text"] is None
    assert metrics["mif_log_odds"]["worlds"]["two"]["tau"] == -1
    assert metrics["mif_log_odds"]["worlds"]["two"]["first_place"] == 5
    lif = metrics["lif"]["worlds"]["one"]
    rows = read_rows(tmp_path / "one")
    means = [[np.mean([row[name] for row in rows if row["method"] == spec]) for spec in METHODS] for name in ("lif", "patch_ap")]
    assert lif["tau"] == pytest.approx(kendalltau(*means).statistic)
    assert lif["low"] < lif["tau"] < lif["high"]
    assert metrics["completeness"]["worlds"]["one"] is None  # two methods have no order to speak of
    assert [metric["reads_marks"] for metric in (metrics["energy"], metrics["srg"])] == [True, False]
    (world, _) = document["worlds"]
    assert [method["spec"] for method in world["methods"]] == list(METHODS)
    assert world["methods"][0]["further"] == {"energy": 0.8}
    assert world["inputs"] == INPUTS


def test_the_sentences_say_what_the_figures_say(tmp_path: Path) -> None:
    document = agreement_with_truth([read_world(write_world(tmp_path / "one")), read_world(write_world(tmp_path / "two"))])
    assert metrics_without_marks(document, "image")[0]["name"] == "srg"
    said = " ".join(conclusions(document))
    assert "by truth Best is first (Patch AP 0.9" in said
    assert "a map of random numbers is 5th of 5" in said
    assert "of 3 metrics that are not told the truth and have a value for half of the methods or more, these put methods most " in said
    assert "Cannot be told from chance on pictures: LIF accuracy." in said
    assert "Against the truth on pictures: MIF log-odds." in said
    assert "Above chance in each of the 2 worlds, with the least agreement in any of them: Symmetric relevance gain 1.00." in said
    document["metrics"][1]["worlds"]["one"].update(tau=0.5, low=0.4, high=0.6)
    document["metrics"] = document["metrics"][:2]
    assert document["metrics"][1]["name"] == "srg"
    document["metrics"][1]["worlds"]["two"].update(tau=-0.5, low=-0.6, high=-0.4)
    assert "With the truth in one world and against it in another on pictures: Symmetric relevance gain." in " ".join(conclusions(document))


def test_controls_stand_apart_from_the_methods(tmp_path: Path) -> None:
    """They change no agreement, and each metric is asked whether it puts them where they belong."""
    without, beside = (read_world(write_world(tmp_path / name, dataset=dataset)) for name, dataset in (("a", None), ("b", "votes")))
    assert (without.controls, beside.controls) == ([], list(CONTROLS))
    assert len(beside.rows) == INPUTS * (len(METHODS) + len(CONTROLS))
    document = agreement_with_truth([beside])
    (world,) = document["worlds"]
    assert [method["spec"] for method in world["methods"]] == list(METHODS)
    assert [(control["name"], control["place"]) for control in world["controls"]] == [
        ("truth", 1),
        ("truth_half", 3),
        ("truth_inverted", 6),
        ("edges", 4),
    ]
    metrics = {metric["name"]: metric for metric in document["metrics"]}
    assert metrics["srg"]["worlds"]["b"]["of"] == len(METHODS)
    of_srg, reverse, chance = (metrics[name]["controls"]["worlds"]["b"] for name in ("srg", "mif_log_odds", "lif"))
    assert {name: place["right"] for name, place in of_srg["places"].items()} == dict.fromkeys(CONTROLS, 5)
    assert {name: place["right"] for name, place in reverse["places"].items()} == dict.fromkeys(CONTROLS, 0)
    assert (of_srg["random"], reverse["random"], chance["random"]) == ("above", "below", "alike")
    assert metrics["srg"]["controls"]["kinds"]["image"]["first"]
    assert metrics["srg"]["controls"]["kinds"]["text"] is None
    assert metrics["completeness"]["controls"]["worlds"]["b"] is None  # no control has a value
    assert agreement_with_truth([without])["metrics"][1]["controls"]["worlds"]["a"] is None


def test_what_puts_the_truth_below_random_numbers_is_in_doubt(tmp_path: Path) -> None:
    document = agreement_with_truth([read_world(write_world(tmp_path / name, dataset="votes")) for name in ("one", "two")])
    metrics = {metric["name"]: metric for metric in document["metrics"]}
    assert doubts(document, metrics["srg"], "image") == doubts(document, metrics["mif_log_odds"], "text") == []
    assert doubts(document, metrics["mif_log_odds"], "image") == [
        "puts the truth below random numbers (Scenes and Scenes)",
        "puts the truth below its inverse (Scenes and Scenes)",
    ]
    said = conclusions(document)
    (itself,) = (
        sentence
        for sentence in said
        if sentence.startswith("The truth itself on pictures, given to the metrics like a method in the 2 worlds")
    )
    assert "1 of 3 metrics put it above every method that is measurably less true" in itself
    assert itself.endswith("its inverse below every method: Symmetric relevance gain.")
    assert "What puts the truth below random numbers on pictures: MIF log-odds (Scenes and Scenes)." in said
    assert any("A map of edges of the picture knows no model" in each and "MIF log-odds (0 of 10 right)" in each for each in said)
    take, avoid, rest = advice(document)
    assert take == "To choose a method on pictures by one metric, measure Symmetric relevance gain (1.00): it agrees best with the truth."
    assert [metric["name"] for metric in usable_metrics(document, "image")] == ["srg"]  # the others are in doubt or told the truth
    assert usable_metrics(document, "text") == []
    assert avoid.startswith("Do not choose a method on pictures by MIF log-odds: ")
    assert rest.startswith("Do not rely on LIF accuracy alone on pictures: ")


def test_inputs_without_a_truth_count_for_nothing(tmp_path: Path) -> None:
    world = read_world(write_world(tmp_path / "one"))
    rows = [{**row, "patch_ap": None, "srg": 0.0} if row["index"] >= 10 else row for row in world.rows]
    document = agreement_with_truth([World("one", world.report, rows)])
    assert document["worlds"][0]["inputs"] == 10
    assert next(metric for metric in document["metrics"] if metric["name"] == "srg")["kinds"]["image"]["tau"] == 1


def test_what_is_no_world_says_why(tmp_path: Path) -> None:
    with pytest.raises(ExplainerError, match="no finished run with its rows"):
        read_world(tmp_path)
    with pytest.raises(ExplainerError, match="did not measure patch_ap"):
        read_world(write_world(tmp_path / "a", names=("srg",)))
    with pytest.raises(ExplainerError, match="truth is known of images and texts"):
        read_world(write_world(tmp_path / "b", kind="molecule"))
    with pytest.raises(ExplainerError, match="3 methods"):
        read_world(write_world(tmp_path / "c", methods=METHODS[:3]))


def test_the_agreements_that_ship_are_those_of_the_means_that_ship() -> None:
    """SciPy's tau of the means in the reports, whose six digits keep ties that sums of floats would break."""
    results = Path("docs/results")
    document = json.loads((results / "metrics-on-truth" / "truth.json").read_text("utf-8"))
    found: dict[tuple[str, str], float] = {}
    for world in document["worlds"]:
        report = json.loads((results / world["name"] / "report.json").read_text("utf-8"))
        for metric in document["metrics"]:
            if (about := metric["worlds"][world["name"]]) is None:
                continue
            sign = -1 if METRICS[metric["name"]].direction == "lower" else 1
            figures = [
                [report["results"][name][method["spec"]]["value"] for method in report["methods"]]
                for name in (metric["name"], world["truth"]["name"])
            ]
            pairs = [(sign * value, truth) for value, truth in zip(*figures, strict=True) if value is not None]
            found[world["name"], metric["name"]] = tau = kendalltau(*zip(*pairs, strict=True)).statistic
            assert about["tau"] == pytest.approx(tau, abs=6e-5), (world["name"], metric["name"])
    assert found["truth-scenes", "mif"] == pytest.approx(0.7518, abs=5e-5)
    for metric in document["metrics"]:
        for kind, about in metric["kinds"].items():
            taus = [
                found[world["name"], metric["name"]]
                for world in document["worlds"]
                if world["kind"] == kind and (world["name"], metric["name"]) in found
            ]
            assert (about is None) == (not taus)
            if about is not None:
                assert about["tau"] == pytest.approx(np.mean(taus), abs=6e-5)
