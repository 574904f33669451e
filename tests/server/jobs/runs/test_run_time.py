"""How long a run will take, from what earlier runs of its model took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import explainers
from vitrine_server.jobs.runs.run_time import estimate_time, specs_of
from vitrine_server.run_reports import RunReport


def run_of(name: str, specs: list[str], metrics: list[str], seconds: float | None, **more: Any) -> RunReport:
    """An earlier run of ten inputs."""
    report = {
        "plan": {"model": "m"},
        "inputs": 10,
        "seconds": seconds,
        "methods": [{"spec": spec} for spec in specs],
        "metrics": [{"name": metric} for metric in metrics],
        **more,
    }
    return RunReport(name, Path(), report, False)


def test_each_map_takes_what_it_took_in_the_run_that_shares_most_metrics() -> None:
    near = run_of("near", ["rollout", "lrp"], ["mif", "lif"], 40.0)  # 2 s a map
    far = run_of("far", ["rollout", "lrp"], ["randomisation"], 4000.0)
    time = estimate_time("m", ["rollout", "lrp"], ["mif"], 5, [far, near])
    assert (time.seconds, time.methods, time.runs) == (pytest.approx(5 * 2 * 2.0), 2, ["near"])
    assert estimate_time("m", ["rollout"], ["randomisation"], 5, [far, near]).seconds == pytest.approx(5 * 200.0)


def test_a_slow_map_takes_longer_than_the_others_of_its_run() -> None:
    costs = {"seconds": {"rollout": {"value": 0.5}, "lime": {"value": 7.5}}}
    mixed = run_of("mixed", ["rollout", "lime"], ["mif"], 100.0, costs=costs)  # 5 s a map, 4 of them to draw it
    assert estimate_time("m", ["lime"], ["mif"], 2, [mixed]).seconds == pytest.approx(2 * (1.0 + 7.5))
    assert estimate_time("m", ["rollout"], ["mif"], 2, [mixed]).seconds == pytest.approx(2 * (1.0 + 0.5))


def test_a_method_that_no_run_measured_counts_as_the_mean_of_the_others() -> None:
    known = run_of("known", ["rollout"], ["mif"], 30.0)
    assert estimate_time("m", ["rollout", "new"], ["mif"], 2, [known]).seconds == pytest.approx(2 * 2 * 3.0)


def test_nothing_is_said_where_no_run_tells() -> None:
    others = [run_of("other", ["rollout"], ["mif"], 30.0, plan={"model": "another"}), run_of("stopped", ["rollout"], ["mif"], None)]
    time = estimate_time("m", ["rollout"], ["mif"], 2, others)
    assert (time.seconds, time.methods, time.runs) == (None, 1, [])


def test_sets_of_methods_mean_what_the_model_can_run() -> None:
    listed = explainers.variants()
    variants = [{"spec": variant.spec, "reason": "no" if variant.spec == "rollout" else None} for variant in listed]
    chosen = [variant.spec for variant in listed if variant.default and variant.spec != "rollout"]
    assert specs_of(["default", "mine?x=1", chosen[0]], variants) == [*chosen, "mine?x=1"]
    assert "rollout" not in specs_of(["all"], variants)
