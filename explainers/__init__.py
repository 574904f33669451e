"""Vitrine's engine: what made a Transformer answer as it did.

``load`` or ``wrap`` a model, ``explain`` an input. Knows nothing of the web.
"""

from explainers import torchvision_ops  # noqa: F401  first: timm and transformers may not import without it
from explainers.abilities import default_methods, for_probability, pairs, variants
from explainers.asking import Asked, Cancelled
from explainers.errors import ExplainerError
from explainers.explanation import explain
from explainers.layers import QUANTITIES, contributions, head_maps
from explainers.methods import METHODS
from explainers.methods.registry import method
from explainers.mixing import Mix, mix
from explainers.models.base import Model, TextPair
from explainers.models.loading import load
from explainers.models.wrapping import wrap
from explainers.result import Attribution, Explanation
from explainers.rules import KINDS, RULES, Rule
from explainers.targets import Contrast, Probability
from explainers.trace import Trace

__all__ = [
    "KINDS",
    "METHODS",
    "QUANTITIES",
    "RULES",
    "Asked",
    "Attribution",
    "Cancelled",
    "Contrast",
    "ExplainerError",
    "Explanation",
    "Mix",
    "Model",
    "Probability",
    "Rule",
    "TextPair",
    "Trace",
    "contributions",
    "default_methods",
    "explain",
    "for_probability",
    "head_maps",
    "load",
    "method",
    "mix",
    "pairs",
    "variants",
    "wrap",
]
