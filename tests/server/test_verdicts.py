"""When to trust a method, in sentences made of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import explainers
from vitrine_server.method_ranking import MethodRanking, method_rankings
from vitrine_server.run_reports import CONTROL, RunReport, read_run_reports
from vitrine_server.verdicts import verdict_in_words, verdicts

#: spec -> value, whether tied with the best, and p against the control
FIGURES = {"a": (0.9, True, 0.0), "b": (0.8, False, 0.0), "c": (0.7, False, 0.01), "d": (0.3, False, 0.2), "e": (0.1, False, 0.0)}


def made(metric: str, values: dict[str, float], **more: Any) -> RunReport:
    results = {metric: {spec: {"value": value, "tied": more.get("tied") == spec} for spec, value in values.items()}}
    return RunReport(
        "run",
        Path(),
        {
            "plan": {"model": "m"},
            "inputs": 3,
            "interval": {"level": 0.95},
            "results": results,
            "methods": [{"spec": spec} for spec in values],
            **more,
        },
        True,
    )


def standing(direction: str = "higher") -> MethodRanking:
    values = {spec: value for spec, (value, _, _) in FIGURES.items()} | {CONTROL: 0.25}
    size = len(values)
    apart = [[1.0] * size for _ in values]
    for place, (_, _, p) in enumerate(FIGURES.values()):
        apart[place][size - 1] = p
    run = made("srg", values, apart={"srg": apart}, tied="a")
    return MethodRanking(run, {"name": "srg", "direction": direction, "unit": "share", "title": "Gain"})


def sentences(direction: str = "higher", runs: list[RunReport] | None = None) -> dict[str, str]:
    return {verdict.spec: verdict.text for verdict in verdicts([*FIGURES, "unknown"], {"m": standing(direction)}, runs or [])}


def test_a_place_is_one_against_the_best_and_against_the_control() -> None:
    assert sentences() == {
        "a": "tied for first on m (1 of 5).",
        "b": "in the best third on m (2 of 5).",
        "c": "in the middle third on m (3 of 5).",
        "d": "no better than a random map on m (4 of 5).",
        "e": "worse than a random map on m (5 of 5).",
    }
    assert sentences("lower")["a"].startswith("worse than a random map")


def test_a_map_that_random_weights_leave_alone_says_so() -> None:
    layers = made("randomisation", {"a": 0.9, "b": 0.9, "unknown": 0.6, "c": 0.4})
    ends = made("randomisation_end", {"a": 0.7, "b": 0.2})
    alone = made("randomisation_end", {"c": 0.9}, inputs=1)
    told = sentences(runs=[layers, ends, alone])
    assert "rank correlation of 0.70 (m)" in told["a"]  # where all weights are random counts before the mean over layers
    assert "rank correlation" not in told["b"] + told["c"]
    assert told["unknown"].startswith("with random weights it keeps a rank correlation of 0.60 (m)")


def test_what_ships_says_of_most_methods_when_to_trust_them() -> None:
    specs = [pair.spec for pair in explainers.all_variants()]
    said = {verdict.spec: verdict.text for verdict in verdicts(specs, method_rankings(), read_run_reports([])[0])}
    assert said["fullgrad_plus:libra"].startswith("tied for first on ")
    assert "0.79 (photos-vit)" in said["lrp"]
    assert said[CONTROL].startswith("with random weights it keeps a rank correlation of 1.00 ")  # it knows no weights, and has no place


def test_a_ranking_in_words_names_the_first_different_methods_and_what_is_no_better_than_chance() -> None:
    values = {
        "rollout:x": 0.9,
        "rollout": 0.85,
        "lrp": 0.8,
        "attcat": 0.75,
        "partial_lrp": 0.7,
        "fullgrad": 0.3,
        CONTROL: 0.25,
        "lime": 0.1,
    }
    order = [*values]
    apart = [[0.0] * len(order) for _ in order]
    for spec in ("fullgrad", CONTROL):  # the paired test does not tell them apart
        apart[order.index(spec)][order.index(CONTROL)] = apart[order.index(CONTROL)][order.index(spec)] = 0.3
    run = made("srg", values, apart={"srg": apart}, tied="rollout:x", kind="image", dataset={"title": "Made up"})
    run.report["methods"] = [{"spec": spec, "title": spec.upper(), "signed": True} for spec in order]
    for spec, figure in run.report["results"]["srg"].items():
        figure |= {"low": figure["value"], "high": figure["value"], "error": 0.0, "tied": values[spec] > 0.72}
    said = verdict_in_words(MethodRanking(run, {"name": "srg", "direction": "higher", "unit": "share", "title": "Gain"})).to_json()
    assert [(entry["spec"], entry["title"], entry["rank"]) for entry in said["trust"]] == [
        ("rollout:x", "ROLLOUT:X", 1),
        ("lrp", "LRP", 3),
        ("attcat", "ATTCAT", 4),
    ]
    assert [entry["spec"] for entry in said["by_chance"]] == ["fullgrad"]
    assert [entry["spec"] for entry in said["worse"]] == ["lime"]
    assert [place["group"] for place in said["places"]] == ["first"] * 4 + ["behind", "chance", "worse"]
    assert (said["of"], said["tied"], said["measured"]) == (7, 4, "3 pictures of Made up")


def test_what_ships_says_in_words_what_its_figures_say() -> None:
    """On photos, by SRG: the first three methods of the run, each above the random map, and no method named twice."""
    ranking = method_rankings()["photos-vit"]
    said, figures = verdict_in_words(ranking).to_json(), ranking.run.report["results"]["srg"]
    assert [entry["spec"] for entry in said["trust"]] == ["input_x_gradient:attnlrp", "xgradcam_plus", "generic_attention"]
    assert all(figures[entry["spec"]]["low"] > figures[CONTROL]["high"] for entry in said["trust"])
    assert said["worse"] == []  # no method is worse than random numbers by the paired test
