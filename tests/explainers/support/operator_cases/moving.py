"""Rows of the table of operators: what happens in place, and what only moves numbers."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.explainers.support.operator_cases.case import B, C, Case, D, S, W, activation, in_place, moved, stays


def iadd(y: Tensor) -> None:
    y += 1.5


def iadd_part(y: Tensor) -> None:
    y[:, 0] += C[0]


def imul(y: Tensor) -> None:
    y *= C


def isub(y: Tensor) -> None:
    y -= C


def idiv(y: Tensor) -> None:
    y /= C


def through_a_view(y: Tensor) -> None:
    view = y.view(B, -1)
    view += 1.0


CASES = [
    stays("add_", in_place(lambda y: y.add_(C))),
    stays("add_-alpha", in_place(lambda y: y.add_(C, alpha=0.5))),
    stays("sub_", in_place(lambda y: y.sub_(C))),
    stays("mul_", in_place(lambda y: y.mul_(C))),
    stays("div_", in_place(lambda y: y.div_(2))),
    stays("subtract_", in_place(lambda y: y.subtract_(C))),
    stays("multiply_", in_place(lambda y: y.multiply_(C))),
    stays("divide_", in_place(lambda y: y.divide_(2).true_divide_(C))),
    stays("neg_", in_place(lambda y: torch.negative_(torch.neg_(y)).neg_().negative_().neg_())),
    stays("iadd", in_place(iadd)),
    stays("iadd-part", in_place(iadd_part)),
    stays("isub", in_place(isub)),
    stays("imul", in_place(imul)),
    stays("idiv", in_place(idiv)),
    stays("iadd-through-a-view", in_place(through_a_view)),
    activation("relu_", in_place(lambda y: y.relu_()), F.relu),
    activation("relu-inplace", in_place(lambda y: F.relu(y, inplace=True)), F.relu),
    activation("tanh_", in_place(lambda y: y.tanh_()), torch.tanh),
    moved("setitem", in_place(lambda y: y.__setitem__((slice(None), 0), C[0]))),
    moved("masked_fill_", in_place(lambda y: y.masked_fill_(C > 0, 0.0))),
    moved("reshape", lambda x: x.reshape(B, -1).view(B, D, S).permute(0, 2, 1).contiguous().transpose(1, 2)),
    moved("cat", lambda x: torch.cat([x[:, :2], C.expand(B, -1, -1), x.flip(1)], 1)),
    moved("concat", lambda x: torch.concatenate([torch.concat([x, x], 1), C.expand(B, -1, -1)], 1)),
    moved("stack", lambda x: torch.stack([x, C.expand(B, -1, -1), x.flip(1)], 1)),
    moved("chunks", lambda x: torch.stack([*x.chunk(2, -1), *x.split([1, 2, 3], -1)[2:]], 1)),
    Case(
        "roll",
        lambda: lambda x: x.roll(1, 1) + F.pad(x, (0, 0, 1, 0))[:, :-1],
        lambda t, x: t.add(x.roll(1, 1), F.pad(x, (0, 0, 1, 0))[:, :-1]),
    ),
    Case("where", lambda: lambda x: torch.where(C > 0, x, x @ W), lambda t, x: torch.where(C > 0, x, t.linear(lambda y: y @ W, x))),
]
