"""The rules written out a second time, operator by operator: independent twins of what the engine does.

``Twin`` has the operators of a gradient rule as ordinary torch with detach, so that its autograd gradient is the rule's signal. ``Split``
has those of a relevance rule: each share is written out pair by pair and held constant, so that what autograd brings back is relevance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from explainers.autograd.rules import Rule

Unary = Callable[[Tensor], Tensor]


class _Stands(Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, instead: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Any:
        return None, signals[0]


def value_of(value: Tensor, gradient_of: Tensor) -> Tensor:
    """The value of the first with the gradient of the second (LibraGrad's SwapBackward), both of one shape."""
    out: Tensor = _Stands.apply(value.detach(), gradient_of)
    return out


def twin_of(rule: Rule) -> Twin:
    return Split(rule) if rule.is_relevance else Twin(rule)


class Twin:
    """The operators of a gradient rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.curves: list[Tensor] = []  # what activations gave

    # --- linear maps and sums

    def linear(self, function: Unary, x: Tensor, place: str = "") -> Tensor:
        """A linear map of x, perhaps with a bias; ``place`` says that it is a ``convolution`` or one of attention's ``projection`` s."""
        strength, value = self.rule.strength, function(x)
        if self.rule.linear == "epsilon":
            return over_itself(value, strength.epsilon)
        if self.rule.linear != "gamma" or place == "projection" or not x.requires_grad:
            return value
        return gamma_by_pairs(function, x, strength.gamma_convolution if place == "convolution" else strength.gamma)

    def stays(self, function: Unary, x: Tensor) -> Tensor:
        """Scaling and shifting by constants, which no relevance goes to: everything stays where it is."""
        return function(x)

    def times(self, x: Tensor, constant: Tensor | float) -> Tensor:
        return self.stays(lambda y: y * constant, x)

    def plus(self, x: Tensor, constant: Tensor | float) -> Tensor:
        return self.stays(lambda y: y + constant, x)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        """Of two paths."""
        return over_itself(a + b, self.rule.strength.epsilon_sum) if self.rule.linear == "epsilon" else a + b

    def total(self, x: Tensor, *dims: int, keepdim: bool = False) -> Tensor:
        return x.sum(dims, keepdim=keepdim)

    def total_of_products(self, x: Tensor, *dims: int) -> Tensor:
        """A sum of products of two paths, which is a matrix product."""
        return self.total(x, *dims)

    def mean(self, x: Tensor, *dims: int, keepdim: bool = False) -> Tensor:
        count = torch.Size([x.shape[d] for d in dims]).numel()
        return self.times(self.total(x, *dims, keepdim=keepdim), 1 / count)

    def pool(self, function: Unary, x: Tensor) -> Tensor:
        """A linear map with weights that are not negative: averages over windows."""
        return function(x)

    # --- attention

    @property
    def halves_attention(self) -> bool:
        """Whether each factor of a product in attention gets half of the signal."""
        return self.rule.attention in ("half", "constant_half", "half_temperature")

    def softmax(self, x: Tensor) -> Tensor:
        weights = x.softmax(-1)
        if self.rule.attention in ("temperature", "half_temperature"):
            temperature = self.rule.strength.temperature  # times it, as the chain rule's 1 / T is left out
            weights = value_of(weights, temperature * (x / temperature).softmax(-1))
        return self.weights(weights)

    def weights(self, weights: Tensor) -> Tensor:
        """Weights of attention as their products with values see them."""
        if self.rule.attention == "cut":
            return weights.detach()
        # a zero gradient where half goes to weights that hand nothing on, so that products still have two paths
        return {"constant": weights.detach(), "constant_half": weights.detach() + 0 * weights}.get(self.rule.attention, weights)

    def normalised(self, scores: Tensor, epsilon: float) -> Tensor:
        """Scores over their sum, as linear attention has them in the place of a softmax: where no constants, a normalisation."""
        return self.weights(self.scaled(scores, 1 / (scores.sum(-1, keepdim=True) + epsilon)))

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """Of two paths, or of a path and a constant, which takes no share."""
        if self.rule.attention == "cut":
            return (a @ b).detach()
        both = a.requires_grad and b.requires_grad
        out = value_of(a @ b, 0.5 * (a @ b)) if self.halves_attention and both else a @ b
        return over_itself(out, self.rule.strength.epsilon_sum / (2 if both else 1)) if self.rule.linear == "epsilon" else out

    def by_data(self, a: Tensor, b: Tensor) -> Tensor:
        """The matrix product of two paths of which one stands for a weight, so that products share it."""
        out = value_of(a @ b, 0.5 * (a @ b)) if self.rule.product in ("half", "constant_curve") else a @ b
        return over_itself(out, self.rule.strength.epsilon_sum / 2) if self.rule.linear == "epsilon" else out

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
        products = self.matmul(q, k.mT) if q.requires_grad else self.linear(lambda y: q @ y.mT, k)
        scores = self.times(products, q.shape[-1] ** -0.5 if scale is None else scale)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        return self.matmul(self.softmax(scores), v)

    # --- activations, gates, products, scales

    def curve(self, function: Unary, x: Tensor) -> Tensor:
        """A curve y = act(x) under each choice of ``activation``: the one place where a new one is written a second time."""
        match self.rule.activation:
            case "jacobian":
                return function(x)
            case "gate":
                return x * (function(x) / x).detach()
        raise AssertionError(
            f"activation={self.rule.activation} is not written a second time: add it to Twin.curve in "
            "tests/explainers/support/formulas.py, as torch with detach: autograd's gradient is then the signal that it hands on."
        )

    def act(self, function: Unary, x: Tensor) -> Tensor:
        self.curves.append(self.curve(function, x))
        return self.curves[-1]

    def written_act(self, function: Unary, x: Tensor, parts: Unary) -> Tensor:
        """An activation that is written as a product, ``parts``: it has the rules of the activation."""
        return self.act(function, x)

    def power(self, x: Tensor, exponent: int) -> Tensor:
        """Squares make the scale of a normalisation written by hand: where norms have their ordinary gradient, so have they."""
        return x**exponent if self.rule.norm == "jacobian" else self.act(lambda y: y**exponent, x)

    def gate(self, function: Unary, x: Tensor) -> Tensor:
        """The value of a gate, which is read on or multiplies a path: see :meth:`gated`."""
        return function(x).detach() if self.rule.activation == "gate" else self.curve(function, x)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        """Of two paths, neither a gate nor a scale."""
        if self.rule.product == "constant_curve":
            held = [any(x is curve for curve in self.curves) for x in (a, b)]
            if any(held) and not all(held):
                return a.detach() * b if held[0] else a * b.detach()
        return value_of(a * b, 0.5 * a * b) if self.rule.product in ("half", "constant_curve") else a * b

    def weighted(self, a: Tensor, weights: Tensor) -> Tensor:
        """a times weights of attention, number by number."""
        if self.rule.attention == "cut":
            return (a * weights).detach()
        return value_of(a * weights, 0.5 * a * weights) if self.halves_attention else a * weights

    def gated(self, a: Tensor, g: Tensor) -> Tensor:
        """a times the value of a :meth:`gate`."""
        self.curves.append(a * g.detach() if self.rule.activation == "gate" else self.mul(a, g))
        return self.curves[-1]

    def scaled(self, a: Tensor, s: Tensor) -> Tensor:
        """a times a scale that is computed from the input: a normalisation, whose factors both count whole where it is differentiated."""
        return a * (s if self.rule.norm == "jacobian" else s.detach())

    def centred(self, x: Tensor, *dims: int) -> Tensor:
        """x less its mean, as part of a normalisation."""
        mean = x.mean(dims, keepdim=True)
        return x - mean.detach() if self.rule.norm == "constant_mean" else self.add(x, self.times(mean.expand_as(x), -1))

    def layer_norm(self, x: Tensor, weight: Tensor | float = 1.0, bias: Tensor | float = 0.0, eps: float = 1e-5) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        centre = x - (mean.detach() if self.rule.norm == "constant_mean" else mean)
        out = self.scaled(centre, (centre.square().mean(-1, keepdim=True) + eps) ** -0.5) * weight + bias
        return over_itself(out, self.rule.strength.epsilon) if self.rule.linear == "epsilon" else out


def over_itself(y: Tensor, epsilon: float) -> Tensor:
    """LRP-ε: each output gives on its relevance R as R / (y + ε) for each unit of y."""
    return value_of(y, y * (y / (y + epsilon)).detach())


def dense_jacobian(function: Unary, x: Tensor) -> Tensor:
    """The derivative of every number that the function gives (rows) by every number of ``x`` (columns)."""
    jacobian: Tensor = torch.autograd.functional.jacobian(function, x.detach(), vectorize=True)
    return jacobian.reshape(-1, x.numel())


def gamma_by_pairs(function: Unary, x: Tensor, strength: float) -> Tensor:
    """LRP-γ output by output: its contributions x w, each times 1 + γ where it has the output's sign, and the bias likewise, share R."""
    value = function(x)
    bias = function(torch.zeros_like(x)).detach().flatten()
    jacobian = dense_jacobian(function, x)
    sign = value.detach().flatten().sign()
    pairs = jacobian * x.detach().flatten()
    pairs = pairs + strength * torch.where(pairs.sign() == sign[:, None], pairs, 0.0)
    total = pairs.sum(1) + bias + strength * torch.where(bias.sign() == sign, bias, 0.0)
    shares = pairs / (total + 1e-6 * total.sign())[:, None] * value.detach().flatten()[:, None]
    per_input = shares / x.detach().flatten()
    return value_of(value, (per_input @ x.flatten()).view_as(value))


class Split(Twin):
    """The operators of a relevance rule (Chefer et al. 2021, eq. 5, 9 and 10; ``z_plus_each`` as their baseline computes it)."""

    def linear(self, function: Unary, x: Tensor, place: str = "") -> Tensor:
        """Eq. 5 over the dense Jacobian: each output shares its relevance among the pairs of positive product."""
        if not x.requires_grad:
            return function(x)
        value = function(x)
        jacobian = dense_jacobian(function, x)
        pairs = jacobian * x.detach().flatten()
        every = torch.ones_like(x, dtype=torch.bool)
        groups = {"z_plus": [every], "z_plus_positive": [x > 0], "z_plus_each": [x > 0, x < 0]}[self.rule.linear]
        shares = torch.zeros_like(pairs)
        for group in groups:
            positive = pairs.clamp(min=0) * group.flatten()
            shares += quotient(positive, positive.sum(1, keepdim=True))
        return value_of(value, (shares @ x.flatten()).view_as(value))

    def stays(self, function: Unary, x: Tensor) -> Tensor:
        value = function(x)
        return value_of(value, x.expand_as(value))

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        out: Tensor = _Sum.apply(*torch.broadcast_tensors(a, b), self.rule.linear == "z_plus")
        return out

    def total(self, x: Tensor, *dims: int, keepdim: bool = False) -> Tensor:
        return self.pool(lambda y: y.sum(dims, keepdim=keepdim), x)

    def total_of_products(self, x: Tensor, *dims: int) -> Tensor:
        """All terms of each sum share its relevance in proportion."""
        value = x.sum(dims)
        pairs = dense_jacobian(lambda y: y.sum(dims), x) * x.detach().flatten()
        shares = quotient(pairs, pairs.sum(1, keepdim=True))
        return value_of(value, (shares @ x.flatten()).view_as(value))

    def pool(self, function: Unary, x: Tensor) -> Tensor:
        """The terms of each sum that have its sign share its relevance."""
        value = function(x)
        jacobian = dense_jacobian(function, x)
        assert bool((jacobian >= 0).all())
        pairs = jacobian * x.detach().flatten()
        own = torch.where(value.detach().reshape(-1, 1) < 0, pairs.clamp(max=0), pairs.clamp(min=0))
        shares = quotient(own, own.sum(1, keepdim=True))
        return value_of(value, (shares @ x.flatten()).view_as(value))

    def softmax(self, x: Tensor) -> Tensor:
        return value_of(x.softmax(-1), x)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """Each output gives half to either factor, pair by pair; all of it to the one that is a path."""
        value = a @ b
        shares = quotient(a.detach()[..., :, :, None] * b.detach()[..., None, :, :], value.detach()[..., :, None, :])  # (..., i, j, k)
        half = 0.5 if a.requires_grad and b.requires_grad else 1.0
        return value_of(value, half * ((shares * a[..., :, :, None]).sum(-2) + (shares * b[..., None, :, :]).sum(-2)))

    def by_data(self, a: Tensor, b: Tensor) -> Tensor:
        return self.matmul(a, b)

    def act(self, function: Unary, x: Tensor) -> Tensor:
        return self.stays(function, x)

    def power(self, x: Tensor, exponent: int) -> Tensor:
        return self.stays(lambda y: y**exponent, x)

    def gate(self, function: Unary, x: Tensor) -> Tensor:
        return self.stays(function, x)

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return value_of(a * b, (a + b) / 2)

    def weighted(self, a: Tensor, weights: Tensor) -> Tensor:
        return self.mul(a, weights)

    def gated(self, a: Tensor, g: Tensor) -> Tensor:
        return self.stays(lambda y: y * g.detach(), a)

    def scaled(self, a: Tensor, s: Tensor) -> Tensor:
        return self.stays(lambda y: y * s.detach(), a)

    def centred(self, x: Tensor, *dims: int) -> Tensor:
        return value_of(x - x.mean(dims, keepdim=True), x)

    def layer_norm(self, x: Tensor, weight: Tensor | float = 1.0, bias: Tensor | float = 0.0, eps: float = 1e-5) -> Tensor:
        return value_of(Twin(Rule()).layer_norm(x, weight, bias, eps), x)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / (b + 1e-9), as in the published code, and 0 where b is 0."""
    return torch.where(b == 0, 0.0, a / (b + 1e-9))


class _Sum(Function):
    """a + b: in proportion to the values, then each operand's sum over the sample is made its share of the absolute sums (eq. 9 and 10)."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, normalise: bool) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.normalise = normalise
        return a + b

    @staticmethod
    def backward(ctx: Any, *signals: Tensor) -> Any:
        (r,) = signals
        a, b = ctx.saved_tensors
        parts = [quotient(x, a + b) * r for x in (a, b)]
        if ctx.normalise:
            for sample in range(len(r)):
                sums = [part[sample].sum() for part in parts]
                absolute = sums[0].abs() + sums[1].abs()
                for part, own in zip(parts, sums, strict=True):
                    part[sample] *= quotient(own.abs(), absolute) * quotient(r[sample].sum(), own)
        return parts[0], parts[1], None
