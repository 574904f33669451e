"""The registry of methods, what each needs of a model, and what is written about them.

A method is declared once, with ``@method``, and appears everywhere. Importing this package
imports all files of ``implementations``, which fill :data:`METHODS`, in the order in which the methods are shown everywhere.
"""

from importlib import import_module
from pkgutil import iter_modules

from explainers.methods import implementations
from explainers.methods.declaration import Method, Promise
from explainers.methods.registry import METHOD_NEEDS, METHODS, method
from explainers.methods.requests import Request, parse
from explainers.methods.variants import Variant, all_variants_of, count_methods, variants_of

for _module in (
    "attention",
    "relevance",
    "positions",
    "hybrids",
    "decomposition",
    "gradients",
    "norm_cams",
    "paths",
    "flow",
    "similarity",
    "second_path",
    "embedding",
    "bottleneck",
    "blackbox",
    "kernel_shap",
    "own_masks",
    "metric_driven",
    "eagle",
    "control",
    *(file.name for file in iter_modules(implementations.__path__)),  # one that the order above does not name comes last
):
    import_module(f"explainers.methods.implementations.{_module}")

__all__ = [
    "METHODS",
    "METHOD_NEEDS",
    "Method",
    "Promise",
    "Request",
    "Variant",
    "all_variants_of",
    "count_methods",
    "method",
    "parse",
    "variants_of",
]
