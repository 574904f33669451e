"""Metrics of maps as pure functions: one module for each family, what they share, and one registry.

Importing this package imports all of its files, which fill :data:`METRICS`, in the order in which metrics are shown everywhere.
Installed packages add theirs with an entry point ``vitrine.metrics``: see ``explainers.plugins``.
"""

from importlib import import_module
from pkgutil import iter_modules

from explainers.metrics.registry import METRIC_FAMILIES, METRIC_NEEDS, METRICS, Metric, RemovalCurve, find_metrics, metric, need

for _module in (
    # the order of every list
    *(
        "needs",
        "faithfulness",
        "road",
        "graded",
        "token_sets",
        "removed_parts",
        "claims",
        "completeness",
        "sanity",
        "localisation",
        "rationales",
        "concentration",
    ),
    *(file.name for file in iter_modules(__path__)),
):
    import_module(f"explainers.metrics.{_module}")

__all__ = ["METRICS", "METRIC_FAMILIES", "METRIC_NEEDS", "Metric", "RemovalCurve", "find_metrics", "metric", "need"]
