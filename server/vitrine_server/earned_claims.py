"""How often each method earned a claim in the runs that measured it, and how small its set was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from explainers.evaluation.statistics import exact_interval
from vitrine_server.run_reports import RunReport
from vitrine_server.schemas.claims import MethodClaims, RunClaims

#: The names of the metrics that a run of claims has.
EARNS, SIZE = "claim", "claim_size"


def earned_claims(runs: Iterable[RunReport]) -> list[RunClaims]:
    """Return the claims that methods earned in each of ``runs`` that measured them."""
    return [_claims_of(run) for run in runs if EARNS in run.report["results"]]


def _claims_of(run: RunReport) -> RunClaims:
    report = run.report
    level, sizes = report["interval"]["level"], report["results"].get(SIZE, {})
    methods = [
        _method_claims(about["spec"], about["title"], report["results"][EARNS][about["spec"]], sizes.get(about["spec"]), level)
        for about in report["methods"]
    ]
    methods.sort(key=lambda each: (-each.count / max(1, each.inputs), 1 if each.size is None else each.size))
    return RunClaims(run.id, report["plan"]["model"], report["dataset"]["title"], report["inputs"], level, methods)


def _method_claims(spec: str, title: str, earned: dict[str, Any], size: dict[str, Any] | None, level: float) -> MethodClaims:
    """Return the claims of a method from its figures ``earned`` and ``size``. The bootstrap of a report gives no interval to a share of 0
    or 1 of few inputs, so the exact one is computed.
    """
    inputs = earned["inputs"]
    count = round((earned["value"] or 0) * inputs)
    low, high = exact_interval(count, inputs, level)
    has_interval = size is not None and size["inputs"] > 1
    mean, size_low, size_high = (None if size is None else size[name] for name in ("value", "low", "high"))
    ends = (size_low, size_high) if has_interval else (None, None)
    return MethodClaims(spec, title, count, inputs, low, high, mean, *ends)
