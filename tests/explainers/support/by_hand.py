"""Layers of models with several streams of tokens, written out by hand with the operators of a rule; torch alone differentiates them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.explainers.support.formulas import Twin


@dataclass
class ByHand:
    """What a pass by hand has seen: the streams at each block's input, attention maps, and each bias where it acts.

    apart  whether biases are nodes of their own, whose gradients can be asked for
    """

    operators: Twin
    streams: list[tuple[Tensor, ...]] = field(default_factory=list)
    maps: list[Tensor] = field(default_factory=list)
    biases: list[Tensor] = field(default_factory=list)
    apart: bool = False

    def linear(self, layer: nn.Linear, x: Tensor, place: str = "") -> Tensor:
        if not self.apart:
            return self.operators.linear(layer, x, place)
        out = self.operators.linear(lambda y: F.linear(y, layer.weight), x, place)
        return out if layer.bias is None else out + self.bias(layer.bias, out)

    def norm(self, layer: nn.LayerNorm, x: Tensor) -> Tensor:
        if not self.apart:
            return self.operators.layer_norm(x, layer.weight, layer.bias, layer.eps)
        out = self.operators.layer_norm(x, layer.weight, 0.0, layer.eps)
        return out + self.bias(layer.bias, out)

    def bias(self, bias: Tensor, out: Tensor) -> Tensor:
        self.biases.append(bias.detach().expand_as(out).clone().requires_grad_())
        return self.biases[-1]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """(B, S, D) of queries, keys and values (B, H, S, d)."""
        weights = self.operators.softmax(self.operators.times(self.operators.matmul(q, k.mT), q.shape[-1] ** -0.5))
        weights = weights if weights.requires_grad else weights.requires_grad_()  # where a rule holds them constant, they have a signal
        self.maps.append(weights)
        return self.operators.matmul(weights, v).transpose(1, 2).flatten(2)

    def mlp(self, part: nn.Module, x: Tensor) -> Tensor:
        return self.linear(part.fc2, self.operators.act(F.gelu, self.linear(part.fc1, x)))

    def bias_terms(self, logits: Tensor, seed: Tensor) -> list[Tensor]:
        """Each bias times its gradient, where it acts."""
        gradients = torch.autograd.grad(logits, self.biases, seed, allow_unused=True, materialize_grads=True)
        return [bias.detach() * gradient for bias, gradient in zip(self.biases, gradients, strict=True)]


def close(ours: Tensor, theirs: Tensor, share: float = 1e-6) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=share * float(theirs.abs().max()))
