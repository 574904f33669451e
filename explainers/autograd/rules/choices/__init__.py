"""The ways back through operators: a file for each kind, a class for each choice, a method for each operator that it meets."""

from explainers.autograd.rules.choices.activation import ActivationChoice
from explainers.autograd.rules.choices.attention import AttentionChoice
from explainers.autograd.rules.choices.base import Choice
from explainers.autograd.rules.choices.linear import LinearChoice
from explainers.autograd.rules.choices.norm import NormChoice
from explainers.autograd.rules.choices.product import ProductChoice

__all__ = ["ActivationChoice", "AttentionChoice", "Choice", "LinearChoice", "NormChoice", "ProductChoice"]
