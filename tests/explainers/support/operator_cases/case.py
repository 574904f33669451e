"""What a row of the table of operators is, and the numbers that all rows use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from explainers.autograd.recording import Recording
from tests.explainers.support.formulas import Twin
from tests.explainers.support.toys import Function

B, S, D = 2, 5, 6


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X = normal(B, S, D, seed=1)
W = normal(D, D, seed=2)
C = normal(S, D, seed=3)
V = normal(D, seed=4)
MAP = normal(B, 4, 7, 6, seed=6)


@dataclass(frozen=True)
class Case:
    """``make`` gives the function of x; ``twin`` the same with the operators of a rule."""

    name: str
    make: Callable[[], Function]
    twin: Callable[[Twin, Tensor], Tensor]
    x: Tensor = X


class With(nn.Module):
    """A function with parameters."""

    def __init__(self, function: Callable[..., Tensor], **parameters: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value.clone()))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, **dict(self.named_parameters()))


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also writes down, for GPUs, where it was called from
        module = make().double().eval()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)
        return module


def linear(name: str, make: Callable[[], Function], **more: Any) -> Case:
    """A linear map of x."""
    place = "convolution" if name.startswith("conv") else ""
    return Case(name, make, lambda t, x: t.linear(make(), x, place), **more)


def stays(name: str, function: Function, **more: Any) -> Case:
    """x scaled and shifted by constants."""
    return Case(name, lambda: function, lambda t, x: t.stays(function, x), **more)


def moved(name: str, function: Function, **more: Any) -> Case:
    """Numbers that are selected, copied or put elsewhere: the ordinary gradient under every rule."""
    return Case(name, lambda: function, lambda t, x: function(x), **more)


def activation(name: str, function: Function, formula: Function | None = None) -> Case:
    return Case(name, lambda: function, lambda t, x: t.act(formula or function, x))


def in_place(method: Callable[[Tensor], Any]) -> Function:
    """Change a copy of x and return that copy, not what the method returns."""

    def function(x: Tensor) -> Tensor:
        y = x * 1.0
        method(y)
        return y

    return function


#: Of a gradient; of relevance, which is divided by numbers that can come close to zero.
CLOSE, NEAR = 1e-11, 1e-8


def seed_for(recording: Recording) -> Tensor:
    return normal(*recording.logits.shape, seed=21)


def assert_close(ours: Tensor, theirs: Tensor, bound: float = CLOSE, message: str = "") -> None:
    """Up to ``bound`` of the largest number, and of one."""
    error = float((ours.detach() - theirs.detach()).abs().max())
    assert error <= bound * max(1.0, float(theirs.detach().abs().max())), message
