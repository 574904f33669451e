"""Which figures of a report are marked as the best, and which columns cannot tell: a control is never among the best."""

from __future__ import annotations

from typing import Any

from explainers.methods.registry import is_control


def cannot_tell(report: dict[str, Any], metric: dict[str, Any]) -> str | None:
    """Return a sentence on why a metric cannot tell which method is good, on the model and data of a report; None if it can.

    It cannot if a control is among the best, or is tied with them.
    """
    figures = {spec: figure for spec, figure in report["results"][metric["name"]].items() if figure["value"] is not None}
    control = next((figure for spec, figure in figures.items() if is_control(spec) and figure["tied"]), None)
    methods = {spec: figure for spec, figure in figures.items() if not is_control(spec)}
    if control is None or not methods:
        return None
    is_lower = metric["direction"] == "lower"
    best = (min if is_lower else max)(methods.values(), key=lambda figure: figure["value"])
    if control["low"] > best["high"] if is_lower else control["high"] < best["low"]:
        return (
            f"The test compares {len(figures)} methods at once on {report['inputs']} inputs, which is too much for it: it cannot tell "
            "even a map of random numbers from the best, though their values lie apart. Read the values, not who is first."
        )
    if metric.get("family") == "sanity":
        return "A map of random numbers does as well as the best: it never changes. This asks whether a map stays, not whether it is right."
    why = ""
    if metric["name"] == "lif":
        why = f" Even when tokens go in a random order, the answer stays in {control['value']:.0%} of the cases."
    tied = sum(figure["tied"] for figure in methods.values())
    return (
        f"A map of random numbers does as well as the best, and {tied} of {len(methods)} methods cannot be told from them: "
        f"on this model and data the metric does not tell a map that knows something from one that knows nothing.{why}"
    )


def best_methods(report: dict[str, Any], metric: dict[str, Any]) -> set[str]:
    """Return the specs of the methods that are marked as best for ``metric`` in ``report``: the best method and all that are tied with it.

    No control is among them. The set is empty if the metric cannot tell good methods from others.
    """
    if cannot_tell(report, metric) is not None:
        return set()
    return {spec for spec, figure in report["results"][metric["name"]].items() if figure["tied"] and not is_control(spec)}
