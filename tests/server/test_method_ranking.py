"""How far each method can be trusted: its place in a run that ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explainers
from server.method_ranking import RANKED_BY, MethodRanking, method_rankings, ranking_for
from server.run_reports import CONTROL, RunReport, figures_of, read_run_reports

VALUES = {"a": 0.1, "b": 0.3, CONTROL: 0.2, "c": 0.1, "nowhere": None}


def made(direction: str) -> MethodRanking:
    """A run of five methods, one of them without a value."""
    metric: dict[str, Any] = {"name": "srg", "title": "Gain", "unit": "share", "direction": direction, "family": "faithfulness"}
    report = {
        "plan": {"model": "m"},
        "kind": "image",
        "inputs": 2,
        "dataset": {"title": "Made up"},
        "results": {
            "srg": {spec: {"value": value, "low": value, "high": value, "tied": spec == "b", "error": 0} for spec, value in VALUES.items()}
        },
    }
    return MethodRanking(RunReport("run", Path(), report, shipped=True), metric)


@pytest.mark.parametrize(("direction", "ranks"), [("higher", [2, 1, 2]), ("lower", [1, 3, 1])])
def test_ranks_follow_the_values_and_leave_the_control_out(direction: str, ranks: list[int]) -> None:
    standing = made(direction)
    assert [standing.rank(spec) for spec in ("a", "b", "c")] == ranks
    assert standing.rank(CONTROL) is standing.rank("nowhere") is standing.rank("unknown") is None


def test_what_the_pages_get() -> None:
    document = made("higher").to_json()
    ranks = document.pop("ranks")
    assert document == {
        "run": "run",
        "model": "m",
        "measured": "2 pictures of Made up",
        "metric": {"name": "srg", "title": "Gain", "unit": "share", "direction": "higher"},
        "random": 0.2,
    }
    assert ranks["b"] == {"rank": 1, "of": 3, "value": 0.3, "low": 0.3, "high": 0.3, "tied": True}
    assert list(ranks) == ["b", "a", "c"]


def test_each_embedded_model_stands_on_a_run_of_its_own() -> None:
    known = {pair.spec for pair in explainers.pairs()}
    for model, kind in (("photos-vit", "image"), ("scenes-vit", "image"), ("reviews-bert", "text"), ("clip", "clip")):
        standing = ranking_for(kind, model)
        assert standing is method_rankings()[model]
        assert standing.metric["name"] in RANKED_BY
        document = standing.to_json()
        assert document["model"] == model
        assert set(document["ranks"]) <= known
        assert document["random"] < max(figures["value"] for figures in document["ranks"].values())


def test_a_methods_page_gives_the_places_that_its_plate_has() -> None:
    runs, _ = read_run_reports([])
    compared = 0
    for model, ranking in method_rankings().items():
        for spec, rank in ranking.ranks.items():
            readout, _, rule = spec.partition(":")
            for figure in figures_of(readout, [rule] if rule else [], runs):
                if (figure.run.id, figure.spec, figure.metric["name"]) == (ranking.run.id, spec, ranking.metric["name"]):
                    assert (figure.rank, figure.of) == (rank, len(ranking.ranks)), (model, spec)
                    compared += 1
    assert compared > 50
    assert {figure.rank for figure in figures_of(CONTROL, [], runs)} == {None}  # it is no method


def test_another_model_gets_the_ranks_of_the_embedded_one_of_its_kind() -> None:
    for kind, model in (("image", "photos-vit"), ("text", "reviews-bert"), ("clip", "clip")):
        assert ranking_for(kind, "someone/else") is ranking_for(kind) is method_rankings()[model]
