"""The read-outs: how values and signals become one number a token. Each is declared once, with ``@method``, and appears everywhere.

Importing this package fills the registry :data:`METHODS`.
"""

from __future__ import annotations

# The order of these imports is the order of the methods everywhere.
from explainers.methods import attention, control, gradients, relevance
from explainers.methods.registry import METHODS, Method, Request, Variant, method, parse, variants_of

__all__ = ["METHODS", "Method", "Request", "Variant", "attention", "control", "gradients", "method", "parse", "relevance", "variants_of"]
