"""Attention weights that the model changes between their softmax and the values, that several heads share, or that are made head by head
or part by part: each form against what a second writing of it keeps of the weights that meet the values, in float64.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import explainers
from explainers.autograd.attention_trial import attention_plan_of
from explainers.autograd.recording import Recording
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import (
    HEADS,
    PREPROCESS,
    TOKENS,
    Attention,
    Block,
    Form,
    Kept,
    keep,
    pixels,
    scores,
    softmax_of,
    twin_of,
)

MIX = torch.tensor([[0.7, -0.4], [0.3, 1.1]], dtype=torch.float64)


def mixed(weights: Tensor) -> Tensor:
    return torch.einsum("gh,bhij->bgij", MIX, weights)


def gate(module: Attention, x: Tensor) -> Tensor:
    return module.more(x)[..., :HEADS].sigmoid().mT[:, :, None]


#: What is done to weights (B, H, S, S) before they meet values; ``x`` is what attention is given.
CHANGES: dict[str, tuple[Any, Any]] = {
    "heads mixed by a layer": (
        lambda m, a, x: m.mix(a.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
        lambda m, a, x: torch.einsum("gh,bhij->bgij", m.mix.weight, a) + m.mix.bias[:, None, None],
    ),
    "heads mixed by a convolution": (
        lambda m, a, x: torch.conv2d(a, MIX[..., None, None], MIX[0]),
        lambda m, a, x: mixed(a) + MIX[0, :, None, None],
    ),
    "heads mixed by einsum": (lambda m, a, x: torch.einsum("bhij,gh->bgij", a, MIX), lambda m, a, x: mixed(a)),
    "heads mixed by a product": (lambda m, a, x: (MIX @ a.flatten(2)).view_as(a), lambda m, a, x: mixed(a)),
    "heads mixed one by one": (
        lambda m, a, x: torch.stack([MIX[i, 0] * a[:, 0] + MIX[i, 1] * a[:, 1] for i in range(HEADS)], 1),
        lambda m, a, x: mixed(a),
    ),
    "heads scaled": (lambda m, a, x: a * MIX[0, :, None, None], lambda m, a, x: a * MIX[0, :, None, None]),
    "a constant taken": (lambda m, a, x: a - 1 / TOKENS, lambda m, a, x: a - 1 / TOKENS),
    "heads gated by the tokens": (lambda m, a, x: a * gate(m, x), lambda m, a, x: a * gate(m, x)),
    "gated, over their sum": (
        lambda m, a, x: (g := a * gate(m, x)) / g.sum(-1, keepdim=True),
        lambda m, a, x: (a * gate(m, x)) / (a * gate(m, x)).sum(-1, keepdim=True),
    ),
    "squared": (lambda m, a, x: a**2, lambda m, a, x: a * a),
    "small ones dropped": (lambda m, a, x: torch.where(a < 0.05, 0.0, a), lambda m, a, x: a * (a >= 0.05)),
    "the first head for all": (lambda m, a, x: a[:, :1], lambda m, a, x: a[:, :1]),
    "the largest of the heads": (lambda m, a, x: a.amax(1, keepdim=True), lambda m, a, x: torch.maximum(a[:, :1], a[:, 1:])),
    "the mean of the heads": (lambda m, a, x: a.mean(1, keepdim=True), lambda m, a, x: (a[:, :1] + a[:, 1:]) / 2),
    "heads exchanged": (lambda m, a, x: a.flip(1), lambda m, a, x: torch.stack([a[:, 1], a[:, 0]], 1)),
}


def changed(name: str) -> Form:
    ours, theirs = CHANGES[name]

    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        out: Tensor = ours(module, softmax_of(q, k), x) @ v
        return out

    def twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
        return keep(kept, theirs(module, softmax_of(q, k), x)) @ v

    return Form(form, twin)


def sharpened(weights: Tensor) -> Tensor:
    return weights**2 / (weights**2).sum(-1, keepdim=True)


#: Weights that meet values in two products: what is made of a softmax for the second, whose results are added.
SECOND_OF_TWO: dict[str, Any] = {
    "and again, by half": lambda a: 0.5 * a,
    "and its transpose": lambda a: 0.5 * a.mT,
    "less the tokens moved by one": lambda a: -0.5 * a.roll(1, -1),
    "and itself sharpened": sharpened,
    "and heads exchanged": lambda a: 0.5 * a.flip(1),
}


def in_two_products(name: str) -> Form:
    second = SECOND_OF_TWO[name]

    def form(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        weights = softmax_of(q, k)
        out: Tensor = weights @ v + second(weights) @ v
        return out

    def twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
        weights = softmax_of(q, k)
        return keep(kept, weights + second(weights)) @ v

    return Form(form, twin)


def half_of_a_result_again(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k)
    return weights @ v + 0.5 * (weights @ v)


def half_of_a_result_again_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    return keep(kept, 1.5 * softmax_of(q, k)) @ v


FIRST_TOKENS = (torch.arange(TOKENS) < 5).double()


def moved_for_the_last_tokens(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k)
    return weights @ (v * FIRST_TOKENS[:, None]) + weights.roll(1, -2) @ (v * (1 - FIRST_TOKENS)[:, None])


def moved_for_the_last_tokens_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    weights = softmax_of(q, k)
    return keep(kept, FIRST_TOKENS * weights + (1 - FIRST_TOKENS) * weights.roll(1, -2)) @ v


def copied_for_half_of_the_channels(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights, half = softmax_of(q, k), v.shape[-1] // 2
    return torch.cat([weights @ v[..., :half], (2 * weights / 2) @ v[..., half:]], -1)


def one_query_head(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q[:, :1], k[:, :1]) @ v


def one_query_head_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    return keep(kept, softmax_of(q[:, :1], k[:, :1])) @ v


def one_value_head(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ v[:, :1]


def one_value_head_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    return keep(kept, softmax_of(q, k)) @ v[:, :1]


def first_shared_difference(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k)
    return weights[:, :1] @ v - 0.5 * (weights[:, 1:] @ v)


def first_shared_difference_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    weights = softmax_of(q, k)
    return keep(kept, weights[:, :1] - 0.5 * weights[:, 1:]) @ v


def head_by_head_without_their_dimension(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.stack([softmax_of(q[:, i], k[:, i]) @ v[:, i] for i in range(HEADS)], 1)


def class_token_apart(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    patches = softmax_of(q[:, :, 1:], k) @ v
    return torch.cat([softmax_of(q[:, :, :1], k) @ v, patches], 2)


def heads_in_front_of_samples(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (t.transpose(0, 1).flatten(0, 1) for t in (q, k, v))
    return torch.bmm(softmax_of(q, k), v).unflatten(0, (HEADS, -1)).transpose(0, 1)


def keys_in_front(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    weights = torch.einsum("zanb,zmnb->zmna", q / q.shape[-1] ** 0.5, k).softmax(1)
    return torch.einsum("zmna,zmnb->zanb", weights, v).transpose(1, 2)


def chunks_of_queries_and_of_heads(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    pieces = [torch.cat([softmax_of(part[:, [i]], k[:, [i]]) @ v[:, [i]] for i in range(HEADS)], 1) for part in q.split(6, 2)]
    return torch.cat(pieces, 2)


def chunks_of_heads_and_of_queries(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    pieces = [torch.cat([softmax_of(part, k[:, i]) @ v[:, i] for part in q[:, i].split(6, 1)], 1) for i in range(HEADS)]
    return torch.stack(pieces, 1)


def chunks_of_heads_that_share_values(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return chunks_of_queries_and_of_heads(module, q, k, v[:, :1].expand_as(v), x)


def real_and_imaginary_parts_apart(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    values, weights = torch.view_as_complex(v.unflatten(-1, (-1, 2)).contiguous()), softmax_of(q, k)
    return torch.stack([weights @ values.real, weights @ values.imag], -1).flatten(-2)


def with_a_key_of_its_own(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    k, v = (torch.cat([torch.full_like(t[:, :, :1], 0.3), t], 2) for t in (k, v))
    return softmax_of(q, k) @ v


def with_a_key_of_its_own_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    own = torch.full_like(k[:, :, :1], 0.3)
    weights = softmax_of(q, torch.cat([own, k], 2))
    return weights[..., :1] @ own + keep(kept, weights[..., 1:]) @ v


def by_log_softmax(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).log_softmax(-1).exp() @ v


def written_out(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    return weights / weights.sum(-1, keepdim=True) @ v


def written_in_place(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = q @ k.mT / q.shape[-1] ** 0.5
    weights.sub_(weights.amax(-1, keepdim=True)).exp_()
    weights /= weights.sum(-1, keepdim=True)
    return weights @ v


def keys_in_front_written_out(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    scores = k @ q.mT / q.shape[-1] ** 0.5
    weights = (scores - scores.max(-2, keepdim=True).values).exp()
    return (v.mT @ (weights / weights.sum(-2)[..., None, :])).mT


def one_beside_the_sum(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    return weights / (1 + weights.sum(-1, keepdim=True)) @ v


def one_beside_the_sum_twin(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor, kept: Kept) -> Tensor:
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return keep(kept, torch.cat([scores, torch.zeros_like(scores[..., :1])], -1).softmax(-1)[..., :-1]) @ v


FORMS: dict[str, Form] = {
    **{name: changed(name) for name in CHANGES},
    **{name: in_two_products(name) for name in SECOND_OF_TWO},
    "and half of what it gives": Form(half_of_a_result_again, half_of_a_result_again_twin),
    "moved for the last tokens": Form(moved_for_the_last_tokens, moved_for_the_last_tokens_twin),
    "copied for half of the channels": Form(copied_for_half_of_the_channels),
    "one head of queries": Form(one_query_head, one_query_head_twin),
    "one head of values": Form(one_value_head, one_value_head_twin),
    "difference of weights that heads share": Form(first_shared_difference, first_shared_difference_twin),
    "head by head": Form(head_by_head_without_their_dimension),
    "class token apart": Form(class_token_apart),
    "heads in front of samples": Form(heads_in_front_of_samples),
    "keys in front": Form(keys_in_front),
    "chunks of queries, heads in each": Form(chunks_of_queries_and_of_heads),
    "chunks of queries in each head": Form(chunks_of_heads_and_of_queries),
    "chunks of queries, heads in each, with values that they share": Form(chunks_of_heads_that_share_values, one_value_head_twin),
    "real and imaginary parts of values apart": Form(real_and_imaginary_parts_apart),
    "with a key of its own": Form(with_a_key_of_its_own, with_a_key_of_its_own_twin),
    "by log-softmax": Form(by_log_softmax),
    "exponentials over their sum": Form(written_out),
    "exponentials over their sum, in place": Form(written_in_place),
    "exponentials over their sum, keys in front": Form(keys_in_front_written_out),
    "exponentials over their sum and one": Form(one_beside_the_sum, one_beside_the_sum_twin),
}


@pytest.mark.parametrize("name", FORMS)
def test_maps_are_the_weights_that_meet_values(name: str) -> None:
    form, x, target = FORMS[name], pixels(), 1
    vit = form.vit()
    logits, maps, gradients = twin_of(form, vit, x, target)
    with torch.no_grad():
        torch.testing.assert_close(vit(x), logits, rtol=1e-10, atol=1e-10)  # the twin computes the same
    rollout = generic = torch.eye(TOKENS, dtype=torch.float64)[None]
    for weights, gradient in zip(maps, gradients, strict=True):
        rollout = 0.5 * rollout + 0.5 * weights.mean(1) @ rollout
        generic = generic + (weights * gradient).clamp(min=0).mean(1) @ generic
    expected = [maps[-1].mean(1)[0, 0], rollout[0, 0], generic[0, 0]]
    given = scores(vit, x, target, "raw_attention", "rollout", "generic_attention")
    for ours, theirs in zip(given, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


#: Weights that one product multiplies with values, and as several products that are added.
ONE_PRODUCT_OF_SEVERAL: dict[str, tuple[Any, Any]] = {
    **{
        name: (lambda m, q, k, v, x, second=second: ((a := softmax_of(q, k)) + second(a)) @ v, in_two_products(name).form)
        for name, second in SECOND_OF_TWO.items()
    },
    "less the queries moved by one": (
        lambda m, q, k, v, x: ((a := softmax_of(q, k)) - a.roll(1, -2)) @ v,
        lambda m, q, k, v, x: (a := softmax_of(q, k)) @ v - a.roll(1, -2) @ v,
    ),
    "less another softmax": (
        lambda m, q, k, v, x: (softmax_of(q, k) - 0.8 * softmax_of(k, q)) @ v,
        lambda m, q, k, v, x: softmax_of(q, k) @ v - 0.8 * (softmax_of(k, q) @ v),
    ),
    "the key of the class token apart": (
        lambda m, q, k, v, x: softmax_of(q, k) @ v,
        lambda m, q, k, v, x: (a := softmax_of(q, k))[..., :1] @ v[:, :, :1] + a[..., 1:] @ v[:, :, 1:],
    ),
}


@pytest.mark.parametrize("name", ONE_PRODUCT_OF_SEVERAL)
def test_relevance_is_that_of_one_product_where_several_are_added(name: str) -> None:
    specs = [
        "transformer_attribution",
        "transformer_attribution:lrp",
        "transformer_attribution_last_block",
        "transformer_attribution_without_gradient",
        "partial_lrp",
    ]
    vits = [Form(form, blocks=lambda a: [Block(a) for _ in range(4)]).vit() for form in ONE_PRODUCT_OF_SEVERAL[name]]
    for parameter in (parameter for vit in vits for parameter in vit.parameters()):
        parameter.data *= 1.8  # so that relevance of both signs comes to attention
    for ours, theirs in zip(*(scores(vit, pixels(), 1, *specs) for vit in vits), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * float(theirs.abs().max()))


@pytest.mark.parametrize("name", FORMS)
def test_batches_are_read_sample_by_sample(name: str) -> None:
    vit, x = FORMS[name].vit(), pixels(2)
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    together = Recording(model, {"pixel_values": x}).attentions
    for sample in range(2):
        alone = Recording(model, {"pixel_values": x[sample : sample + 1]}).attentions
        for ours, theirs in zip(together, alone, strict=True):
            assert ours is not None
            assert theirs is not None
            torch.testing.assert_close(ours[sample], theirs[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", FORMS)
def test_every_method_runs_or_says_why_not(name: str) -> None:
    model = explainers.wrap(FORMS[name].vit(), kind="image", preprocess=PREPROCESS)
    for variant in explainers.variants(model):
        if variant.reason is None and variant.default:
            found = explainers.explain(model, {"pixel_values": pixels()}, 1, [variant.spec])
            assert bool(found[variant.spec].scores.isfinite().all()), variant.spec


def test_mixed_heads_cost_no_search_in_every_pass() -> None:
    for name in ("heads mixed by a layer", "heads mixed by a convolution", "heads scaled", "a constant taken", "one head of queries"):
        model = explainers.wrap(FORMS[name].vit(), kind="image", preprocess=PREPROCESS)
        plan = attention_plan_of(model, Recording(model, {"pixel_values": pixels()}), Recording)
        assert all(block.is_usual for block in plan.blocks), name


# --- what is refused, and its reason ------------------------------------------------------------------------------------------------------


def twice(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k)
    return (weights @ weights) @ v


def again(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k)
    return weights @ (weights @ v)


def by_sigmoid(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (q @ k.mT).sigmoid() @ v


def late(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    return (weights @ v) / weights.sum(-1, keepdim=True)


def linear(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def over_channels(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return ((q.mT @ k).softmax(-1) @ v.mT).mT


def one_by_one(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.stack([torch.stack([softmax_of(q[b, h], k[b, h]) @ v[b, h] for h in range(HEADS)]) for b in range(len(q))])


def other_order_in_each_head(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    order = k.norm(dim=-1).argsort(-1)[..., None].expand_as(k)
    return softmax_of(q, k.gather(2, order)) @ v.gather(2, order)


def fewer_keys(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    k, v = (each[:, :, 1:].unflatten(2, (8, 2)).mean(3) for each in (k, v))
    return softmax_of(q, k) @ v


def test_attention_of_each_sample_and_head_alone_is_read_of_one_input() -> None:
    vit, plain = Form(one_by_one).vit(), Form().vit()
    for spec in ("rollout", "raw_attention", "generic_attention", "attcat", "transformer_attribution"):
        torch.testing.assert_close(*(scores(each, pixels(), 1, spec)[0] for each in (vit, plain)), rtol=1e-4, atol=1e-7)
    with pytest.raises(ExplainerError, match="one input is explained at a time"):
        scores(vit, pixels(2), 1, "rollout")


def chunks_of_their_own_values(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    pieces = [
        torch.cat([softmax_of(part[:, [i]], k[:, [i]]) @ (times * v[:, [i]]) for i in range(HEADS)], 1)
        for times, part in enumerate(q.split(9, 2), 1)
    ]
    return torch.cat(pieces, 2)


def complex_values(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    values = torch.view_as_complex(v.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(softmax_of(q, k).to(values.dtype) @ values).flatten(-2)


def complex_throughout(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (torch.view_as_complex(each.unflatten(-1, (-1, 2)).contiguous()) for each in (q, k, v))
    scores = q @ k.mH
    return torch.view_as_real(torch.polar(scores.abs().softmax(-1), scores.angle()) @ v).flatten(-2)


REFUSED: dict[str, tuple[Any, str]] = {
    "weights times weights": (twice, "multiplied with others before they meet values"),
    "weights on what weights gave": (again, "goes into another without a residual"),
    "sigmoid": (by_sigmoid, "no softmax runs in them"),
    "exponentials whose sum divides what they gave": (late, "no softmax runs in them"),
    "linear attention by two softmaxes": (linear, "goes into another without a residual"),
    "over channels": (over_channels, "over channels"),
    "chunks of queries and of heads, with other values each": (chunks_of_their_own_values, "which chunks are of one head is not known"),
    "complex values": (complex_values, "complex numbers: real weights can be read"),
    "complex weights and values": (complex_throughout, "complex numbers: real weights can be read"),
    "a key of two tokens each": (fewer_keys, "each key of their attention is made of several tokens"),
    "keys of each head in another order": (other_order_in_each_head, "not the same tokens in the same order for all heads"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_the_model_does_and_what_runs(name: str) -> None:
    form, reason = REFUSED[name]
    vit = Form(form).vit()
    with pytest.raises(ExplainerError, match=f"{reason}.*What reads none runs: input_x_gradient"):
        scores(vit, pixels(), 1, "rollout")
    ran = scores(vit, pixels(), 1, "input_x_gradient", "input_x_gradient:libra", "fullgrad_plus")
    assert all(bool(each.any()) for each in ran)
