"""Attention in forms that no library has, each against maps that a second writing of the same function keeps, in float64.

A form gives what heads give (B, H, S, d) from queries, keys and values; its twin gives the same and keeps each map as queries by keys, in
the order of the tokens. What cannot be read is refused by what reads attention, and gradients go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from explainers.autograd.attention_trial import attention_plan_of
from explainers.autograd.recording import Recording
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import (
    HEADS,
    PREPROCESS,
    TOKENS,
    WIDTH,
    Attention,
    Bare,
    Block,
    Chunk,
    Experts,
    FlippingBlock,
    Form,
    Kept,
    MlpWithConvolution,
    Twice,
    Vit,
    built,
    keep,
    of_module,
    pixels,
    plain_blocks,
    scores,
    softmax_of,
    twin_of,
)

ORDER = torch.randperm(TOKENS, generator=torch.Generator().manual_seed(3))
BACKWARDS = torch.arange(TOKENS - 1, -1, -1)
PREFIX_LAST = torch.arange(TOKENS).roll(-1)


# --- forms, and twins of those that compute something else than plain attention ----------------------------------------------------------


def inside(order: Tensor, queries: bool = True, keys: bool = True) -> Any:
    """Queries, keys and values put into an order inside attention, and what it gives back into that of the tokens."""

    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        q = q[:, :, order] if queries else q
        k, v = (k[:, :, order], v[:, :, order]) if keys else (k, v)
        out = F.scaled_dot_product_attention(q, k, v)
        return out[:, :, order.argsort()] if queries else out

    return form


def sorted_by_content(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    order = x.norm(dim=-1).argsort(1)
    q, k, v = (t.gather(2, order[:, None, :, None].expand_as(t)) for t in (q, k, v))
    out = softmax_of(q, k) @ v
    return out.gather(2, order.argsort(1)[:, None, :, None].expand_as(out))


def keys_first(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (k @ q.mT / q.shape[-1] ** 0.5).softmax(-2).mT @ v


def values_first(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (v.mT @ softmax_of(q, k).mT).mT


def keys_and_values_first(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (v.mT @ (k @ q.mT / q.shape[-1] ** 0.5).softmax(-2)).mT


def head_by_head(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.cat([softmax_of(q[:, i : i + 1], k[:, i : i + 1]) @ v[:, i : i + 1] for i in range(HEADS)], 1)


def second_head_first(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    parts = [softmax_of(q[:, i : i + 1], k[:, i : i + 1]) @ v[:, i : i + 1] for i in (1, 0)]
    return torch.cat(parts[::-1], 1)


def queries_in_chunks(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.cat([softmax_of(part, k) @ v for part in q.split(5, 2)], 2)


def padded(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (F.pad(t, (0, 0, 0, 3)) for t in (q, k, v))
    mask = torch.arange(TOKENS + 3) < TOKENS
    return F.scaled_dot_product_attention(q, k, v, mask[None, None, None])[:, :, :TOKENS]


def heads_before_samples(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (t.transpose(0, 1) for t in (q, k, v))
    return (softmax_of(q, k) @ v).transpose(0, 1)


def heads_with_samples(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    return torch.bmm(softmax_of(q, k), v).unflatten(0, (-1, HEADS))


def element_wise(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (softmax_of(q, k)[..., None] * v[:, :, None]).sum(-2)


def windows(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.cat([softmax_of(q[:, :, w], k[:, :, w]) @ v[:, :, w] for w in (slice(0, 9), slice(9, TOKENS))], 2)


def windows_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    window = torch.arange(TOKENS) < 9
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(window[:, None] != window, -torch.inf)
    return keep(kept, scores.softmax(-1)) @ v


def with_windows(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v + windows(module, q, k, v, x)


def second(module: Attention, x: Tensor) -> Tensor:
    q, k = module.heads(module.more(x), 2)
    return softmax_of(q, k)


def differential(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (softmax_of(q, k) - 0.5 * second(module, x)) @ v


def differential_behind(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v - 0.5 * (second(module, x) @ v)


def differential_in_halves(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q2, k2 = module.heads(module.more(x), 2)
    of = F.scaled_dot_product_attention
    parts = [of(q, k, half) - 0.5 * of(q2, k2, half) for half in v.chunk(2, -1)]
    return torch.cat(parts, -1)


def values_in_halves(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k)
    return torch.cat([weights @ half for half in v.chunk(2, -1)], -1)


def gated_difference(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v - module.mix.bias[:, None, None] * (second(module, x) @ v)


def gated_difference_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    return keep(kept, softmax_of(q, k) - module.mix.bias[:, None, None] * second(module, x)) @ v


def differential_apart(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    both = torch.cat([softmax_of(q, k).unsqueeze(2), second(module, x).unsqueeze(2)], 2)
    return (both[:, :, 0] - 0.5 * both[:, :, 1]) @ v


def differential_in_one(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q2, k2 = module.heads(module.more(x), 2)
    weights = softmax_of(torch.cat([q, q2], 1), torch.cat([k, k2], 1)).unflatten(1, (2, HEADS))
    return (weights[:, 0] - 0.5 * weights[:, 1]) @ v


def differential_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    return keep(kept, softmax_of(q, k) - 0.5 * second(module, x)) @ v


def summed(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (0.5 * softmax_of(q, k) + 0.5 * second(module, x)) @ v


def summed_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    return keep(kept, 0.5 * softmax_of(q, k) + 0.5 * second(module, x)) @ v


def with_linear_attention(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v + F.relu(q) @ (F.relu(k).mT @ v)


def with_sigmoid(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v + torch.sigmoid(q @ k.mT) @ v


def convolved_values(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ (v + v.roll(1, 2))


def pooled_queries(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    out = softmax_of(q, k) @ v
    return 0.5 * (out + out.roll(1, 2))


def talking(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return module.mix(softmax_of(q, k).permute(0, 2, 3, 1)).permute(0, 3, 1, 2) @ v


def talking_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    mixed = torch.einsum("gh,bhij->bgij", module.mix.weight, softmax_of(q, k)) + module.mix.bias[:, None, None]
    return keep(kept, mixed) @ v


class Reordered(nn.Module):
    """Attention over tokens in another order, from its input on."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x[:, ORDER])[:, ORDER.argsort()]


FORMS: dict[str, Form] = {
    "fused": Form(),
    "keys first": Form(keys_first),
    "values first": Form(values_first),
    "keys and values first": Form(keys_and_values_first),
    "backwards inside": Form(inside(BACKWARDS)),
    "shuffled inside": Form(inside(ORDER)),
    "prefix last inside": Form(inside(PREFIX_LAST)),
    "queries alone shuffled": Form(inside(ORDER, keys=False)),
    "keys alone shuffled": Form(inside(ORDER, queries=False)),
    "sorted by content inside": Form(sorted_by_content),
    "shuffled before the projections": Form(blocks=lambda a: [Block(lambda: Reordered(a())), Block(a)]),
    "head by head": Form(head_by_head),
    "second head first": Form(second_head_first),
    "queries in chunks": Form(queries_in_chunks),
    "padded inside": Form(padded),
    "heads before samples": Form(heads_before_samples),
    "heads with samples": Form(heads_with_samples),
    "element-wise": Form(element_wise, refused=True),
    "windows": Form(windows, windows_twin),
    "all tokens and windows": Form(with_windows, refused=True),
    "differential": Form(differential, differential_twin),
    "differential, apart": Form(differential_apart, differential_twin),
    "differential, in one softmax": Form(differential_in_one, differential_twin),
    "difference of what they give": Form(differential_behind, differential_twin),
    "difference of fused attentions, values in halves": Form(differential_in_halves, differential_twin),
    "values in halves": Form(values_in_halves),
    "difference by head": Form(gated_difference, gated_difference_twin),
    "sum of two": Form(summed, summed_twin),
    "with linear attention": Form(with_linear_attention, refused=True),
    "with sigmoid attention": Form(with_sigmoid, refused=True),
    "values of two tokens": Form(convolved_values, refused=True),
    "what two tokens give": Form(pooled_queries, refused=True),
    "talking heads": Form(talking, talking_twin),
    "parallel": Form(blocks=lambda a: [Twice(a, "parallel"), Twice(a, "parallel")], parallel=2),
    "in sequence": Form(blocks=lambda a: [Twice(a, "sequence"), Twice(a, "sequence")]),
    "in chunks of blocks": Form(blocks=lambda a: [Chunk([Block(a), Block(a)]), Chunk([nn.Identity(), Block(a), Block(a)])]),
    "no residual": Form(blocks=lambda a: [Bare(a), Bare(a)], refused=True),
    "in sequence without a residual": Form(blocks=lambda a: [Twice(a, "without residual"), Twice(a, "without residual")], refused=True),
    "convolution in the MLP": Form(blocks=lambda a: [Block(a, MlpWithConvolution), Block(a, MlpWithConvolution)]),
    "experts": Form(blocks=lambda a: [Block(a, Experts), Block(a, Experts)]),
    "one of two blocks": Form(blocks=lambda a: [Block(a), Block(lambda: Attention(keys_first))]),
}
READ = {name: form for name, form in FORMS.items() if not form.refused}


def in_token_order(name: str, maps: list[Tensor]) -> list[Tensor]:
    """The kept maps in the order of the tokens: of attention that is handed shuffled tokens, the first was kept in theirs."""
    if name != "shuffled before the projections":
        return maps
    back = ORDER.argsort()
    return [maps[0][:, :, back][:, :, :, back], *maps[1:]]


@pytest.mark.parametrize("name", READ)
def test_maps_are_those_that_the_model_weighs_values_by(name: str) -> None:
    form, x, target = FORMS[name], pixels(), 1
    vit = form.vit()
    logits, maps, gradients = twin_of(form, vit, x, target)
    with torch.no_grad():
        torch.testing.assert_close(vit(x), logits, rtol=1e-10, atol=1e-10)  # the twin computes the same
    maps, gradients = (in_token_order(name, each) for each in (maps, gradients))
    rollout = generic = torch.eye(TOKENS, dtype=torch.float64)[None]
    for weights, gradient in zip(maps, gradients, strict=True):
        rollout = 0.5 * rollout + 0.5 * weights.mean(1) @ rollout
        generic = generic + (weights * gradient).clamp(min=0).mean(1) @ generic
    expected = [maps[-1].mean(1)[0, 0], rollout[0, 0], generic[0, 0]]
    given = scores(vit, x, target, "raw_attention", "rollout", "generic_attention")
    for ours, theirs in zip(given, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.refused])
def test_what_cannot_be_read_is_refused_and_gradients_go_on(name: str) -> None:
    vit, x = FORMS[name].vit(), pixels()
    for spec in ("rollout", "raw_attention", "generic_attention", "attcat", "legrad", "transformer_attribution"):
        with pytest.raises(ExplainerError, match="attention"):
            scores(vit, x, 1, spec)
    assert bool(scores(vit, x, 1, "input_x_gradient")[0].any())


def test_what_pairs_a_map_with_a_block_is_refused_where_a_block_has_several() -> None:
    vit = FORMS["in sequence"].vit()
    for spec in ("attcat", "legrad", "token_tm", "transformer_attribution_second_block"):
        with pytest.raises(ExplainerError, match="several times"):
            scores(vit, pixels(), 1, spec)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_attention_is_found_in_short_types(dtype: torch.dtype) -> None:
    for name in ("fused", "shuffled inside"):
        vit = FORMS[name].vit().to(dtype)
        model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
        plan = attention_plan_of(model, Recording(model, {"pixel_values": pixels().to(dtype)}), Recording)
        assert [block.maps for block in plan.blocks] == [1, 1]
        assert [block.is_usual for block in plan.blocks] == [name == "fused"] * 2


def test_batches_are_read_sample_by_sample() -> None:
    vit, x = FORMS["sorted by content inside"].vit(), pixels(3)
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    together = Recording(model, {"pixel_values": x}).attentions
    for sample in range(3):
        alone = Recording(model, {"pixel_values": x[sample : sample + 1]}).attentions
        for ours, theirs in zip(together, alone, strict=True):
            assert ours is not None
            assert theirs is not None
            torch.testing.assert_close(ours[sample], theirs[0], rtol=1e-8, atol=1e-10)


# --- the order of tokens ------------------------------------------------------------------------------------------------------------------


def sort_patches(x: Tensor) -> Tensor:
    order = x[:, 1:].norm(dim=-1).argsort(1)
    return torch.cat([x[:, :1], x[:, 1:].gather(1, order[..., None].expand(-1, -1, x.shape[-1]))], 1)


def swap_two(x: Tensor) -> Tensor:
    order = torch.arange(x.shape[1])
    order[[5, 9]] = order[[9, 5]]
    return x[:, order]


BETWEEN: dict[str, Callable[[], Vit]] = {
    "sorted": lambda: Vit(plain_blocks, between=sort_patches),
    "two swapped": lambda: Vit(plain_blocks, between=swap_two),
    "patches backwards": lambda: Vit(plain_blocks, between=lambda x: torch.cat([x[:, :1], x[:, 1:].flip(1)], 1)),
    "rolled": lambda: Vit(plain_blocks, between=lambda x: torch.cat([x[:, :1], x[:, 1:].roll(4, 1)], 1)),
    "flipped in a block": lambda: Vit(lambda: [FlippingBlock(lambda: Attention(of_module)), FlippingBlock(lambda: Attention(of_module))]),
    "without attention": lambda: Vit(
        lambda: [Block(lambda: Attention(with_sigmoid)), Block(lambda: Attention(with_sigmoid))], between=swap_two
    ),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_what_reads_later_blocks_is_refused_where_tokens_change_places(name: str) -> None:
    vit = built(BETWEEN[name])
    x = pixels()
    for spec in ("gradcam_plus", "fullgrad_plus:libra", "fullgrad", "hirescam", "xgradcam_plus"):
        with pytest.raises(ExplainerError, match="change places"):
            scores(vit, x, 1, spec)
    for spec in ("rollout", "raw_attention", "attcat"):
        with pytest.raises(ExplainerError, match=r"change places|attention"):
            scores(vit, x, 1, spec)
    seen: list[Tensor] = []

    def note(module: nn.Module, args: Any) -> None:
        args[0].retain_grad()
        seen.append(args[0])

    assert isinstance(vit, Vit)
    handle = vit.blocks[0].register_forward_pre_hook(note)
    vit(x)[0, 1].backward()
    handle.remove()
    assert seen[0].grad is not None
    torch.testing.assert_close(scores(vit, x, 1, "input_x_gradient")[0], (seen[0] * seen[0].grad)[0].sum(-1).detach(), rtol=1e-5, atol=1e-6)


SERPENTINE = torch.tensor([0, 1, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11, 15, 14, 13, 12])
SWAPPED = torch.tensor([0, 1, 2, 3, 4, 10, 6, 7, 8, 9, 5, 11, 12, 13, 14, 15])
EMBEDDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "column by column": lambda x: x.mT.flatten(2).mT,
    "upside down": lambda x: x.flip(2).flatten(2).mT,
    "right to left": lambda x: x.flip(3).flatten(2).mT,
    "serpentine": lambda x: x.flatten(2).mT[:, SERPENTINE],
    "two swapped": lambda x: x.flatten(2).mT[:, SWAPPED],
    "rolled": lambda x: x.roll(1, 3).flatten(2).mT,
    "in groups of 2 x 2": lambda x: x.unflatten(3, (2, 2)).unflatten(2, (2, 2)).permute(0, 2, 4, 3, 5, 1).flatten(1, 4),
    "the first nine of sixteen": lambda x: x.flatten(2).mT[:, :9],
    "nine of sixteen, picked": lambda x: x.flatten(2).mT[:, [0, 2, 3, 5, 6, 9, 11, 12, 15]],
    "nine of sixteen by size": lambda x: (y := x.flatten(2).mT).gather(
        1, y.norm(dim=-1).topk(9).indices[..., None].expand(-1, -1, y.shape[-1])
    ),
}


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_patches_out_of_order_are_refused(name: str) -> None:
    with pytest.raises(ExplainerError, match="order"):
        explainers.wrap(built(lambda: Vit(plain_blocks, EMBEDDINGS[name])), kind="image", preprocess=PREPROCESS)


def by_size(y: Tensor, count: int, in_order: bool = False) -> Tensor:
    kept = y.norm(dim=-1).topk(count).indices
    return y.gather(1, (kept.sort(1).values if in_order else kept)[..., None].expand(-1, -1, y.shape[-1]))


PRUNED: dict[str, tuple[Callable[[Tensor], Tensor], int | None]] = {
    "nine by size": (lambda y: by_size(y, 9), 1),
    "nine in their order": (lambda y: by_size(y, 9, in_order=True), 1),
    "the first nine": (lambda y: y[:, :9], 1),
    "merged": (lambda y: torch.cat([y[:, :2], (y[:, 2:9] + y[:, 9:16]) / 2], 1), 1),
    "fifteen and a class token": (lambda y: by_size(y, 15), None),
}


@pytest.mark.parametrize("name", PRUNED)
def test_patches_that_are_dropped_or_merged_behind_a_block_are_refused(name: str) -> None:
    pick, prefix = PRUNED[name]
    vit = built(lambda: Vit(lambda: [*plain_blocks(), *plain_blocks()], between=lambda x: torch.cat([x[:, :1], pick(x[:, 1:])], 1)))
    with pytest.raises(ExplainerError, match="order"):
        explainers.wrap(vit, kind="image", preprocess=PREPROCESS, prefix=prefix)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_patches_in_order_are_taken_in_short_types(dtype: torch.dtype) -> None:
    vit = built(lambda: Vit(plain_blocks)).to(dtype)
    assert explainers.wrap(vit, kind="image", preprocess=PREPROCESS).details["grid"] == (4, 4)
    with pytest.raises(ExplainerError, match="order"):
        explainers.wrap(built(lambda: Vit(plain_blocks, EMBEDDINGS["two swapped"])).to(dtype), kind="image", preprocess=PREPROCESS)


class Reader(nn.Module):
    """A text classifier that puts its tokens into an order of its own."""

    def __init__(self, order: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.order, self.words, self.pos = order, nn.Embedding(40, WIDTH), nn.Parameter(torch.randn(1, 40, WIDTH))
        self.blocks, self.head = nn.ModuleList(plain_blocks()), nn.Linear(WIDTH, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.order(self.words(input_ids) + self.pos[:, : input_ids.shape[1]], attention_mask)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


def padding_first(x: Tensor, mask: Tensor) -> Tensor:
    order = mask.argsort(dim=1, stable=True)
    return x.gather(1, order[..., None].expand_as(x))


READERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "backwards": lambda x, mask: x.flip(1),
    "rolled": lambda x, mask: x.roll(1, 1),
    "a token of its own in front": lambda x, mask: torch.cat([torch.ones_like(x[:, :1]), x], 1),
    "padding first": padding_first,
    "two swapped": lambda x, mask: x[:, [0, 2, 1, *range(3, x.shape[1])]],
}


@pytest.mark.parametrize("name", READERS)
def test_texts_out_of_order_are_refused(name: str) -> None:
    with pytest.raises(ExplainerError, match="which word a score belongs to"):
        explainers.wrap(built(lambda: Reader(READERS[name])), kind="text")


def test_a_token_of_its_own_behind_the_text_is_taken() -> None:
    model = explainers.wrap(built(lambda: Reader(lambda x, mask: torch.cat([x, torch.ones_like(x[:, :1])], 1))), kind="text")
    assert model.kind == "text"
