"""How far each method can be trusted: its place in a run that ships."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explainers
from explainers.methods.presets import MOST_IN_A_PRESET
from explainers.methods.registry import is_control
from explainers.methods.specs import Spec
from vitrine_server.method_figures import figures_of
from vitrine_server.method_ranking import (
    REFERENCE_MODELS,
    SAYS,
    UNMEASURED_METHOD,
    MethodRanking,
    asides,
    default_specs,
    method_rankings,
    ranking_for,
    recommended_spec,
)
from vitrine_server.metric_lines import LINES
from vitrine_server.metric_truth import deciding_metric
from vitrine_server.run_reports import CONTROL, RunReport, read_run_reports
from vitrine_server.verdicts import verdict_in_words

VALUES = {"a": 0.1, "b": 0.3, CONTROL: 0.2, "c": 0.1, "nowhere": None}


def made(direction: str) -> MethodRanking:
    """A run of five methods, one of them without a value."""
    metric: dict[str, Any] = {"name": "srg", "title": "Gain", "unit": "share", "direction": direction, "family": "faithfulness"}
    report = {
        "plan": {"model": "m"},
        "kind": "image",
        "inputs": 2,
        "dataset": {"title": "Made up"},
        "methods": [{"spec": spec} for spec in VALUES],
        "apart": {"srg": [[0.0] * len(VALUES) for _ in VALUES]},
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
    document = made("higher").standing("m").to_json()
    ranks = document.pop("ranks")
    assert document == {
        "run": "run",
        "model": "m",
        "measured": "2 pictures of Made up",
        "inputs": "2 pictures",
        "metric": {"name": "srg", "title": "Gain", "unit": "share", "direction": "higher", "says": SAYS["srg"], "line": LINES["srg"]},
        "second": None,
        "random": 0.2,
        "random_second": None,
        "here": True,
    }
    best = {"rank": 1, "of": 3, "value": 0.3, "low": 0.3, "high": 0.3, "tied": True, "second_value": None, "recommended": True}
    assert ranks["b"] == best
    assert not ranks["a"]["recommended"]
    assert list(ranks) == ["b", "a", "c"]


def ranked(values: dict[str, float], tied: set[str], like_chance: set[str]) -> MethodRanking:
    """A run with these values, and a random map at 0.2; the paired test does not tell ``like_chance`` from it."""
    specs = [*values, CONTROL]
    apart = [[0.5 if spec in like_chance else 0.0 for _ in specs] for spec in specs]
    figures = {
        spec: {"value": value, "low": value, "high": value, "tied": spec in tied} for spec, value in {**values, CONTROL: 0.2}.items()
    }
    report = {
        "plan": {"model": "m"},
        "kind": "image",
        "inputs": 9,
        "dataset": {"title": "Made up"},
        "methods": [{"spec": spec} for spec in specs],
        "apart": {"ap": apart},
        "results": {"ap": figures},
    }
    metric = {"name": "ap", "title": "AP", "unit": "share", "direction": "higher", "family": "plausibility"}
    return MethodRanking(RunReport("run", Path(), report, shipped=True), metric)


def test_only_a_method_that_ties_with_the_best_and_beats_chance_without_the_other_prompts_is_recommended() -> None:
    values = {"maskclip?less=prompts": 0.9, "rollout": 0.8, "lrp": 0.7, "attcat": 0.6, "fullgrad": 0.1}
    tied = {"maskclip?less=prompts", "rollout", "lrp", "fullgrad"}
    ranking = ranked(values, tied, like_chance={"lrp"})
    assert ranking.recommended == ("rollout",)  # lrp may be chance, attcat is behind, fullgrad is worse than chance
    standing = ranking.standing("m").ranks
    assert [spec for spec, place in standing.items() if place.recommended] == ["rollout"]
    assert ranked(values, {*tied, CONTROL}, like_chance=set()).recommended == ()  # random numbers tie with the best


def test_what_is_recommended_is_first_on_the_leaderboard() -> None:
    for kind, model in REFERENCE_MODELS.items():
        ranking = ranking_for(kind, model)
        assert ranking is not None
        trusted = verdict_in_words(ranking).trust
        assert trusted[0].method.spec == recommended_spec(kind, model) == ranking.recommended[0]
        assert all(method.place.recommended for method in trusted)
    assert recommended_spec("image", "photos-vit") == "input_x_gradient:attnlrp"
    assert recommended_spec("text", signed=True) == "fullgrad:libra"


def test_where_nothing_is_recommended_one_method_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrine_server.method_ranking.method_rankings", dict)
    assert recommended_spec("image", "photos-vit") == UNMEASURED_METHOD
    assert UNMEASURED_METHOD in {variant.spec for variant in explainers.variants()}


def test_the_best_of_each_family_is_among_what_is_shown_first() -> None:
    able = [variant for variant in explainers.variants() if variant.reason is None]
    for model, kind in (("photos-vit", "image"), ("scenes-vit", "image"), ("reviews-bert", "text"), ("clip", "clip")):
        ranking = ranking_for(kind, model)
        assert ranking is not None
        first = default_specs(ranking, able)
        methods = [spec for spec in first if not is_control(spec)]
        assert len(methods) == MOST_IN_A_PRESET
        assert {variant.spec for variant in able if variant.default and is_control(variant.spec)} <= set(first)
        best: dict[str, int] = {}
        for spec, rank in ranking.ranks.items():
            if "less" in Spec.parse(spec).options:  # it depends on the other prompts
                continue
            family = explainers.METHODS[Spec.parse(spec).method].family
            best[family] = min(rank, best.get(family, rank))
        assert set(sorted(best.values())[:MOST_IN_A_PRESET]) <= {ranking.rank(spec) for spec in first}
        others = [spec for spec in methods if ranking.rank(spec) not in best.values()]
        assert set(others) <= {variant.spec for variant in able if variant.default}


def test_what_cannot_run_or_was_not_measured_is_not_shown_first() -> None:
    able = explainers.variants()
    ranking = ranking_for("image", "photos-vit")
    assert ranking is not None
    best = min(ranking.ranks, key=lambda spec: ranking.ranks[spec])
    assert best in default_specs(ranking, able)
    assert best not in default_specs(ranking, [replace(v, reason="no way") if v.spec == best else v for v in able])
    assert default_specs(None, able) == [variant.spec for variant in able if variant.default and variant.reason is None]


def test_each_embedded_model_stands_on_a_run_of_its_own() -> None:
    known = {pair.spec for pair in explainers.all_variants()}
    for model, kind in (("photos-vit", "image"), ("scenes-vit", "image"), ("reviews-bert", "text"), ("clip", "clip")):
        standing = ranking_for(kind, model)
        assert standing is method_rankings()[model]
        assert standing.metric["name"] in SAYS
        assert standing.metric == deciding_metric(standing.run.report["metrics"], standing.run.report["kind"])
        document = standing.standing().to_json()
        assert document["model"] == model
        assert {spec.partition("?")[0] for spec in document["ranks"]} <= known
        assert document["random"] < max(figures["value"] for figures in document["ranks"].values())


def test_a_methods_page_gives_the_places_that_its_plate_has() -> None:
    runs, _ = read_run_reports([])
    compared = 0
    for model, ranking in method_rankings().items():
        for spec, rank in ranking.ranks.items():
            method, _, rule = spec.partition(":")
            for figure in figures_of(method, [rule] if rule else [], runs):
                if (figure.run.id, figure.spec, figure.metric["name"]) == (ranking.run.id, spec, ranking.metric["name"]):
                    assert (figure.rank, figure.of) == (rank, len(ranking.ranks)), (model, spec)
                    compared += 1
    assert compared > 50
    assert {figure.rank for figure in figures_of(CONTROL, [], runs)} == {None}  # it is no method


def test_prompts_are_ranked_on_photos() -> None:
    ranking = ranking_for("clip", "clip")
    assert ranking is not None
    document = ranking.standing().to_json()
    assert (document["run"], document["metric"]["name"]) == ("clip-on-coco-pairs", "ap")
    assert document["measured"] == "50 pictures of COCO 2017, photos of two things, train2017"
    assert (document["random"], document["ranks"]["gradcam_attention"]["value"]) == (
        pytest.approx(0.227, abs=0.001),
        pytest.approx(0.314, abs=0.001),
    )
    tied = [spec for spec, figures in document["ranks"].items() if figures["tied"]]
    assert list(document["ranks"])[: len(tied)] == tied  # none of the others comes before one of these
    values = [document["ranks"][spec]["value"] for spec in tied]
    assert values == sorted(values, reverse=True)
    assert (document["second"]["name"], tied[0], len(tied)) == ("own_object", "maskclip?less=prompts", 16)
    # the map of a method that looks at no prompt is the same for both prompts
    assert (document["ranks"]["lrp"]["tied"], document["ranks"]["lrp"]["second_value"]) == (False, 0.5)
    assert not ranking.run.shows_inputs  # the photos may not be passed on
    titles = {method["spec"]: method["title"] for method in ranking.run.report["methods"]}
    assert len(set(titles.values())) == len(titles)  # one with options is told from the plain one


def test_the_recommended_map_of_a_prompt_does_not_depend_on_the_others() -> None:
    """A map that depends on the other prompts is recommended nowhere, though it tells things apart best where both are asked for."""
    ranking = ranking_for("clip", "clip")
    assert ranking is not None
    assert ranking.run.report["plan"]["target"] != "together"
    able = [variant for variant in explainers.variants() if variant.reason is None]
    assert not [spec for spec in default_specs(ranking, able) if "less=prompts" in spec]


def test_another_model_gets_the_ranks_of_the_embedded_one_of_its_kind() -> None:
    for kind, model in (("image", "photos-vit"), ("text", "reviews-bert"), ("clip", "clip")):
        assert ranking_for(kind, "someone/else") is ranking_for(kind) is method_rankings()[model]


def test_methods_that_are_best_nowhere_stand_behind_unless_a_paper_has_them() -> None:
    best = {
        spec.split("?")[0].split(":")[0] for one in method_rankings().values() for spec, place in one.standing().ranks.items() if place.tied
    }
    reasons = asides()
    assert not best & set(reasons)
    assert "rollout" not in best | set(reasons)  # a baseline of Chefer et al.
    assert reasons["saliency"] == "Measured on 6 models, and among the best on none."
    assert "integrated_gradients" not in reasons  # not measured
