"""Backward rules, as data, and what they are made of: one choice for each kind of operator.

A rule says how a signal travels from the output back to each tensor. No rule changes the forward pass. Under most rules the signal at a
tensor is a gradient (of a surrogate that has the same value as the model); under those of LRP (``Rule.is_relevance``) it is a relevance,
which is already multiplied by the tensor and starts as one-hot at the target.
"""

from explainers.autograd.rules.choices.base import Choice, SignalKind
from explainers.autograd.rules.kinds import OPERATOR_KINDS, Kind, add_choice
from explainers.autograd.rules.known import LIBRA_WITHOUT, RULES, add_rule, gradient_rules, rule_of
from explainers.autograd.rules.rule import Rule
from explainers.autograd.rules.strength import Strength

__all__ = [
    "LIBRA_WITHOUT",
    "OPERATOR_KINDS",
    "RULES",
    "Choice",
    "Kind",
    "Rule",
    "SignalKind",
    "Strength",
    "add_choice",
    "add_rule",
    "gradient_rules",
    "rule_of",
]
