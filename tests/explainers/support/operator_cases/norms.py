"""Rows of the table of operators: normalisations, as torch has them and as people write them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.explainers.support.formulas import Twin
from tests.explainers.support.operator_cases.case import MAP, C, Case, D, S, V, With, normal, seeded, stays
from tests.explainers.support.toys import Function


def by_hand(x: Tensor, style: str, eps: float = 1e-3) -> Tensor:
    """LayerNorm and RMSNorm as people write them."""
    centre = x - x.mean(-1, keepdim=True)
    match style:
        case "rsqrt":
            return centre * torch.rsqrt(centre.pow(2).mean(-1, keepdim=True) + eps)
        case "sqrt":
            return centre / torch.sqrt((centre**2).mean(-1, keepdim=True) + eps)
        case "var":
            return (x - x.mean(dim=-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + eps).sqrt()
        case "std":
            return centre / (x.std(-1, keepdim=True) + eps)
        case "power":
            return centre * (centre.square().mean(-1, keepdim=True) + eps) ** -0.5
        case "reciprocal":
            return centre * (centre.square().mean(-1, keepdim=True) + eps).sqrt().reciprocal()
        case "one_over":
            return centre * (1 / (centre.square().mean(-1, keepdim=True) + eps).sqrt())
        case "rms":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * V
        case "length":
            return x / x.norm(dim=-1, keepdim=True)
        case "vector_norm":
            return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1e-6)
    raise AssertionError(style)


def mean_taken_off_in_place(x: Tensor) -> Tensor:
    centre = x.clone()
    centre -= x.mean(-1, keepdim=True)
    return centre


#: Ways to take off the mean over the last axis.
CENTRES: dict[str, Function] = {
    "sum": lambda x: x - x.sum(-1, keepdim=True) / D,
    "mean-first": lambda x: -x.mean(-1, keepdim=True).expand_as(x) + x,
    "in-place": mean_taken_off_in_place,
    "torch.sub": lambda x: torch.sub(x, x.mean((-1,), keepdim=True).to(x.dtype)),
    "unsqueezed": lambda x: x - x.mean(-1)[..., None],
}


def over_channels(x: Tensor) -> Tensor:
    centre = x - x.mean(1, keepdim=True)
    return centre * torch.rsqrt(centre.square().mean(1, keepdim=True) + 1e-3)


def by_hand_twin(t: Twin, x: Tensor, style: str, eps: float = 1e-3) -> Tensor:
    centred = style not in ("rms", "length", "vector_norm")
    centre = t.centred(x, -1) if centred else x
    power = centre.square().mean(-1, keepdim=True)
    inverse = {
        "std": 1 / (centre.square().sum(-1, keepdim=True).div(D - 1).sqrt() + eps),
        "length": (power * D) ** -0.5,
        "vector_norm": (power * D) ** -0.5,
    }.get(style, (power + eps) ** -0.5)
    out = t.scaled(centre, inverse)
    return t.times(out, V) if style == "rms" else out


def grouped(t: Twin, x: Tensor, groups: int, weight: Tensor | None = None) -> Tensor:
    """Each group of channels, at all places, is one row of a LayerNorm."""
    rows = x.reshape(len(x), groups, -1)
    factor = 1.0 if weight is None else weight.view(1, -1, 1, 1).expand_as(x[:1]).reshape(1, groups, -1)
    return t.layer_norm(rows, factor, eps=1e-3).view_as(x)


def scale(name: str, function: Function, inverse: Function) -> Case:
    """x over, or times, a scale that some function makes of x."""
    return Case(name, lambda: function, lambda t, x: t.scaled(x, inverse(x)))


def _power(x: Tensor) -> Tensor:
    return x.square() + 1


def response_norm(x: Tensor) -> Tensor:
    """Of the whole map a channel, over their mean: a scale over a scale."""
    length = x.norm(dim=1, keepdim=True)
    return torch.addcmul(V, V, x * (length / (length.mean(-1, keepdim=True) + 1e-6)))


def _response(x: Tensor) -> Tensor:
    length = x.square().sum(1, keepdim=True).sqrt()
    return length / (length.mean(-1, keepdim=True) + 1e-6)


def _batch_norm(norm: nn.BatchNorm1d | nn.BatchNorm2d) -> nn.Module:
    module = seeded(lambda: norm)
    module.running_mean = normal(norm.num_features, seed=8)
    module.running_var = normal(norm.num_features, seed=9).abs() + 0.1
    return module


CASES = [
    Case(
        "layer_norm",
        lambda: With(lambda x, w, b: F.layer_norm(x, (D,), w, b, 1e-3), w=V, b=C[0]),
        lambda t, x: t.layer_norm(x, V, C[0], 1e-3),
    ),
    Case("layer_norm-plain", lambda: lambda x: F.layer_norm(x, [D]), lambda t, x: t.layer_norm(x)),
    Case(
        "layer_norm-two-dims",
        lambda: lambda x: F.layer_norm(x, (S, D), weight=C, bias=C),
        lambda t, x: t.layer_norm(x.flatten(1), C.flatten(), C.flatten()).view_as(x),
    ),
    Case("torch.layer_norm", lambda: lambda x: torch.layer_norm(x, (D,)), lambda t, x: t.layer_norm(x)),
    Case("nn.LayerNorm", lambda: nn.LayerNorm(D, dtype=torch.float64), lambda t, x: t.layer_norm(x)),
    Case(
        "rms_norm",
        lambda: With(lambda x, w: F.rms_norm(x, (D,), w, 1e-3), w=V),
        lambda t, x: t.times(t.scaled(x, (x.square().mean(-1, keepdim=True) + 1e-3) ** -0.5), V),
    ),
    *(
        Case(
            f"group_norm-{groups}",
            lambda g=groups: With(lambda x, w, b: F.group_norm(x, g, w, b, 1e-3), w=normal(4, seed=14), b=normal(4, seed=15)),
            lambda t, x, g=groups: t.plus(grouped(t, x, g, normal(4, seed=14)), normal(4, seed=15).view(4, 1, 1)),
            MAP,
        )
        for groups in (1, 2, 4)
    ),
    Case(
        "nn.GroupNorm-tokens",
        lambda: nn.GroupNorm(1, S, affine=False, dtype=torch.float64),
        lambda t, x: t.layer_norm(x.flatten(1)).view_as(x),
    ),
    Case("torch.group_norm", lambda: lambda x: torch.group_norm(x, 2, eps=1e-3), lambda t, x: grouped(t, x, 2), MAP),
    scale("rms_norm-default-eps", lambda x: F.rms_norm(x, (D,)), lambda x: x.square().mean(-1, keepdim=True) ** -0.5),
    scale("torch.rms_norm", lambda x: torch.rms_norm(x, (D,)), lambda x: x.square().mean(-1, keepdim=True) ** -0.5),
    stays("batch_norm", _batch_norm(nn.BatchNorm1d(S))),
    stays("batch_norm-map", _batch_norm(nn.BatchNorm2d(4)), x=MAP),
    stays("batch_norm-no-affine", _batch_norm(nn.BatchNorm1d(S, affine=False))),
    stays("torch.batch_norm", lambda x: torch.batch_norm(x, C[:, 0], C[:, 1], C[:, 2], C[:, 3].abs(), False, 0.1, 1e-3, False)),
    Case("response-norm", lambda: response_norm, lambda t, x: t.plus(t.times(t.scaled(x, _response(x)), V), V)),
    scale("normalize", lambda x: F.normalize(x, dim=-1), lambda x: x.square().sum(-1, keepdim=True) ** -0.5),
    scale("normalize-1-norm", lambda x: F.normalize(x, p=1, dim=1), lambda x: 1 / x.abs().sum(1, keepdim=True)),
    *(
        Case(f"by-hand-{style}", lambda s=style: lambda x: by_hand(x, s), lambda t, x, s=style: by_hand_twin(t, x, s))
        for style in ("rsqrt", "sqrt", "var", "std", "power", "reciprocal", "one_over", "rms", "length", "vector_norm")
    ),
    *(
        Case(
            f"by-hand-{name}",
            lambda f=function: lambda x: f(x) / (x.var(-1, keepdim=True) + 1e-3).sqrt(),
            lambda t, x: t.scaled(t.centred(x, -1), (x.var(-1, keepdim=True) + 1e-3) ** -0.5),
        )
        for name, function in CENTRES.items()
    ),
    Case(
        "by-hand-over-channels",
        lambda: over_channels,
        lambda t, x: t.scaled(t.centred(x, 1), (x.var(1, keepdim=True, unbiased=False) + 1e-3) ** -0.5),
        MAP,
    ),
    Case(
        "by-hand-over-the-map",
        lambda: lambda x: (x - x.mean((2, 3), keepdim=True)) / (x.var((2, 3), keepdim=True) + 1e-3).sqrt(),
        lambda t, x: t.scaled(t.centred(x, 2, 3), (x.var((2, 3), keepdim=True) + 1e-3) ** -0.5),
        MAP,
    ),
    Case(
        "layer_norm-of-centred",
        lambda: lambda x: F.layer_norm(x - x.mean(-1, keepdim=True), (D,)),
        lambda t, x: t.layer_norm(t.centred(x, -1)),
    ),
    Case(
        "mean-taken-off",
        lambda: lambda x: x - x.mean(-1, keepdim=True),
        lambda t, x: t.add(x, t.times(t.mean(x, -1, keepdim=True).expand_as(x), -1)),
    ),
    scale("method-rsqrt", lambda x: x * _power(x).rsqrt(), lambda x: _power(x) ** -0.5),
    scale("torch.reciprocal", lambda x: x * torch.reciprocal(_power(x)), lambda x: _power(x) ** -1),
    *(
        scale(name, lambda x, f=function: x * f(_power(x)), lambda x, e=exponent: _power(x) ** e)
        for name, exponent, function in (
            ("torch.rsqrt_", -0.5, torch.rsqrt_),
            ("method-rsqrt_", -0.5, lambda y: y.rsqrt_()),
            ("torch.sqrt_", 0.5, torch.sqrt_),
            ("method-sqrt_", 0.5, lambda y: y.sqrt_()),
            ("torch.reciprocal_", -1, torch.reciprocal_),
            ("method-reciprocal_", -1, lambda y: y.reciprocal_()),
        )
    ),
    scale("torch.norm", lambda x: x / torch.norm(x, dim=-1, keepdim=True), lambda x: x.square().sum(-1, keepdim=True) ** -0.5),
    scale("linalg.norm", lambda x: x / torch.linalg.norm(x, dim=-1, keepdim=True), lambda x: x.square().sum(-1, keepdim=True) ** -0.5),
    scale("torch.var", lambda x: x / torch.var(x, -1, keepdim=True), lambda x: 1 / x.var(-1, keepdim=True)),
    scale("torch.std", lambda x: x / torch.std(x, -1, keepdim=True), lambda x: 1 / x.std(-1, keepdim=True)),
    scale("rtruediv", lambda x: x * _power(x).__rtruediv__(1.0), lambda x: _power(x) ** -1),
    scale("rdiv", lambda x: x * _power(x).__rdiv__(1.0), lambda x: _power(x) ** -1),
]
