"""The read-outs: how values and signals become one number a token. Each is declared once, with ``@method``, and appears everywhere.

Importing this package fills the registry :data:`METHODS`, in the order in which the methods are shown everywhere.
"""

from importlib import import_module

from explainers.methods.registry import METHODS, NEEDS, Method, Request, Variant, method, pairs_of, parse, variants_of

for _family in ("attention", "relevance", "hybrids", "decomposition", "gradients", "paths", "flow", "blackbox", "control"):
    import_module(f"explainers.methods.{_family}")

__all__ = ["METHODS", "NEEDS", "Method", "Request", "Variant", "method", "pairs_of", "parse", "variants_of"]
