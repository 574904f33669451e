"""A function of tokens as a model, so that one operator can be recorded by itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from explainers.autograd.recording import Recording
from explainers.autograd.rules import Rule
from explainers.models.inputs.types import ImageInput, Input, Prepared
from explainers.models.layout import Layout
from explainers.models.model import Model

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
    return recording.cached_backward(rule, seed).block_inputs[0]


def autograd(function: Function, x: Tensor, seed: Tensor) -> Tensor:
    """torch's own gradient of <seed, function(x)>."""
    x = x.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(function(x).flatten(1), x, seed)
    return gradient
