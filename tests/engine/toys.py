"""A function of tokens as a model, so that one operator can be recorded by itself; and twins of the rules, written with detach."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from explainers.models.base import ImageInput, Input, Layout, Model, Prepared
from explainers.recording import Recording
from explainers.rules import Rule

Function = Callable[[Tensor], Tensor]


class Toy(nn.Module):
    """x -> an empty block -> ``function`` -> (B, everything else)."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.block = nn.Identity()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.block(x)).flatten(1)


def toy(function: Function, prefix: int = 0) -> Model:
    module = Toy(function).eval()

    def prepare(inputs: Input) -> Prepared:
        assert isinstance(inputs, dict)
        batch = len(inputs["x"])
        return Prepared(dict(inputs), (ImageInput(1, 1, (0, 0, 1, 1), (1, 1)),) * batch, ((),) * batch)

    return Model(
        name="toy",
        kind="image",
        module=module,
        blocks=[module.block],
        entry=module.block,
        labels=(),
        prepare_input=prepare,
        forward=lambda tensors: module(tensors["x"]),
        layout_of=lambda tensors: Layout(prefix, 0 if prefix else None, (1, tensors["x"].shape[1] - prefix)),
    )


def record(function: Function, x: Tensor, prefix: int = 0) -> Recording:
    return Recording(toy(function, prefix), {"x": x})


def signal(recording: Recording, rule: Rule, seed: Tensor) -> Tensor:
    """The signal at x."""
    return recording.signals(rule, seed).block_inputs[0]


def autograd(function: Function, x: Tensor, seed: Tensor) -> Tensor:
    """torch's own gradient of <seed, function(x)>."""
    x = x.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x).flatten(1), x, seed)
    return gradient


def value_of(value: Tensor, gradient_of: Tensor) -> Tensor:
    """The value of the first with the gradient of the second (LibraGrad's SwapBackward)."""
    return value.detach() + (gradient_of - gradient_of.detach())


class Twin:
    """The operators of a gradient rule as ordinary torch with detach: its autograd gradient is the rule's signal."""

    def __init__(self, rule: Rule) -> None:
        assert not rule.is_relevance
        self.rule = rule

    def softmax(self, x: Tensor) -> Tensor:
        weights = x.softmax(-1)
        return weights.detach() if self.rule.attention == "constant" else weights

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """Of two paths, or of a path and a constant, which takes no share."""
        half = self.rule.attention == "half" and a.requires_grad and b.requires_grad
        return value_of(a @ b, 0.5 * (a @ b)) if half else a @ b

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
        scores = self.matmul(q, k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        return self.matmul(self.softmax(scores), v)

    def scale(self, s: Tensor) -> Tensor:
        return s if self.rule.norm == "jacobian" else s.detach()

    def act(self, function: Function, x: Tensor) -> Tensor:
        return x * (function(x) / x).detach() if self.rule.activation == "gate" else function(x)

    def power(self, x: Tensor, exponent: int) -> Tensor:
        """Squares make the scale of a normalisation written by hand: where norms have their ordinary gradient, so have they."""
        return x**exponent if self.rule.norm == "jacobian" else self.act(lambda y: y**exponent, x)

    def gate(self, g: Tensor) -> Tensor:
        return g if self.rule.activation == "jacobian" else g.detach()

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        """Of two paths, neither a gate nor a scale."""
        return value_of(a * b, 0.5 * a * b) if self.rule.product == "half" else a * b

    def gated(self, a: Tensor, g: Tensor) -> Tensor:
        """a times a gate."""
        return a * self.gate(g) if self.rule.activation != "jacobian" else self.mul(a, g)

    def scaled(self, a: Tensor, s: Tensor) -> Tensor:
        """a times the scale of a normalisation."""
        return a * self.scale(s) if self.rule.norm != "jacobian" else self.mul(a, s)

    def layer_norm(self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        centre = x - (mean.detach() if self.rule.norm == "constant_mean" else mean)
        y = centre / self.scale((centre.square().mean(-1, keepdim=True) + eps).sqrt())
        y = y if weight is None else y * weight
        return y if bias is None else y + bias
