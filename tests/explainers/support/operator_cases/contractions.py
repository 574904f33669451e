"""Rows of the table of operators: torch.einsum, and the functions that are one. The twins write the matrix products out."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.explainers.support.formulas import Twin
from tests.explainers.support.operator_cases.attention import qkv
from tests.explainers.support.operator_cases.case import B, C, Case, D, S, V, W, With, X, linear, moved, normal
from tests.explainers.support.toys import Function

HEADS = normal(2, 3, 3, seed=41)  # a matrix for each head
QUERIES = normal(2, 4, 3, seed=42)  # of each head, the same for every sample
TO_HEADS = normal(D, 2, 3, seed=43)
FROM_HEADS = normal(2, 3, D, seed=44)
MIXING = normal(2, 2, seed=45)
VALUES = normal(S, 4, seed=46)
ROWS = normal(B * S, seed=48)
STACK = normal(3, 2, 4, seed=49)


def attention(name: str, function: Function) -> Case:
    """Attention of two heads, whose output is (B, S, heads, 3)."""

    def twin(t: Twin, x: Tensor) -> Tensor:
        return t.attend(*qkv(x, t=t)).transpose(1, 2)

    return Case(name, lambda: function, twin)


def by_einsum(scores: str, context: str) -> Function:
    """Attention by two equations, of queries, keys and values (B, heads, S, 3)."""

    def function(x: Tensor) -> Tensor:
        q, k, v = qkv(x)
        return torch.einsum(context, (torch.einsum(scores, q, k) * 3**-0.5).softmax(-1), v)

    return function


def tokens_first(x: Tensor) -> Tensor:
    """As XLNet writes it: tokens, then samples."""
    q, k, v = (part.permute(2, 0, 1, 3) for part in qkv(x))
    weights = (torch.einsum("ibnd,jbnd->bnij", q, k) * 3**-0.5).softmax(-1)
    return torch.einsum("jbnd,bnij->ibnd", v, weights).transpose(0, 1)


def by_lists(x: Tensor) -> Tensor:
    q, k, v = qkv(x)
    weights = (torch.einsum(q, [0, 1, 2, 4], k, [0, 1, 3, 4], [0, 1, 2, 3]) * 3**-0.5).softmax(-1)
    return torch.einsum(weights, [..., 2, 3], v, [..., 3, 4], [..., 2, 4]).transpose(1, 2)


def one_key_for_all_heads(x: Tensor) -> Tensor:
    q, k, v = qkv(x, 2, 1)
    weights = (torch.einsum("bhid,bjd->bhij", q, k[:, 0]) * 3**-0.5).softmax(-1)
    return torch.einsum("bhij,bjd->bihd", weights, v[:, 0])


def one_key_twin(t: Twin, x: Tensor) -> Tensor:
    q, k, v = qkv(x, 2, 1, t)
    return t.attend(q, k.expand(-1, 2, -1, -1), v.expand(-1, 2, -1, -1)).transpose(1, 2)


def talking_heads(x: Tensor) -> Tensor:
    q, k, v = qkv(x)
    scores = torch.einsum("hij...,hg->gij...", (q @ k.mT).permute(1, 2, 3, 0), MIXING).permute(3, 0, 1, 2)
    return torch.einsum("bhij,hg,bgjd->bigd", scores.softmax(-1), MIXING, v)


def talking_heads_twin(t: Twin, x: Tensor) -> Tensor:
    q, k, v = qkv(x, t=t)

    def mixed(of: Tensor) -> Tensor:
        return t.linear(lambda y: (MIXING.mT @ y.flatten(2)).view_as(y), of)

    return t.matmul(mixed(t.softmax(mixed(t.matmul(q, k.mT)))), v).transpose(1, 2)


def constant_queries(x: Tensor) -> Tensor:
    _, k, v = qkv(x)
    return torch.einsum("bhqk,bhkd->bqhd", torch.einsum("hqd,bhkd->bhqk", QUERIES, k).softmax(-1), v)


def constant_queries_twin(t: Twin, x: Tensor) -> Tensor:
    _, k, v = qkv(x, t=t)
    return t.matmul(t.softmax(t.linear(lambda y: QUERIES @ y.mT, k)), v).transpose(1, 2)


def linear_attention(x: Tensor) -> Tensor:
    q, k, v = (part.transpose(1, 2) for part in qkv(x))
    return torch.einsum("bnhd,bhde->bnhe", q, torch.einsum("bnhd,bnhe->bhde", k, v))


def linear_attention_twin(t: Twin, x: Tensor) -> Tensor:
    q, k, v = qkv(x, t=t)
    return t.matmul(t.weights(t.matmul(q, k.mT)), v).transpose(1, 2)


def per_head(x: Tensor) -> Tensor:
    return torch.einsum("bshd,hde->bshe", x.unflatten(-1, (2, 3)), HEADS)


def bilinear() -> nn.Module:
    return With(lambda x, w, b: F.bilinear(x, x.flip(1), w, b), w=normal(4, D, D, seed=47), b=V[:4])


def bilinear_twin(t: Twin, x: Tensor) -> Tensor:
    matrix = torch.cat(list(normal(4, D, D, seed=47)), 1)  # (D, 4 D)
    inner = t.linear(lambda y: (y @ matrix).unflatten(-1, (4, D)), x)
    return t.plus(t.total_of_products(t.mul(inner, x.flip(1).unsqueeze(-2)), -1), V[:4])


def products(name: str, function: Function, left: Callable[[Tensor], Tensor], right: Callable[[Tensor], Tensor]) -> Case:
    """A product of two parts of x that hold no weights of attention."""
    return Case(name, lambda: function, lambda t, x: t.by_data(left(x), right(x)))


def chain(x: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather be asked for multi_dot
        return torch.stack([torch.chain_matmul(row, W, W[:, :2]) for row in x])


def chain_twin(t: Twin, x: Tensor) -> Tensor:
    return t.linear(lambda y: y @ W[:, :2], t.linear(lambda y: y @ W, x))


def by_width(x: Tensor) -> Tensor:
    """One sample as three matrices (3, S, 2)."""
    return x[0].unflatten(-1, (3, 2)).transpose(0, 1)


def outer(t: Twin, x: Tensor) -> Tensor:
    return torch.stack([t.mul(row[0, :, None], row[1]) for row in x])


CASES = [
    attention("einsum", by_einsum("bhid,bhjd->bhij", "bhij,bhjd->bihd")),
    attention("einsum-spaces-ellipsis", by_einsum(" ... i d , ... j d -> ... i j", "b h i j , b h j d -> b i h d")),
    attention("einsum-values-first", tokens_first),
    attention("einsum-lists", by_lists),
    Case("einsum-one-key", lambda: one_key_for_all_heads, one_key_twin),
    Case("einsum-talking-heads", lambda: talking_heads, talking_heads_twin),
    Case("einsum-constant-queries", lambda: constant_queries, constant_queries_twin),
    Case("einsum-linear-attention", lambda: linear_attention, linear_attention_twin),
    Case(
        "einsum-constant-values",
        lambda: lambda x: torch.einsum("bij,jd->bid", (x @ x.mT).softmax(-1), VALUES),
        lambda t, x: t.linear(lambda y: y @ VALUES, t.softmax(t.matmul(x, x.mT))),
    ),
    linear("einsum-layer", lambda: With(lambda x, w: torch.einsum("bsd,dhk->hbsk", x, w).permute(1, 2, 0, 3), w=TO_HEADS)),
    linear("einsum-layer-of-heads", lambda: With(lambda x, w: torch.einsum("bshd,hdo->bso", x.unflatten(-1, (2, 3)), w), w=FROM_HEADS)),
    linear("einsum-per-head", lambda: per_head),
    linear("einsum-no-rows", lambda: lambda x: torch.einsum("bhd,hde->bhe", x[:, 0].unflatten(-1, (2, 3)), HEADS)),
    linear("einsum-left", lambda: With(lambda x, w: torch.einsum("ts,bsd->btd", w, x), w=normal(4, S))),
    Case(
        "einsum-summed-out",
        lambda: lambda x: torch.einsum("bsd,de->be", x, W),
        lambda t, x: t.linear(lambda y: y @ W, t.total(x, 1)),
    ),
    Case("einsum-constant-factor", lambda: lambda x: torch.einsum("bsd,sd->dbs", x, C).permute(1, 2, 0), lambda t, x: t.times(x, C)),
    Case("einsum-factors", lambda: lambda x: torch.einsum("bsd,bsd->bsd", x, x.flip(1)), lambda t, x: t.mul(x, x.flip(1))),
    Case(
        "einsum-three",
        lambda: lambda x: torch.einsum("bsd,btd,de->bste", x, x.flip(1), W),
        lambda t, x: t.linear(lambda y: y @ W, t.mul(x[:, :, None], x.flip(1)[:, None])),
    ),
    Case(
        "einsum-of-one",
        lambda: lambda x: torch.einsum("bij->bj", x[:, :, :S] @ W[:S, :S]),
        lambda t, x: t.total(t.linear(lambda y: y[:, :, :S] @ W[:S, :S], x), 1),
    ),
    Case(
        "einsum-trace",
        lambda: lambda x: torch.einsum("bii->b", x[..., :S])[:, None],
        lambda t, x: t.total(x[..., :S].diagonal(dim1=1, dim2=2), 1, keepdim=True),
    ),
    moved("einsum-diagonal", lambda x: torch.einsum("bii->ib", x[..., :S]).mT),
    moved("einsum-transpose", lambda x: torch.einsum("b...d->bd...", x)),
    products("einsum-widened", lambda x: torch.einsum("bsd,btd->bst", x[..., :1], x), lambda x: x[..., :1].expand_as(x), lambda x: x.mT),
    linear("tensordot", lambda: With(lambda x, w: torch.tensordot(x, w, dims=1), w=W)),
    linear("tensordot-dims", lambda: lambda x: torch.tensordot(x.unflatten(-1, (2, 3)), FROM_HEADS, ([2, 3], [0, 1]))),
    linear("inner", lambda: With(torch.inner, other=W)),
    linear("method-inner", lambda: lambda x: x.inner(W)),
    linear("mv", lambda: lambda x: torch.stack([torch.mv(row, V) for row in x])),
    linear("method-mv", lambda: lambda x: torch.stack([row.mv(V) for row in x])),
    linear("addmv", lambda: lambda x: torch.addmv(ROWS, x.flatten(0, 1), V, beta=0.5, alpha=2).view(B, S)),
    linear("method-addmv", lambda: lambda x: ROWS.addmv(x.flatten(0, 1), V).view(B, S)),
    linear("addmv_", lambda: lambda x: (ROWS * 1.0).addmv_(x.flatten(0, 1), V).view(B, S)),
    linear("torch.addmv_", lambda: lambda x: torch.addmv_(ROWS * 1.0, x.flatten(0, 1), V).view(B, S)),
    Case("chain_matmul", lambda: chain, chain_twin),
    Case("multi_dot", lambda: lambda x: torch.stack([torch.linalg.multi_dot([row, W, W[:, :2]]) for row in x]), chain_twin),
    linear("linalg.matmul", lambda: With(torch.linalg.matmul, other=W)),
    linear("linalg.vecdot", lambda: lambda x: torch.linalg.vecdot(x, C[:, :1], dim=1)),
    linear("addbmm", lambda: lambda x: torch.addbmm(C[:, :4], by_width(x), STACK, beta=0.5, alpha=2)[None], x=X[:1]),
    linear("method-addbmm", lambda: lambda x: C[:, :4].addbmm(by_width(x), STACK)[None], x=X[:1]),
    linear("addbmm_", lambda: lambda x: (C[:, :4] * 1.0).addbmm_(by_width(x), STACK)[None], x=X[:1]),
    products("dot", lambda x: torch.stack([torch.dot(r[0], r[1]) for r in x])[:, None], lambda x: x[:, :1], lambda x: x[:, 1:2].mT),
    products("method-dot", lambda x: torch.stack([r[0].dot(r[1]) for r in x])[:, None], lambda x: x[:, :1], lambda x: x[:, 1:2].mT),
    products("vdot", lambda x: torch.stack([torch.vdot(r[0], r[1]) for r in x])[:, None], lambda x: x[:, :1], lambda x: x[:, 1:2].mT),
    products("method-vdot", lambda x: torch.stack([r[0].vdot(r[1]) for r in x])[:, None], lambda x: x[:, :1], lambda x: x[:, 1:2].mT),
    Case("outer", lambda: lambda x: torch.stack([torch.outer(r[0], r[1]) for r in x]), outer),
    Case("method-outer", lambda: lambda x: torch.stack([r[0].outer(r[1]) for r in x]), outer),
    Case("ger", lambda: lambda x: torch.stack([torch.ger(r[0], r[1]) for r in x]), outer),
    Case("method-ger", lambda: lambda x: torch.stack([r[0].ger(r[1]) for r in x]), outer),
    Case("addr", lambda: lambda x: torch.stack([torch.addr(W, r[0], r[1]) for r in x]), lambda t, x: t.plus(outer(t, x), W), x=X[:1]),
    Case("method-addr", lambda: lambda x: torch.stack([W.addr(r[0], r[1]) for r in x]), lambda t, x: t.plus(outer(t, x), W), x=X[:1]),
    Case("addr_", lambda: lambda x: torch.stack([(W * 1.0).addr_(r[0], r[1]) for r in x]), lambda t, x: t.plus(outer(t, x), W), x=X[:1]),
    Case("bilinear", bilinear, bilinear_twin),
    linear("bilinear-with-constant", lambda: lambda x: F.bilinear(C.expand_as(x), x, normal(4, D, D, seed=47))),
]
