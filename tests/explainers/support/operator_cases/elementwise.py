"""Rows of the table of operators: activations, gates, sums and products."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.explainers.support.formulas import Twin
from tests.explainers.support.operator_cases.case import C, Case, V, W, With, activation, in_place, stays
from tests.explainers.support.toys import Function


def gelu_new(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


def gelu_by_erf(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def written_gelu(t: Twin, x: Tensor) -> Tensor:
    return t.written_act(gelu_by_erf, x, lambda y: t.gated(t.times(y, 0.5), 1 + t.gate(torch.erf, y / math.sqrt(2))))


def gate(name: str, function: Function) -> Case:
    return Case(name, lambda: function, lambda t, x: t.gate(function, x))


def times_w(t: Twin, x: Tensor, w: Tensor = W) -> Tensor:
    return t.linear(lambda y: y @ w, x)


ACTIVATIONS = [
    *(
        activation(name, function)
        for name, function in {
            "gelu": F.gelu,
            "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
            "silu": F.silu,
            "relu": F.relu,
            "torch.relu": torch.relu,
            "method-relu": lambda x: x.relu(),
            "relu6": F.relu6,
            "leaky_relu": F.leaky_relu,
            "rrelu": F.rrelu,
            "elu": F.elu,
            "selu": F.selu,
            "torch.selu": torch.selu,
            "celu": F.celu,
            "torch.celu": torch.celu,
            "mish": F.mish,
            "hardswish": F.hardswish,
            "hardtanh": F.hardtanh,
            "softsign": F.softsign,
            "tanh": torch.tanh,
            "F.tanh": F.tanh,
            "method-tanh": lambda x: x.tanh(),
            "erf": torch.erf,
            "method-erf": lambda x: x.erf(),
        }.items()
    ),
    activation("prelu", With(F.prelu, weight=torch.tensor([0.2], dtype=torch.float64)), lambda x: F.leaky_relu(x, 0.2)),
    activation("torch.prelu", lambda x: torch.prelu(x, torch.tensor([0.1], dtype=torch.float64)), lambda x: F.leaky_relu(x, 0.1)),
    activation("inplace-silu", lambda x: F.silu(x * 1.0, inplace=True), F.silu),
    activation("inplace-hardswish-by-place", lambda x: F.hardswish(x * 1.0, True), F.hardswish),
    activation("inplace-leaky-by-place", lambda x: F.leaky_relu(x * 1.0, 0.1, True), lambda x: F.leaky_relu(x, 0.1)),
    activation("clamp", lambda x: torch.clamp(x, -0.5, 0.7), lambda x: F.hardtanh(x, -0.5, 0.7)),
    activation("method-clamp", lambda x: x.clamp(min=0), F.relu),
    activation("clip", lambda x: torch.clip(x, 0, 6), F.relu6),
    activation("method-clip", lambda x: x.clip(0, 6), F.relu6),
    activation("clamp_min", lambda x: torch.clamp_min(x, 0), F.relu),
    activation("method-clamp_min", lambda x: x.clamp_min(0), F.relu),
    activation("clamp_max", lambda x: torch.clamp_max(x, 0.5), lambda x: x - F.relu(x - 0.5)),
    activation("method-clamp_max", lambda x: x.clamp_max(0.5), lambda x: x - F.relu(x - 0.5)),
    activation("clamp_", lambda x: torch.clamp_(x * 1.0, 0, 6), F.relu6),
    activation("clamp_min_", lambda x: torch.clamp_min_(x * 1.0, 0), F.relu),
    activation("clamp_max_", lambda x: torch.clamp_max_(x * 1.0, 0.5), lambda x: x - F.relu(x - 0.5)),
    activation("method-clamp_", in_place(lambda y: y.clamp_(0, 6)), F.relu6),
    activation("method-clamp_min_", in_place(lambda y: y.clamp_min_(0)), F.relu),
    activation("method-clamp_max_", in_place(lambda y: y.clamp_max_(0.5)), lambda x: x - F.relu(x - 0.5)),
    activation("inplace-hardtanh", in_place(lambda y: F.hardtanh(y, -0.5, 0.7, inplace=True)), lambda x: x.clamp(-0.5, 0.7)),
    *(
        activation(name, in_place(function), beside)
        for name, function, beside in (
            ("torch.relu_", torch.relu_, torch.relu),
            ("torch.tanh_", torch.tanh_, torch.tanh),
            ("torch.erf_", torch.erf_, torch.erf),
            ("method-erf_", lambda y: y.erf_(), torch.erf),
            ("torch.celu_", torch.celu_, F.celu),
            ("torch.selu_", torch.selu_, F.selu),
            ("torch.rrelu_", torch.rrelu_, F.rrelu),
            ("F.leaky_relu_", lambda y: F.leaky_relu_(y, 0.1), lambda x: F.leaky_relu(x, 0.1)),
            ("F.elu_", F.elu_, F.elu),
            ("F.hardtanh_", F.hardtanh_, F.hardtanh),
            ("clip_", lambda y: torch.clip_(y, 0, 6), F.relu6),
            ("method-clip_", lambda y: y.clip_(0, 6), F.relu6),
        )
    ),
    activation("torch.rrelu", torch.rrelu),
    activation("method-prelu", lambda x: x.prelu(torch.tensor([0.1], dtype=torch.float64)), lambda x: F.leaky_relu(x, 0.1)),
    *(
        Case(name, lambda f=function: f, lambda t, x, e=exponent: t.power(x, e))
        for name, exponent, function in (
            ("power-2", 2, lambda x: x**2),
            ("torch.pow", 3, lambda x: torch.pow(x, 3)),
            ("method-pow", 3, lambda x: x.pow(3)),
            ("torch.square", 2, torch.square),
            ("method-square", 2, lambda x: x.square()),
            ("pow_", 3, in_place(lambda y: y.pow_(3))),
            ("torch.square_", 2, in_place(torch.square_)),
            ("method-square_", 2, in_place(lambda y: y.square_())),
        )
    ),
]
GATES = [
    gate("sigmoid", torch.sigmoid),
    gate("F.sigmoid", F.sigmoid),
    gate("method-sigmoid", lambda x: x.sigmoid()),
    gate("hardsigmoid", F.hardsigmoid),
    Case("inplace-hardsigmoid", lambda: in_place(lambda y: F.hardsigmoid(y, inplace=True)), lambda t, x: t.gate(F.hardsigmoid, x)),
    gate("sigmoid_", lambda x: torch.sigmoid_(x * 1.0)),
    gate("method-sigmoid_", in_place(lambda y: y.sigmoid_())),
    Case(
        "quick-gelu",
        lambda: quick_gelu,
        lambda t, x: t.written_act(quick_gelu, x, lambda y: t.gated(y, t.gate(torch.sigmoid, 1.702 * y))),
    ),
    Case(
        "gelu-new",
        lambda: gelu_new,
        lambda t, x: t.written_act(
            gelu_new, x, lambda y: t.gated(t.times(y, 0.5), 1 + t.gate(torch.tanh, math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        ),
    ),
    Case("gelu-by-erf", lambda: gelu_by_erf, written_gelu),
    Case("glu", lambda: F.glu, lambda t, x: t.gated(x[..., :3], t.gate(torch.sigmoid, x[..., 3:]))),
    Case("glu-dim", lambda: lambda x: F.glu(x[:, :4], dim=1), lambda t, x: t.gated(x[:, :2], t.gate(torch.sigmoid, x[:, 2:4]))),
    Case("swiglu", lambda: lambda x: F.silu(x @ W) * (x @ W.mT), lambda t, x: t.mul(t.act(F.silu, times_w(t, x)), times_w(t, x, W.mT))),
    Case("geglu", lambda: lambda x: (x @ W) * F.gelu(x), lambda t, x: t.mul(times_w(t, x), t.act(F.gelu, x))),
    Case("reglu-scaled", lambda: lambda x: F.relu(x) / 2 * (x @ W), lambda t, x: t.times(t.mul(t.act(F.relu, x), times_w(t, x)), 0.5)),
    Case(
        "geglu-by-hand",
        lambda: lambda x: (x @ W) * gelu_by_erf(x),
        lambda t, x: t.mul(times_w(t, x), written_gelu(t, x)),
    ),
]
SUMS = [
    Case("plus-path", lambda: lambda x: x + x @ W, lambda t, x: t.add(x, times_w(t, x))),
    Case("plus-broadcast", lambda: lambda x: x[:, :1] + x, lambda t, x: t.add(x[:, :1], x)),
    Case("add-alpha", lambda: lambda x: torch.add(x, x @ W, alpha=0.3), lambda t, x: t.add(x, t.times(times_w(t, x), 0.3))),
    Case("minus-path", lambda: lambda x: x - x @ W, lambda t, x: t.add(x, t.times(times_w(t, x), -1))),
    Case("sub-alpha", lambda: lambda x: torch.sub(x, x @ W, alpha=0.3), lambda t, x: t.add(x, t.times(times_w(t, x), -0.3))),
    Case(
        "torch.subtract",
        lambda: lambda x: torch.subtract(torch.multiply(torch.divide(x @ W, 2), 2), torch.negative(x)),
        lambda t, x: t.add(times_w(t, x), x),
    ),
    *(
        stays(name, function)
        for name, function in {
            "plus-constant": lambda x: x + C,
            "plus-number": lambda x: x + 2,
            "number-plus": lambda x: 2 + x,
            "add-alpha-constant": lambda x: torch.add(C, x, alpha=-2),
            "minus-constant": lambda x: x - C,
            "constant-minus": lambda x: C - x,
            "number-minus": lambda x: 1.5 - x,
            "rsub": lambda x: torch.rsub(x, C),
            "times-number": lambda x: x * -2.5,
            "number-times": lambda x: 3 * x,
            "times-constant": lambda x: x * C,
            "negative": lambda x: -x,
            "torch.neg": torch.neg,
            "over-number": lambda x: x / 3,
            "over-constant": lambda x: torch.div(x, C),
            "true-divide": lambda x: torch.true_divide(x, C),
            "methods": lambda x: x.add(C).sub(C).subtract(V).mul(C).multiply(2).div(C).divide(2).true_divide(3).neg().negative(),
            "reflected": lambda x: x.__rsub__(1.0).__radd__(1.0).__rmul__(2.0),
        }.items()
    ),
    Case("addcmul_", lambda: in_place(lambda y: y.addcmul_(C, y * 1.0)), lambda t, x: t.add(x, t.times(x, C))),
    Case("torch.addcmul", lambda: lambda x: torch.addcmul(x, C, x), lambda t, x: t.add(x, t.times(x, C))),
    Case("method-addcmul", lambda: lambda x: x.addcmul(C, x, value=0.5), lambda t, x: t.add(x, t.times(x, 0.5 * C))),
    Case("constant-times-grows", lambda: lambda x: x[:, :1] * C, lambda t, x: t.times(x[:, :1], C)),
    Case("product", lambda: lambda x: x * (x @ W), lambda t, x: t.mul(x, times_w(t, x))),
    Case("product-broadcast", lambda: lambda x: torch.mul(x, x[:, :1]), lambda t, x: t.mul(x, x[:, :1].expand_as(x))),
    Case(
        "quotient",
        lambda: lambda x: (x @ W) / (x.abs() + 1).detach(),
        lambda t, x: t.times(times_w(t, x), 1 / (x.abs() + 1).detach()),
    ),
]
CASES = [*ACTIVATIONS, *GATES, *SUMS]
