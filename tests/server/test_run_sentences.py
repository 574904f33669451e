"""A run in three sentences: they follow its figures, also where it has few methods, one metric, or no intervals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from explainers.metrics import METRICS
from vitrine_server.method_ranking import ranking_of_run
from vitrine_server.metric_lines import LINES, metric_line
from vitrine_server.run_reports import CONTROL, RunReport, read_run_reports
from vitrine_server.run_sentences import sentences
from vitrine_server.verdicts import verdict_in_words

#: value, half of the interval, whether tied with the best, whether told from random numbers
Figures = dict[str, tuple[float | None, float | None, bool, bool]]
RANDOM: Figures = {CONTROL: (0.1, 0.02, False, False)}


def run_of(figures: Figures, metric: str = "srg", inputs: int = 60) -> RunReport:
    """A run of one metric with these figures."""
    specs = list(figures)
    results = {
        spec: {
            "value": value,
            "error": None,
            "low": None if value is None or half is None else value - half,
            "high": None if value is None or half is None else value + half,
            "inputs": inputs,
            "tied": tied,
        }
        for spec, (value, half, tied, _) in figures.items()
    }
    apart: list[list[float | None]] = [[1.0] * len(specs) for _ in specs]
    for place, (_, _, _, is_told) in enumerate(figures.values()):
        if CONTROL in specs:
            apart[place][specs.index(CONTROL)] = 0.0 if is_told else 0.5
    report: dict[str, Any] = {
        "plan": {"model": "m"},
        "inputs": inputs,
        "kind": "image",
        "dataset": {"title": "Made up"},
        "interval": {"level": 0.95, "draws": 2000},
        "metrics": [METRICS[metric].to_json()],
        "methods": [{"spec": spec, "title": spec.upper(), "signed": True} for spec in specs],
        "results": {metric: results},
        "apart": {metric: apart},
    }
    return RunReport("run", Path(), report, False)


def said(figures: Figures, metric: str = "srg", inputs: int = 60) -> list[str]:
    ranking = ranking_of_run(run_of(figures, metric, inputs))
    return sentences(None if ranking is None else verdict_in_words(ranking))


def test_several_that_tie_are_counted_and_the_first_three_methods_named() -> None:
    tied: Figures = {spec: (value, 0.05, True, True) for spec, value in (("lrp:x", 0.6), ("lrp", 0.59), ("lime", 0.58), ("alti", 0.57))}
    rest: Figures = {"rise": (0.3, 0.03, False, True), "tis": (0.12, 0.03, False, False), "mda": (0.05, 0.03, False, True)}
    assert said({**tied, **rest, **RANDOM}) == [
        "Trust LRP:X, LIME or ALTI: 4 of 7 methods tie for first.",
        "No better than chance: TIS and MDA.",
        "Symmetric relevance gain on 60 pictures: LRP:X 55 to 65\u2009%, LIME 53 to 63\u2009% (95\u2009% intervals).",
    ]


def test_all_that_tie_are_named_where_they_are_few() -> None:
    figures: Figures = {"lrp": (0.6, 0.05, True, True), "lime": (0.59, 0.05, True, True), "rise": (0.3, 0.05, False, True)}
    assert said({**figures, **RANDOM})[:2] == [
        "Trust LRP and LIME: they tie for first among 3 methods.",
        "Every method beats a map of random numbers.",
    ]
    alone: Figures = {"lrp": (0.6, 0.05, True, True), "lime": (0.5, 0.05, False, True)}
    assert said({**alone, **RANDOM})[0] == "Trust LRP: it alone is first of 2 methods."


def test_many_that_are_no_better_than_chance_are_counted_and_worse_ones_apart() -> None:
    first: Figures = {"lrp": (0.6, 0.05, True, True)}
    chance: Figures = {f"m{place}": (0.11, 0.05, False, False) for place in range(4)}
    worse: Figures = {"lime": (0.01, 0.05, False, True)}
    assert said({**first, **chance, **RANDOM})[1] == "No better than chance: 4 of 5 methods, such as M0 and M1."
    assert said({**first, **chance, **worse, **RANDOM})[1] == "No better than chance: 4 of 6 methods, such as M0 and M1; 1 is worse."


def test_where_no_method_beats_chance_none_is_trusted() -> None:
    figures: Figures = {"lrp": (0.11, 0.05, True, False), "lime": (0.105, 0.05, True, False)}
    assert said({**figures, **RANDOM})[:2] == [
        "Trust no method by this run: none ties for first by Symmetric relevance gain and beats random numbers.",
        "No method is better than chance.",
    ]


def test_a_metric_that_puts_random_numbers_among_the_best_ranks_nobody() -> None:
    figures: Figures = {"lrp": (0.6, 0.05, True, True), "lime": (0.55, 0.05, True, True), CONTROL: (0.59, 0.05, True, False)}
    assert said(figures)[0] == "Trust no method by this run: Symmetric relevance gain does not tell the best one from random numbers."


def test_a_run_of_one_method_compares_nothing() -> None:
    alone: Figures = {"lrp": (0.6, 0.05, True, True)}
    assert said({**alone, **RANDOM})[:2] == [
        "Only one method was measured, LRP, so nothing can be compared.",
        "It beats a map of random numbers.",
    ]


def test_a_run_without_a_map_of_random_numbers_does_not_speak_of_chance() -> None:
    figures: Figures = {"lrp": (0.6, 0.05, True, True), "lime": (0.3, 0.05, False, True)}
    assert said(figures)[:2] == [
        "Trust LRP: it alone is first of 2 methods.",
        "No map of random numbers was measured, so it is not known what chance would give.",
    ]


def test_a_run_without_intervals_or_of_few_inputs_says_so() -> None:
    figures: Figures = {"lrp": (0.6, None, True, True), "lime": (0.3, None, False, True)}
    assert said(figures)[2] == "How sure this is cannot be said: the run has no intervals (60 pictures)."
    assert said(figures, inputs=3)[2] == "This is a trial: 3 pictures are too few to rank methods."
    assert said(figures, inputs=1)[2] == "This is a trial: 1 picture is too few to rank methods."


def test_values_that_are_no_shares_have_no_per_cent() -> None:
    figures: Figures = {"lrp": (0.6, 0.25, True, True), "lime": (0.9, 0.25, False, True)}
    assert said(figures, "au_mse")[2] == "AU-MSE on 60 pictures: LRP 0.35 to 0.85 (95\u2009% intervals)."


def test_where_no_method_is_trusted_the_size_of_the_intervals_is_said() -> None:
    figures: Figures = {"lrp": (0.11, 0.05, True, False), "lime": (0.105, 0.03, True, False)}
    assert said({**figures, **RANDOM})[2] == "Values may be off by 3 to 5 points, by method (60 pictures, 95\u2009% intervals)."


def test_what_ties_for_first_by_comparing_prompts_is_counted_and_not_trusted() -> None:
    figures: Figures = {
        "maskclip?less=prompts": (0.62, 0.05, True, True),
        "maskclip": (0.6, 0.05, True, True),
        "lime": (0.3, 0.05, False, True),
    }
    told = said({**figures, **RANDOM})
    assert told[0] == "Trust MASKCLIP: 2 of 3 methods tie for first."
    assert len(told) == 3


def test_a_run_without_a_value_or_without_a_metric_of_what_is_right_ranks_no_method() -> None:
    nothing: Figures = {"lrp": (None, None, False, False)}
    assert said(nothing) == ["No method of this run has a value by Symmetric relevance gain."]
    figures: Figures = {"lrp": (0.6, 0.05, True, True), **RANDOM}
    for metric in ("randomisation", "agreement"):
        assert said(figures, metric) == ["No metric of this run says which map is right, so it ranks no method."]


@pytest.mark.parametrize("run", read_run_reports([])[0], ids=lambda run: run.id)
def test_what_ships_is_summed_up_shortly_and_as_its_figures_say(run: RunReport) -> None:
    ranking = ranking_of_run(run)
    told = None if ranking is None else verdict_in_words(ranking)
    lines = sentences(told)
    assert len(lines) == (1 if told is None else 3)
    assert all(len(line.split()) <= 20 for line in lines)
    if told is None or told.cannot_tell:
        return
    values = {place.method.spec: place.place.value for place in told.places}
    first = [place.method.spec for place in told.places if place.group == "first"]
    figures = run.report["results"][told.metric.name]
    assert all(figures[spec]["tied"] for spec in first)
    assert {entry.method.spec for entry in told.trust} <= set(first)
    assert len(values) == sum(figure["value"] is not None for spec, figure in figures.items() if spec != CONTROL)
    number = re.search(r"(\d+) of \d+ methods tie", lines[0])
    assert number is None or int(number[1]) == len(first)


def test_each_metric_is_told_in_one_line() -> None:
    for name, metric in METRICS.items():
        line = metric_line(metric.to_json())
        assert line.endswith((".", "?"))
        assert len(line.split()) <= 20, name
        assert name.startswith("token_f1_") or name in LINES
    assert set(LINES) <= set(METRICS)
    assert metric_line({"name": "mine", "description": "The share of blue. Of all."}) == "The share of blue."
