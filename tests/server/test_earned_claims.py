"""Claims of runs: counts from means, exact intervals, and their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scipy.stats import beta

from tests.support.made_up_run import report as made_up_report
from vitrine_server.earned_claims import earned_claims
from vitrine_server.run_reports import RunReport


def figure(value: float | None, inputs: int, half: float = 0.0) -> dict[str, Any]:
    ends = (None, None) if value is None else (value - half, value + half)
    return {"value": value, "error": half, "low": ends[0], "high": ends[1], "inputs": inputs, "tied": False}


def run_of(results: dict[str, Any]) -> RunReport:
    document = made_up_report()
    return RunReport("claims", Path("claims"), {**document, "results": {**document["results"], **results}}, shipped=True)


def test_counts_have_exact_intervals_and_most_claims_come_first() -> None:
    earns = {"rollout": figure(1.0, 6), "fullgrad:libra": figure(1.0, 6), "random": figure(0.0, 6)}
    sizes = {"rollout": figure(0.2, 6, 0.05), "fullgrad:libra": figure(0.1, 1), "random": figure(None, 0)}
    (found,) = earned_claims([run_of({"claim": earns, "claim_size": sizes}), run_of({})])
    assert (found.run, found.model, found.level) == ("claims", "scenes-vit", 0.95)
    assert [each.spec for each in found.methods] == ["fullgrad:libra", "rollout", "random"]  # of as many claims the smaller
    first, second, last = found.methods
    assert (first.count, second.count, last.count) == (6, 6, 0)
    assert (second.low, second.high) == pytest.approx((beta.ppf(0.025, 6, 1), 1))  # Clopper and Pearson
    assert (last.low, last.high) == pytest.approx((0, beta.ppf(0.975, 1, 6)))
    assert (first.size_low, first.size_high) == (None, None)  # a single claim has no interval
    assert (second.size_low, second.size_high) == pytest.approx((0.15, 0.25))
    assert last.size is None
