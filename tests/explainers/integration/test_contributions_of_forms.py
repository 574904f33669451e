"""GlobEnc and ALTI where attention is written in other ways: against the formulas of their papers, computed from the weights in float64.

Both measure the vectors A_ij W_O v_j, of values with their bias, as their authors' code does; the bias of W_O is part of no vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import (
    PREPROCESS,
    TOKENS,
    WIDTH,
    Attention,
    Block,
    Mlp,
    Vit,
    built,
    pixels,
    plain_blocks,
    scores,
    softmax_of,
)


def keys_first(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights: Tensor = (k @ q.mT / q.shape[-1] ** 0.5).softmax(-2)
    return (v.mT @ weights).mT


def queries_in_chunks(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.cat([softmax_of(part, k) @ v for part in q.split(5, 2)], 2)


def keys_in_chunks(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    scaled = q @ k.mT / q.shape[-1] ** 0.5
    exponentials: Tensor = (scaled - scaled.amax(-1, keepdim=True)).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    parts = [a @ b for a, b in zip(weights.split(6, -1), v.split(6, -2), strict=True)]
    out: Tensor = parts[0] + parts[1] + parts[2]
    return out


def normalised_twice(weights: Tensor) -> Tensor:
    weights = weights / (1e-9 + weights.sum(-2, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)


def over_both_axes(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return normalised_twice(softmax_of(q, k)) @ v


def keys_sorted(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    order = (k[:, 0, :, 0] > 0).long().mul(100).add(torch.arange(k.shape[2])).argsort(1)[:, None, :, None]
    return softmax_of(q, k.gather(2, order.expand_as(k))) @ v.gather(2, order.expand_as(v))


def values_sorted(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    rows = v.transpose(1, 2).flatten(2)
    first, order = rows[..., :1].sort(1)
    rows = torch.cat([first, rows[..., 1:].gather(1, order.expand_as(rows[..., 1:]))], -1)
    return softmax_of(q, k.gather(2, order[:, None].expand_as(k))) @ rows.unflatten(2, (v.shape[1], -1)).transpose(1, 2)


def sized(v: Tensor) -> Tensor:
    return v * v.detach().abs().mean((2, 3), keepdim=True).sigmoid()


def values_of_constant_size(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ sized(v)


def values_of_size_without_gradient(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    with torch.no_grad():
        size = v.abs().mean((2, 3), keepdim=True).sigmoid()
    return softmax_of(q, k) @ (v * size)


def keys_of(chosen: Any) -> tuple[Any, Callable[[Tensor], Tensor]]:
    """Attention whose keys and values are projected from the ``chosen`` tokens alone."""

    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        _, keys, values = module.heads(module.qkv(x[:, chosen]), 3)
        return softmax_of(q, keys) @ values

    def change(weights: Tensor) -> Tensor:
        is_key = torch.zeros(TOKENS, dtype=weights.dtype)
        is_key[chosen] = 1
        return weights * is_key / (weights * is_key).sum(-1, keepdim=True)

    return form, change


def class_token_projected_apart(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    of_class, of_patches = (module.heads(module.qkv(part), 3)[2] for part in (x[:, :1], x[:, 1:]))
    return softmax_of(q, k) @ torch.cat([of_class, of_patches], 2)


def values_of_each_head_apart(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weight, bias = (each.chunk(3)[2].unflatten(0, (len(q[0]), -1)) for each in (module.qkv.weight, module.qkv.bias))
    patches = torch.stack([F.linear(x[:, 1:], *each) for each in zip(weight, bias, strict=True)], 1)
    return softmax_of(q, k) @ torch.cat([v[:, :, :1], patches], 2)


#: Each form, and what makes the weights that meet the values of those of a plain softmax.
FORMS: dict[str, tuple[Any, Callable[[Tensor], Tensor]]] = {
    "keys first, softmax over the last axis but one": (keys_first, lambda weights: weights),
    "queries in chunks": (queries_in_chunks, lambda weights: weights),
    "keys in chunks": (keys_in_chunks, lambda weights: weights),
    "keys sorted by what they hold": (keys_sorted, lambda weights: weights),
    "values sorted by their first number": (values_sorted, lambda weights: weights),
    "normalised over queries, then over keys": (over_both_axes, normalised_twice),
    "keys of the patches alone": keys_of(slice(1, None)),
    "every second token a key": keys_of(slice(None, None, 2)),
    "keys of gathered tokens": keys_of([9, 3, 16, 0, 4]),
    "the class token projected apart": (class_token_projected_apart, lambda weights: weights),
    "the values of patches projected for each head": (values_of_each_head_apart, lambda weights: weights),
    "values times a detached number": (values_of_constant_size, lambda weights: weights),
    "values times a number without gradient": (values_of_size_without_gradient, lambda weights: weights),
}


def by_formula(
    vit: Vit, change: Callable[[Tensor], Tensor], bias_of_values: bool, of_size: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """The maps of GlobEnc and ALTI, from weights."""
    with torch.no_grad():
        x = torch.cat([vit.cls, vit.embed(vit.patch(pixels()))], 1) + vit.pos
        x = vit.norm_pre(x) if isinstance(vit, NormFirst) else x
        lengths = nearness = torch.eye(x.shape[1], dtype=x.dtype)
        for block in vit.blocks:
            assert isinstance(block, Block)
            assert isinstance(block.attn, Attention)
            q, k, v = block.attn.heads(block.attn.qkv(block.n1(x)), 3)
            if not bias_of_values:
                v = block.attn.heads(F.linear(block.n1(x), block.attn.qkv.weight), 3)[2]
            v = of_size(v)
            attention = change(softmax_of(q, k))[0]
            projection = block.attn.proj.weight.unflatten(1, (len(attention), -1))
            vectors = torch.einsum("hij,hjd,ohd->ijo", attention, v[0], projection)
            vectors = vectors + torch.eye(len(vectors), dtype=x.dtype)[:, :, None] * x[0]
            stream = x + block.attn(block.n1(x))
            length = vectors.norm(dim=-1)
            whole = stream[0][:, None]
            near = (whole.abs().sum(-1) - (whole - vectors).abs().sum(-1)).clamp(min=0)
            lengths = length / length.sum(-1, keepdim=True) @ lengths
            nearness = near / near.sum(-1, keepdim=True) @ nearness
            x = stream + block.mlp(block.n2(stream))
    return lengths[0], nearness[0]


class NormFirst(Vit):
    """A model with a norm between the embedded tokens and its blocks, as CLIP has it."""

    def __init__(self) -> None:
        super().__init__(plain_blocks)
        self.norm_pre = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm_pre(torch.cat([self.cls.expand(len(x), -1, -1), self.embed(self.patch(x))], 1) + self.pos)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(self.norm(x)[:, 0])
        return out


def test_a_norm_before_the_blocks_is_part_of_what_the_first_block_takes() -> None:
    vit = built(NormFirst)
    assert isinstance(vit, NormFirst)
    for found, right in zip(scores(vit, pixels(), 1, "globenc", "alti"), by_formula(vit, torch.clone, True, torch.clone), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", FORMS)
def test_contributions_by_the_formulas_of_the_papers(name: str) -> None:
    form, change = FORMS[name]
    vit = built(lambda: Vit(lambda: [Block(lambda: Attention(form)), Block(lambda: Attention(form))]))
    assert isinstance(vit, Vit)
    of_size = sized if name.startswith("values times") else torch.clone
    expected, without_bias = (by_formula(vit, change, with_bias, of_size) for with_bias in (True, False))
    for found, right, other in zip(scores(vit, pixels(), 1, "globenc", "alti"), expected, without_bias, strict=True):
        assert float((other - right).abs().max()) > 1e-3 * float(right.abs().max())  # values without their bias are another map
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-8)


def neighbours(x: Tensor) -> Tensor:
    return (x + x.roll(1, 1)) / 2


def with_queries_of(rows_of: Callable[[Attention, Tensor], tuple[Tensor, Tensor]]) -> Any:
    """Attention with the queries of the first, the keys and values of the second that ``rows_of`` projects."""

    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        (queries, _, _), (_, keys, values) = (module.heads(rows, 3) for rows in rows_of(module, x))
        return softmax_of(queries, keys) @ values

    return form


def scaled_by(rows_of: Callable[[Attention, Tensor], tuple[Tensor, Tensor]]) -> Any:
    """Attention whose queries are scaled by a number made of the second that ``rows_of`` projects."""

    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        rows, pooled = rows_of(module, x)
        q, k, v = module.heads(rows, 3)
        return softmax_of(q * pooled[:, None, :, :1].sigmoid(), k) @ v

    return form


def joined(module: Attention, *rows: Tensor, dim: int = 1) -> tuple[Tensor, ...]:
    return module.qkv(torch.cat(rows, dim)).split([each.shape[dim] for each in rows], dim)


#: Rows of several tokens in one projection with those of single ones, and the same apart.
JOINED: dict[str, tuple[Any, Any]] = {
    "neighbours before the tokens": (
        with_queries_of(lambda module, x: joined(module, neighbours(x), x)),
        with_queries_of(lambda module, x: (module.qkv(neighbours(x)), module.qkv(x))),
    ),
    "their mean after the tokens": (
        scaled_by(lambda module, x: joined(module, x, x.mean(1, keepdim=True))),
        scaled_by(lambda module, x: (module.qkv(x), module.qkv(x.mean(1, keepdim=True)))),
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_biases_are_of_the_tokens_whose_rows_lie_next_to_those_of_several(name: str) -> None:
    given, expected = (
        scores(built(lambda form=form: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)])), pixels(), 1, "globenc", "alti")
        for form in JOINED[name]
    )
    for ours, theirs in zip(given, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("rows_of", "reason"),
    [
        (lambda module, x: joined(module, neighbours(x), x, dim=0), "does not have its samples first"),
        (lambda module, x: joined(module, neighbours(x).roll(1, 1), neighbours(x), dim=0)[::-1], "does not add up to that stream"),
    ],
)
def test_rows_of_several_samples_that_are_joined_are_refused(rows_of: Any, reason: str) -> None:
    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        (queries, _, _), (_, keys, values) = (module.heads(rows, 3) for rows in rows_of(module, x))
        return softmax_of(queries, keys) @ (v if "add" in reason else values)

    vit = built(lambda: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)]))
    for spec in ("globenc", "alti"):
        with pytest.raises(explainers.ExplainerError, match=reason):
            scores(vit, pixels(), 1, spec)


class NormedApart(Block):
    """A block that normalises its class token and its patches in two calls."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(torch.cat([self.n1(x[:, :1]), self.n1(x[:, 1:])], 1))
        out: Tensor = x + self.mlp(self.n2(x))
        return out


class WrittenIntoInput(Block):
    """A block that adds to its input in place."""

    def forward(self, x: Tensor) -> Tensor:
        x += self.attn(self.n1(x))
        x += self.mlp(self.n2(x))
        return x


@pytest.mark.parametrize("block", [NormedApart, WrittenIntoInput])
def test_contributions_in_blocks_of_other_forms(block: type[Block]) -> None:
    vit = built(lambda: Vit(lambda: [block(lambda: Attention(keys_first)) for _ in range(2)]))
    assert isinstance(vit, Vit)
    for found, right in zip(scores(vit, pixels(), 1, "globenc", "alti"), by_formula(vit, torch.clone, True, torch.clone), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-8)


def keys_chosen_by_the_tokens(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    chosen = x[..., :1].topk(6, 1).indices.expand(-1, -1, x.shape[-1])
    _, keys, values = module.heads(module.qkv(x.gather(1, chosen)), 3)
    return softmax_of(q, keys) @ values


def test_each_sample_of_a_batch_has_the_biases_of_the_tokens_that_it_chose() -> None:
    vit, x = built(lambda: Vit(lambda: [Block(lambda: Attention(keys_chosen_by_the_tokens)) for _ in range(2)])), pixels(2)
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    together = explainers.explain(model, {"pixel_values": x}, 1, ["globenc", "alti"])
    for sample in range(2):
        for spec, alone in zip(("globenc", "alti"), scores(vit, x[sample : sample + 1], 1, "globenc", "alti"), strict=True):
            torch.testing.assert_close(together[sample][spec].scores.double(), alone, rtol=1e-6, atol=1e-9)


class Flat(Block):
    """A block that flattens the rows of what its norm gives, which is in one piece of memory whatever the norm takes."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x).view(-1, WIDTH).view(x.shape))
        out: Tensor = x + self.mlp(self.n2(x))
        return out


def test_norms_of_tokens_that_lie_channels_first_in_memory_can_be_viewed_as_rows() -> None:
    """Under constant attention, scales and gates contributions of tokens to the answer are their products with its gradient."""
    plain, flat = (
        built(lambda block=block: Vit(lambda: [block(lambda: Attention(keys_first)) for _ in range(2)], between=in_memory_by_channels))
        for block in (Block, Flat)
    )
    (forward,) = scores(flat, pixels(), 1, "decompx:libra")
    (backward,) = scores(plain, pixels(), 1, "input_x_gradient:libra")
    torch.testing.assert_close(forward, backward, rtol=1e-5, atol=1e-6 * float(backward.abs().max()))


def in_memory_by_channels(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


def one_beside_the_sum(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    exponentials = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    return exponentials / (1 + exponentials.sum(-1, keepdim=True)) @ v


def one_more_score(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    """The same as a softmax over one more score, of 0, whose weight is dropped."""
    return F.pad(q @ k.mT / q.shape[-1] ** 0.5, (0, 1)).softmax(-1)[..., :-1] @ v


def test_exponentials_over_their_sum_and_one_are_known_weights() -> None:
    given, expected = (
        scores(built(lambda form=form: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)])), pixels(), 1, "globenc", "alti")
        for form in (one_beside_the_sum, one_more_score)
    )
    for ours, theirs in zip(given, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-8)


def by_distance(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (-torch.cdist(q, k).square()).softmax(-1) @ v


class Divided(Mlp):
    """An MLP whose activation is x / (1 + abs(x))."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x)
        out: Tensor = self.b(y / (1 + y.abs()))
        return out


class Cut(Mlp):
    """An MLP with a function of single numbers that is no activation of the kind that has a linear form."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.b(self.a(x).abs())
        return out


@pytest.mark.parametrize(("form", "mlp", "is_noted"), [(by_distance, Mlp, False), (keys_first, Divided, False), (keys_first, Cut, True)])
def test_what_is_held_constant_is_not_said_to_add_up_to_less(form: Any, mlp: Callable[[], nn.Module], is_noted: bool) -> None:
    vit = built(lambda: Vit(lambda: [Block(lambda: Attention(form), mlp), Block(lambda: Attention(form), mlp)]))
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["decompx"])
    notes = (result[0] if isinstance(result, list) else result).maps[0].notes
    assert any("is not linear" in note for note in notes) == is_noted
