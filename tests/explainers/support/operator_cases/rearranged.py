"""Rows of the table of operators: numbers written among others or added up at places, and functions that are others put together."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.explainers.support.formulas import Twin
from tests.explainers.support.operator_cases.case import MAP, B, C, Case, D, S, V, W, X, in_place, linear, moved, normal, stays
from tests.explainers.support.toys import Function

PLACES = torch.tensor([0, 2, 2])
WIDE = PLACES[None, :, None].expand(B, 3, D)
ONCE = torch.tensor([3, 1, 0])[None, :, None].expand(B, 3, D)


def pooled(name: str, function: Function, formula: Function | None = None, **more: Any) -> Case:
    return Case(name, lambda: function, lambda t, x: t.pool(formula or function, x), **more)


def added_at(name: str, function: Function, scattered: Function) -> Case:
    """x, and some of it added up at places."""
    return Case(name, lambda: function, lambda t, x: t.add(x, t.pool(scattered, x[:, 2:])))


def at_places(values: Tensor) -> Tensor:
    """The matrix of the places times the values."""
    return F.one_hot(PLACES, S).double().mT @ values


def means_at_places(values: Tensor) -> Tensor:
    counts = F.one_hot(PLACES, S).double().sum(0)[:, None]
    return at_places(values) / counts.clamp(min=1)


def per_sample(function: Callable[[Tensor], Tensor]) -> Function:
    return lambda x: torch.stack([function(row) for row in x])


def quietly(call: Callable[[], Tensor]) -> Tensor:
    """``call()`` without torch's warnings of what is in beta, or goes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def copied_by_slices(x: Tensor) -> Tensor:
    out = torch.empty(x.shape, dtype=x.dtype)
    for token in range(S):
        out[:, token].copy_(x[:, S - 1 - token])
    return out


def added_to_a_slice(x: Tensor) -> Tensor:
    out = torch.zeros(x.shape, dtype=x.dtype)
    out[:, 1].add_(x[:, 0])
    return out


def view_from_before(x: Tensor) -> Tensor:
    out = torch.zeros(x.shape, dtype=x.dtype)
    flat = out.view(B, -1)
    out[:, 0] = x[:, 0]
    return flat


def view_of_a_view(x: Tensor) -> Tensor:
    out = torch.zeros(x.shape, dtype=x.dtype)
    two = out[:, :2]
    two[:, 0].copy_(x[:, 0])
    return two


def zeros() -> Tensor:
    return torch.zeros(B, S, D, dtype=torch.float64)


WRITTEN = [
    moved("copy_-by-slices", copied_by_slices),
    moved("add_-to-a-slice", added_to_a_slice),
    moved("view-made-before", view_from_before),
    moved("view-of-a-view", view_of_a_view),
    moved("slice_scatter", lambda x: torch.slice_scatter(x, C[:2].expand(B, 2, D), 1, 0, 2)),
    moved("method-slice_scatter", lambda x: zeros().slice_scatter(x[:, :2], 1, 0, 2)),
    moved("select_scatter", lambda x: torch.select_scatter(x, C[0].expand(B, D), 1, 0)),
    moved("method-select_scatter", lambda x: x.select_scatter(x[:, 1], 1, 0)),
    moved("diagonal_scatter", lambda x: torch.diagonal_scatter(x, C[:, 0].expand(B, S), 0, 1, 2)),
    moved("method-diagonal_scatter", lambda x: zeros().diagonal_scatter(x[:, :, 0], 0, 1, 2)),
    moved("as_strided_scatter", lambda x: torch.as_strided_scatter(zeros(), x, (B, S, D), (S * D, D, 1))),
    moved("method-as_strided_scatter", lambda x: zeros().as_strided_scatter(x, (B, S, D), (S * D, D, 1))),
    moved("index_copy", lambda x: torch.index_copy(x, 1, torch.tensor([0, 2]), C[:2].expand(B, 2, D))),
    moved("method-index_copy", lambda x: x.index_copy(1, torch.tensor([0, 2]), x[:, 3:])),
    moved("index_copy_", lambda x: zeros().index_copy_(1, torch.tensor([0, 2]), x[:, 3:])),
    moved("masked_scatter", per_sample(lambda row: torch.masked_scatter(C * 0, C > 0, row))),
    moved("method-masked_scatter", lambda x: x.masked_scatter(C > 0, -C[None]), x=X[:1]),
    moved("scatter", lambda x: torch.scatter(x, 1, ONCE, x[:, 2:])),
    moved("method-scatter", lambda x: zeros().scatter(1, ONCE, x[:, 2:])),
    moved("index_put", lambda x: torch.index_put(zeros(), (torch.tensor([0, 1]),), x)),
    moved("method-index_put", lambda x: x.index_put((torch.tensor([0, 1]), torch.tensor([2, 2])), C[0].expand(B, D))),
    moved("put", lambda x: torch.put(x, torch.tensor([0, S * D]), V[:2])),
    moved("method-put", lambda x: zeros().put(torch.arange(B * S * D), x)),
    moved("index_put_", in_place(lambda y: y.index_put_((torch.tensor([0, 1]),), -X))),
    moved("torch.index_put_", in_place(lambda y: torch.index_put_(y, (torch.tensor([0, 1]),), -X))),
    moved("masked_scatter_", in_place(lambda y: y.masked_scatter_(C > 0, -X)), x=X[:1]),
    moved("put_", in_place(lambda y: y.put_(torch.arange(B * S * D), -X))),
    moved("scatter_", in_place(lambda y: y.scatter_(1, ONCE, -X[:, :3]))),
    moved("index_fill", lambda x: x.index_fill(1, torch.tensor([0, 2]), 0.0)),
    moved("diag_embed", torch.diag_embed),
    moved("diag", per_sample(lambda row: row[0].diag())),
    moved("tril-triu", lambda x: torch.cat([x.tril(), torch.triu(x, 1)], 1)),
    moved("rot90-fliplr-flipud", lambda x: x.rot90(2, (1, 2)).fliplr().flip(0).flipud()),
    moved("pixel_shuffle", lambda x: F.pixel_shuffle(x.flatten(2)[:, :, None], 2), x=MAP),
    moved("pixel_unshuffle", lambda x: F.channel_shuffle(F.pixel_unshuffle(x[:, :, :4], 2), 2), x=MAP),
    moved("moveaxis", lambda x: x.moveaxis(1, 2).adjoint().positive()),
    moved("dstack", lambda x: torch.dstack([x, torch.column_stack([x, x])[:, :S]])),
    moved("dsplit", lambda x: torch.cat([*x.dsplit(2)[::-1], *(part.dsplit(2)[0] for part in x.hsplit(5))], 1)),
    moved("take", per_sample(lambda row: row.take(torch.tensor([0, 3, 3])))),
    moved("meshgrid", per_sample(lambda row: torch.stack(torch.meshgrid(row[0], row[1], indexing="ij")))),
    moved("broadcast_tensors", lambda x: torch.broadcast_tensors(x[:, :1], C)[0]),
    moved("kthvalue", lambda x: torch.stack([x.kthvalue(2, 1).values, x.median(1).values, x.transpose(0, 1).msort()[0]], 1)),
    moved("as_tensor", lambda x: torch.as_tensor(x).ravel().view(B, -1)),
]
ADDED = [
    added_at("index_add", lambda x: torch.index_add(x, 1, PLACES, x[:, 2:]), at_places),
    added_at("method-index_add", lambda x: x.index_add(1, PLACES, x[:, 2:]), at_places),
    Case(
        "index_add-alpha",
        lambda: lambda x: x.index_add(1, PLACES, x[:, 2:], alpha=2),
        lambda t, x: t.add(x, t.pool(at_places, t.times(x[:, 2:], 2))),
    ),
    pooled("index_add_", lambda x: zeros().index_add_(1, PLACES, x[:, 2:]), lambda x: at_places(x[:, 2:])),
    added_at("scatter_add", lambda x: torch.scatter_add(x, 1, WIDE, x[:, 2:]), at_places),
    added_at("method-scatter_add", lambda x: x.scatter_add(1, WIDE, x[:, 2:]), at_places),
    pooled("scatter_add_", lambda x: zeros().scatter_add_(1, WIDE, x[:, 2:]), lambda x: at_places(x[:, 2:])),
    added_at("index_put-accumulate", lambda x: x.index_put((torch.arange(B)[:, None], PLACES), x[:, 2:], accumulate=True), at_places),
    pooled(
        "put-accumulate",
        lambda x: zeros().put((torch.arange(B)[:, None] * S * D + torch.zeros(S * D)).long(), x.flatten(1), accumulate=True)[:, 0, :1],
        lambda x: x.flatten(1).sum(1, keepdim=True),
    ),
    added_at("scatter_reduce", lambda x: torch.scatter_reduce(x, 1, WIDE, x[:, 2:], "sum"), at_places),
    pooled(
        "method-scatter_reduce-mean",
        lambda x: zeros().scatter_reduce(1, WIDE, x[:, 2:], "mean", include_self=False),
        lambda x: means_at_places(x[:, 2:]),
    ),
    pooled(
        "scatter_reduce_", lambda x: zeros().scatter_reduce_(1, WIDE, x[:, 2:], "sum", include_self=False), lambda x: at_places(x[:, 2:])
    ),
    moved("scatter_reduce-amax", lambda x: torch.full((B, S, D), -9.0).double().scatter_reduce(1, WIDE, x[:, 2:], "amax")[:, :3:2]),
    pooled(
        "index_reduce",
        lambda x: quietly(lambda: torch.index_reduce(zeros(), 1, PLACES, x[:, 2:], "mean", include_self=False)),
        lambda x: means_at_places(x[:, 2:]),
    ),
    pooled(
        "method-index_reduce",
        lambda x: quietly(lambda: zeros().index_reduce(1, PLACES, x[:, 2:], "mean", include_self=False)),
        lambda x: means_at_places(x[:, 2:]),
    ),
    pooled(
        "index_reduce_",
        lambda x: quietly(lambda: zeros().index_reduce_(1, PLACES, x[:, 2:], "mean", include_self=False)),
        lambda x: means_at_places(x[:, 2:]),
    ),
    pooled("cumsum", lambda x: torch.cumsum(x, 1), lambda x: torch.ones(S, S).double().tril() @ x),
    pooled("method-cumsum", lambda x: x.cumsum(-1), lambda x: x @ torch.ones(D, D).double().triu()),
    pooled("cumsum_", in_place(lambda y: y.cumsum_(1)), lambda x: torch.ones(S, S).double().tril() @ x),
    pooled("trace", per_sample(lambda row: torch.trace(row)[None])),
    pooled("method-trace", per_sample(lambda row: row.trace()[None])),
    pooled("sum_to_size", lambda x: x.sum_to_size(B, 1, D), lambda x: x.sum(1, keepdim=True)),
    pooled("nansum", lambda x: torch.nansum(x, 1), lambda x: x.sum(1)),
    pooled("method-nansum", lambda x: x.nansum(1), lambda x: x.sum(1)),
    pooled("nanmean", lambda x: torch.nanmean(x, 1), lambda x: x.mean(1)),
    pooled("method-nanmean", lambda x: x.nanmean(1), lambda x: x.mean(1)),
    pooled("grid_sample", lambda x: F.grid_sample(x, normal(B, 3, 3, 2).clamp(-0.9, 0.9), align_corners=False), x=MAP),
]


def points_of(x: Tensor) -> Tensor:
    return x[:, :2, :3, :3].permute(0, 2, 3, 1)


def read_at_own_points(t: Twin, x: Tensor) -> Tensor:
    """Bilinear interpolation written out by tent functions; the points are differentiated where attention weights are, else constants."""
    points = t.times(points_of(x), 0.3)
    points = points if t.rule.attention == "jacobian" else points.detach()
    at = [((points[..., axis] + 1) * size - 1) / 2 for axis, size in ((0, x.shape[3]), (1, x.shape[2]))]
    tents = [
        (1 - (place[..., None] - torch.arange(size)).abs()).clamp(min=0) for place, size in zip(at, (x.shape[3], x.shape[2]), strict=True)
    ]
    weights = tents[1][..., :, None] * tents[0][..., None, :]
    return t.pool(lambda y: torch.einsum("bpqhw,bchw->bcpq", weights, y), x)


def lerped(t: Twin, x: Tensor, end: Tensor) -> Tensor:
    return t.add(t.times(x, 0.7), t.times(end, 0.3))


def projected(t: Twin, x: Tensor) -> Tensor:
    return t.linear(lambda y: y @ W, x)


def trapezoids(t: Twin, x: Tensor) -> Tensor:
    return t.times(t.times(t.add(x[..., 1:], x[..., :-1]), 0.5), 2.0)


PUT_TOGETHER = [
    Case("grid_sample-own-points", lambda: lambda x: F.grid_sample(x, 0.3 * points_of(x), align_corners=False), read_at_own_points, MAP),
    Case("lerp", lambda: lambda x: torch.lerp(x, x @ W, 0.3), lambda t, x: lerped(t, x, projected(t, x))),
    Case("method-lerp", lambda: lambda x: x.lerp(C.expand(B, S, D), 0.3), lambda t, x: t.plus(t.times(x, 0.7), 0.3 * C)),
    Case("lerp_", lambda: in_place(lambda y: y.lerp_(y @ W, 0.3)), lambda t, x: lerped(t, t.times(x, 1.0), projected(t, t.times(x, 1.0)))),
    Case(
        "addcdiv",
        lambda: lambda x: torch.addcdiv(x, x @ W, C, value=0.5),
        lambda t, x: t.add(x, t.times(t.times(projected(t, x), 1 / C), 0.5)),
    ),
    Case("method-addcdiv", lambda: lambda x: x.addcdiv(C, C + 9), lambda t, x: t.plus(x, C / (C + 9))),
    Case("addcdiv_", lambda: in_place(lambda y: y.addcdiv_(C, C + 9)), lambda t, x: t.plus(t.times(x, 1.0), C / (C + 9))),
    stays("ldexp", lambda x: torch.ldexp(x, torch.tensor(2)).ldexp(torch.tensor(1))),
    stays("torch.ldexp_", in_place(lambda y: torch.ldexp_(y, torch.tensor(2)))),
    stays("ldexp_", in_place(lambda y: y.ldexp_(torch.tensor(2)))),
    Case("diff", lambda: torch.diff, lambda t, x: t.add(x[..., 1:], t.times(x[..., :-1], -1.0))),
    Case(
        "method-diff",
        lambda: lambda x: x.diff(dim=1, append=x[:, :1]),
        lambda t, x: t.add(torch.cat([x, x[:, :1]], 1)[:, 1:], t.times(torch.cat([x, x[:, :1]], 1)[:, :-1], -1.0)),
    ),
    *(
        Case(
            f"cross-{name}",
            lambda function=function: lambda x: quietly(lambda: function(x.view(B, S, 2, 3), C.view(S, 2, 3).expand(B, S, 2, 3))),  # type: ignore[misc]
            lambda t, x: t.add(
                t.times(x.view(B, S, 2, 3).roll(-1, -1), C.view(S, 2, 3).roll(-2, -1)),
                t.times(t.times(x.view(B, S, 2, 3).roll(-2, -1), C.view(S, 2, 3).roll(-1, -1)), -1.0),
            ),
        )
        for name, function in (("torch", torch.cross), ("method", Tensor.cross), ("linalg", torch.linalg.cross))
    ),
    Case(
        "kron",
        lambda: per_sample(lambda row: torch.kron(row, W[:2, :2])),
        lambda t, x: t.times(x[:, :, None, :, None], W[:2, None, :2]).reshape(B, 2 * S, 2 * D),
    ),
    Case(
        "method-kron",
        lambda: per_sample(lambda row: row.kron(V[:2])),
        lambda t, x: t.times(x[..., None], V[:2]).reshape(B, S, 2 * D),
    ),
    linear("tensordot-left", lambda: lambda x: torch.tensordot(W, x, ([1], [2])).permute(1, 2, 0)),
    Case("trapezoid", lambda: lambda x: torch.trapezoid(x, dx=2.0), lambda t, x: t.total(trapezoids(t, x), -1)),
    Case("trapz", lambda: lambda x: torch.trapz(x, 2.0 * torch.arange(D)), lambda t, x: t.total(trapezoids(t, x), -1)),
    Case(
        "cumulative_trapezoid",
        lambda: lambda x: torch.cumulative_trapezoid(x, dx=2.0),
        lambda t, x: t.pool(lambda y: y.cumsum(-1), trapezoids(t, x)),
    ),
]
CASES = [*WRITTEN, *ADDED, *PUT_TOGETHER]


#: Linear by weights of both signs: rules that differentiate linear maps have their choice, relevance has not.
TRANSFORMED: dict[str, Function] = {
    "fft": lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real,
    "filtered": lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * torch.complex(C, 1 - C)[:, :4], s=(S, D)),
    "complex-sums": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(B, S, 3, 2)) * (1 + 2j) - 3j * x[..., :3]),
    "complex-linear": lambda x: F.linear(torch.complex(x, -x), torch.complex(W, W.mT)).imag,
    "complex-quotient": lambda x: (x.to(torch.complex128) / torch.complex(C, 1 - C)).conj().real,
    "gradient": lambda x: torch.gradient(x, dim=2)[0],
    "interpolate-bicubic": lambda x: F.interpolate(x[:, None], size=(7, 8), mode="bicubic"),
    "grid_sample-bicubic": lambda x: F.grid_sample(x[:, None], normal(B, 3, 3, 2).clamp(-1, 1), "bicubic", align_corners=True),
}
