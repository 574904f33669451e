"""Rows of the table of operators: means, sums, pools, and the largest of several."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.explainers.support.operator_cases.case import MAP, Case, W, moved
from tests.explainers.support.toys import Function


def pool(name: str, function: Function, **more: Any) -> Case:
    return Case(name, lambda: function, lambda t, x: t.pool(function, x), **more)


MEANS = [
    Case("mean", lambda: lambda x: x.mean(1), lambda t, x: t.mean(x, 1)),
    Case("mean-keepdim", lambda: lambda x: torch.mean(x, dim=-1, keepdim=True), lambda t, x: t.mean(x, -1, keepdim=True)),
    Case("mean-dims", lambda: lambda x: x.mean((1, 2))[:, None], lambda t, x: t.mean(x, 1, 2)[:, None]),
    Case("mean-axis", lambda: lambda x: x.mean(axis=1), lambda t, x: t.mean(x, 1)),
    Case("mean-all", lambda: lambda x: torch.stack([r.mean() for r in x])[:, None], lambda t, x: t.mean(x, 1, 2)[:, None]),
    Case("sum", lambda: lambda x: x.sum(1), lambda t, x: t.total(x, 1)),
    Case("sum-negative-dim", lambda: lambda x: torch.sum(x, -1), lambda t, x: t.total(x, -1)),
    Case("sum-axis", lambda: lambda x: torch.sum(x, axis=2), lambda t, x: t.total(x, 2)),
    Case("sum-dims", lambda: lambda x: x.sum(dim=(1, -1), keepdim=True), lambda t, x: t.total(x, 1, 2, keepdim=True)),
    Case("sum-all", lambda: lambda x: torch.stack([r.sum() for r in x])[:, None], lambda t, x: t.total(x, 1, 2)[:, None]),
    Case("sum-dtype", lambda: lambda x: x.sum(1, dtype=torch.float64), lambda t, x: t.total(x, 1)),
]
POOLS = [
    pool("avg_pool1d", lambda x: F.avg_pool1d(x, 3, stride=2, padding=1)),
    pool("avg_pool2d", lambda x: F.avg_pool2d(x, (3, 2), stride=2, ceil_mode=True), x=MAP),
    pool("avg_pool2d-padded", lambda x: F.avg_pool2d(x, 3, padding=1, count_include_pad=False), x=MAP),
    pool("avg_pool3d", lambda x: F.avg_pool3d(x[:, None], 2).flatten(1), x=MAP),
    pool("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 4)),
    pool("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (3, 2)), x=MAP),
    pool("adaptive_avg_pool3d", lambda x: F.adaptive_avg_pool3d(x[:, None], (2, 3, 1)), x=MAP),
    pool("interpolate", lambda x: F.interpolate(x, size=(9, 4), mode="bilinear", align_corners=False), x=MAP),
    pool("interpolate-nearest", lambda x: F.interpolate(x, scale_factor=2), x=MAP),
    pool("nn.AdaptiveAvgPool2d", nn.AdaptiveAvgPool2d(1), x=MAP),
    Case(
        "unfold-fold",
        lambda: lambda x: F.fold(F.unfold(x, 3, padding=1), (7, 6), 3, padding=1),
        lambda t, x: t.pool(lambda y: F.fold(y, (7, 6), 3, padding=1), F.unfold(x, 3, padding=1)),
        x=MAP,
    ),
]
PICKS = [
    moved("max_pool1d", lambda x: F.max_pool1d(x, 2)),
    moved("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), x=MAP),
    moved("max_pool3d", lambda x: F.max_pool3d(x[:, None], (1, 2, 2)).flatten(1), x=MAP),
    moved("adaptive_max_pool1d", lambda x: F.adaptive_max_pool1d(x, 3)),
    moved("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, (2, 3)), x=MAP),
    moved("adaptive_max_pool3d", lambda x: F.adaptive_max_pool3d(x[:, None], (1, 2, 3)).flatten(1), x=MAP),
    moved("amax", lambda x: torch.cat([x.amax(1), torch.amax(x, 2)], 1)),
    moved("amin", lambda x: torch.cat([x.amin(1), torch.amin(x, 2)], 1)),
    moved("max", lambda x: torch.cat([x.max(1)[0], torch.max(x, 1).values, x.max(1, keepdim=True)[0].flatten(1)], 1)),
    moved("min", lambda x: torch.cat([x.min(1).values, torch.min(x, dim=1, keepdim=True).values.flatten(1)], 1)),
    Case("max-of-two", lambda: lambda x: torch.max(x, x @ W), lambda t, x: torch.max(x, t.linear(lambda y: y @ W, x))),
]
CASES = [*MEANS, *POOLS, *PICKS]
