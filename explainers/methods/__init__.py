"""The registry of methods, what each needs of a model, and what is written about them.

A read-out is declared once, with ``@method``, and appears everywhere. Importing this package
fills :data:`METHODS`, in the order in which the methods are shown everywhere.
"""

from importlib import import_module

from explainers.methods.registry import METHODS, NEEDS, Method, Promise, Request, Variant, counted, method, pairs_of, parse, variants_of

for _family in (
    "attention",
    "relevance",
    "positions",
    "hybrids",
    "decomposition",
    "gradients",
    "paths",
    "flow",
    "similarity",
    "blackbox",
    "own_masks",
    "control",
):
    import_module(f"explainers.methods.readouts.{_family}")

__all__ = ["METHODS", "NEEDS", "Method", "Promise", "Request", "Variant", "counted", "method", "pairs_of", "parse", "variants_of"]
