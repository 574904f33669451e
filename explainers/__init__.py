"""Vitrine's engine: what made a Transformer answer as it did.

``load`` or ``wrap`` a model, ``explain`` an input. Knows nothing of the web.
"""

from explainers import torchvision_ops  # noqa: F401  first: timm and transformers may not import without it
from explainers.abilities import default_methods, for_probability, pairs, variants
from explainers.errors import ExplainerError
from explainers.explanation import Cancelled, explain
from explainers.methods import METHODS
from explainers.methods.registry import method
from explainers.models.base import Model, TextPair
from explainers.models.loading import load
from explainers.models.wrapping import wrap
from explainers.result import Attribution, Explanation
from explainers.rules import RULES, Rule
from explainers.targets import Contrast, Probability
from explainers.trace import Trace

__all__ = [
    "METHODS",
    "RULES",
    "Attribution",
    "Cancelled",
    "Contrast",
    "ExplainerError",
    "Explanation",
    "Model",
    "Probability",
    "Rule",
    "TextPair",
    "Trace",
    "default_methods",
    "explain",
    "for_probability",
    "load",
    "method",
    "pairs",
    "variants",
    "wrap",
]
