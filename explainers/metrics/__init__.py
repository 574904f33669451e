"""Figures of merit of maps as pure functions: one module for each family, what they share, and one registry.

Importing this package fills :data:`METRICS`, in the order in which metrics are shown everywhere. Installed packages add theirs
with an entry point ``vitrine.metrics``: see ``explainers.plugins``.
"""

from importlib import import_module

from explainers.metrics.registry import METRIC_FAMILIES, METRIC_NEEDS, METRICS, Metric, RemovalCurve, find_metrics, metric

for _module in ("faithfulness", "graded", "completeness", "sanity", "localisation", "rationales"):
    import_module(f"explainers.metrics.{_module}")

__all__ = ["METRICS", "METRIC_FAMILIES", "METRIC_NEEDS", "Metric", "RemovalCurve", "find_metrics", "metric"]

FAMILIES, NEEDS = METRIC_FAMILIES, METRIC_NEEDS  # their names in 0.1
Curve, metrics_named = RemovalCurve, find_metrics  # likewise
