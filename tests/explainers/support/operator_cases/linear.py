"""Rows of the table of operators: linear maps and matrix products."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.explainers.support.formulas import Twin
from tests.explainers.support.operator_cases.case import MAP, B, C, Case, D, S, V, W, With, X, linear, normal, seeded, stays


class Quiet(nn.Sequential):
    """torch warns that padding more on one side takes a copy."""

    def forward(self, x: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out: Tensor = super().forward(x)
            return out


def _chain(t: Twin, x: Tensor) -> Tensor:
    for _ in range(3):
        x = t.linear(lambda y: y @ W, x)
    return x


CASES = [
    linear("linear", lambda: seeded(lambda: nn.Linear(D, 4))),
    linear("linear-no-bias", lambda: seeded(lambda: nn.Linear(D, 4, bias=False))),
    linear("linear-to-one-number", lambda: With(F.linear, weight=V)),
    linear("linear-as-conv1d", lambda: seeded(lambda: nn.Conv1d(S, 4, 1))),
    linear("linear-as-conv2d", lambda: seeded(lambda: nn.Conv2d(4, 6, 1, groups=2)), x=MAP),
    linear("conv1d", lambda: seeded(lambda: nn.Conv1d(S, 4, 3, padding=1))),
    linear("conv1d-groups", lambda: seeded(lambda: nn.Conv1d(S, 2 * S, 3, stride=2, groups=S, bias=False))),
    linear("conv2d", lambda: seeded(lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1, dilation=1)), x=normal(B, 2, 7, 6)),
    linear("conv2d-depthwise", lambda: seeded(lambda: nn.Conv2d(4, 4, 3, padding=1, groups=4)), x=MAP),
    linear("conv2d-same", lambda: seeded(lambda: nn.Conv2d(4, 3, 3, padding="same", dilation=2)), x=MAP),
    linear("conv2d-same-even", lambda: Quiet(seeded(lambda: nn.Conv2d(4, 3, (4, 2), padding="same", dilation=(1, 3)))), x=MAP),
    linear("conv2d-valid", lambda: seeded(lambda: nn.Conv2d(4, 3, 3, padding="valid", stride=2)), x=MAP),
    linear("conv2d-circular", lambda: seeded(lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular")), x=MAP),
    linear("conv1d-same", lambda: Quiet(seeded(lambda: nn.Conv1d(S, 4, 2, padding="same")))),
    linear("conv3d", lambda: lambda x: F.conv3d(x[:, None, None], W[None, None, None, :3, :3]).flatten(1)),
    linear("conv_transpose1d", lambda: seeded(lambda: nn.ConvTranspose1d(S, 4, 3, stride=2, padding=1, output_padding=1))),
    linear("conv_transpose2d-groups", lambda: seeded(lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), groups=2)), x=MAP),
    linear("conv_transpose3d", lambda: lambda x: F.conv_transpose3d(x[:, None, None], W[None, None, None, :3, :3]).flatten(1)),
    linear("addmm", lambda: With(lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w).view(B, S, D), w=W, b=V)),
    linear("addmm-scaled", lambda: With(lambda x, w, b: torch.addmm(b, x.flatten(0, 1), w, beta=0.5, alpha=2).view(B, S, D), w=W, b=V)),
    linear("addmm_", lambda: lambda x: C.repeat(B, 1).addmm_(x.flatten(0, 1), W).view(B, S, D)),
    linear("method-addmm", lambda: lambda x: C.repeat(B, 1).addmm(x.flatten(0, 1), W).view(B, S, D)),
    linear("matmul", lambda: With(torch.matmul, other=W)),
    linear("at", lambda: With(lambda x, w: x @ w, w=W)),
    linear("at-transposed", lambda: With(lambda x, w: x @ w.T, w=W)),
    linear("at-mT", lambda: With(lambda x, w: x @ w.mT, w=W)),
    linear("at-t", lambda: With(lambda x, w: x @ w.t(), w=W)),
    linear("rmatmul", lambda: lambda x: x.__rmatmul__(C @ C.mT)),
    linear("linear-of-transposed", lambda: With(lambda x, w: F.linear(x, w.T), w=W)),
    linear("left", lambda: With(lambda x, w: w @ x, w=normal(4, S))),
    linear("left-transposed", lambda: With(lambda x, w: w.T @ x, w=normal(S, 4))),
    linear("bmm", lambda: With(torch.bmm, mat2=normal(B, D, 3))),
    linear("mm", lambda: With(lambda x, w: torch.mm(x.flatten(0, 1), w).view(B, S, D), w=W)),
    linear("vector", lambda: With(lambda x, w: x @ w, w=V)),
    linear("vector-left", lambda: With(lambda x, w: w @ x.mT, w=V)),
    linear("rows-dot-vector", lambda: With(lambda x, w: torch.stack([row[0] @ w for row in x])[:, None], w=V)),
    Case(
        "methods-matmul-mm-bmm",
        lambda: lambda x: x.matmul(W).flatten(0, 1).mm(W).view(B, S, D).bmm(W.expand(B, D, D)),
        lambda t, x: _chain(t, x),
    ),
    stays("data", With(lambda x, w: x * w.data, w=C)),
    Case("two-paths", lambda: lambda x: x @ x.mT, lambda t, x: t.by_data(x, x.mT)),
    Case("two-paths-bmm", lambda: lambda x: torch.bmm(x, x.mT), lambda t, x: t.by_data(x, x.mT)),
    Case("two-vectors", lambda: lambda x: torch.stack([r[0] @ r[1] for r in x])[:, None], lambda t, x: t.by_data(x[:, :1], x[:, 1:2].mT)),
    Case(
        "linear-with-active-weight",
        lambda: lambda x: F.linear(x, x[0], C[:, 0]),
        lambda t, x: t.plus(t.by_data(x, x.mT), C[:, 0]),
        x=X[:1],
    ),
]
