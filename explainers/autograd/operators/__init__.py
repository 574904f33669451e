"""The operators of a recorded forward pass: autograd functions whose backward follows the rule in force.

Each computes what torch computes. In ``backward`` it asks the recording which :class:`~explainers.autograd.rules.Rule` is in
force, and hands what it kept to the choices of that rule. A signal of None means "nothing arrives", and is passed on as None, so
that a branch cut by a rule (queries and keys under constant attention) costs nothing. Next to it is ``propagate``, its linear form,
by which contributions are sent forward.

Every additive constant ``b`` of an operator with output ``y`` reports ``signal * b`` to the recording: FullGrad's bias terms
(Srinivas & Fleuret 2019).
"""

from explainers.autograd.operators.activation import Activation, BoundedGate
from explainers.autograd.operators.arithmetic import Add, Mul, Scale
from explainers.autograd.operators.attention import DynamicConvolution, DynamicLinear, LinearAttention, MatMul, Normaliser, Softmax, Weights
from explainers.autograd.operators.linear import LinearMap, linear, note_bias, note_padding, swapped, swapped_back
from explainers.autograd.operators.norm import Div, Norm
from explainers.autograd.operators.pooling import Constant, Mean, Pick, PointReads, Pool

__all__ = [
    "Activation",
    "Add",
    "BoundedGate",
    "Constant",
    "Div",
    "DynamicConvolution",
    "DynamicLinear",
    "LinearAttention",
    "LinearMap",
    "MatMul",
    "Mean",
    "Mul",
    "Norm",
    "Normaliser",
    "Pick",
    "PointReads",
    "Pool",
    "Scale",
    "Softmax",
    "Weights",
    "linear",
    "note_bias",
    "note_padding",
    "swapped",
    "swapped_back",
]
