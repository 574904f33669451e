"""Models that compute what a plain Transformer does, written in another way: their maps are the same, or refused with the true reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import explainers
from explainers.errors import ExplainerError
from tests.explainers.support.attention_forms import (
    HEADS,
    PREPROCESS,
    TOKENS,
    WIDTH,
    Attention,
    Block,
    Mlp,
    Twice,
    Vit,
    built,
    of_module,
    pixels,
    plain_blocks,
    scores,
    softmax_of,
)

INSIDE_BLOCKS = ("token_tm", "globenc", "alti")


def vit_of(form: Any) -> nn.Module:
    return built(lambda: Vit(lambda: [Block(lambda: Attention(form)) for _ in range(2)]))


def with_samples(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    return torch.bmm(softmax_of(q, k), v).unflatten(0, (-1, HEADS))


def in_chunks(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.cat([softmax_of(part, k) @ v for part in q.split(5, 2)], 2)


def in_chunks_of_queries_and_heads(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    chunks = [[softmax_of(part[:, [i]], k[:, [i]]) @ v[:, [i]] for i in range(HEADS)] for part in q.split(5, 2)]
    return torch.cat([torch.cat(heads, 1) for heads in chunks], 2)


def head_by_head(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    heads = [softmax_of(q[:, [i]], k[:, [i]]) @ module.heads(module.qkv(x), 3)[2][:, [i]] for i in range(HEADS)]
    return torch.cat(heads, 1)  # the values of a head are computed after the first head has attended


def class_token_apart(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k)
    return weights[..., :1] @ v[:, :, :1] + 2 * (weights[..., 1:] / 2 @ v[:, :, 1:])


def flat_weights(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return torch.bmm(softmax_of(q, k).flatten(0, 1), v.flatten(0, 1)).view_as(v)


def flat_weights_and_zeros(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights, values = softmax_of(q, k).flatten(0, 1), v.flatten(0, 1)
    return torch.baddbmm(torch.zeros_like(values), weights, values).unflatten(0, (-1, HEADS))


@pytest.mark.parametrize("form", [class_token_apart, flat_weights, flat_weights_and_zeros])
def test_weights_that_are_split_between_tokens_or_flattened_are_one_map(form: Any) -> None:
    specs = ("raw_attention", "rollout", "generic_attention", "attcat", "legrad", "gradcam_attention", *INSIDE_BLOCKS)
    found, expected = (scores(vit_of(each), pixels(), 1, *specs) for each in (form, of_module))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("form", [with_samples, in_chunks, in_chunks_of_queries_and_heads, head_by_head])
def test_what_reads_the_stream_after_attention_finds_it_in_every_form(form: Any) -> None:
    for found, expected in zip(
        scores(vit_of(form), pixels(), 1, *INSIDE_BLOCKS), scores(vit_of(of_module), pixels(), 1, *INSIDE_BLOCKS), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


#: Tokens behind the class token in another order inside attention.
SHUFFLED = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(TOKENS - 1, generator=torch.Generator().manual_seed(3))])


def shuffled_queries(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    out = torch.zeros_like(q)
    out[:, :, SHUFFLED] = softmax_of(q[:, :, SHUFFLED], k) @ v
    return out


def shuffled_keys(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k[:, :, SHUFFLED]) @ v[:, :, SHUFFLED]


def heads_added(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    out, weights = torch.zeros_like(q), softmax_of(q, k)
    for i in range(HEADS):
        out = out.index_add(1, torch.tensor([i]), weights[:, [i]] @ v[:, [i]])
    return out


@pytest.mark.parametrize("form", [in_chunks, in_chunks_of_queries_and_heads, head_by_head, heads_added, shuffled_queries, shuffled_keys])
def test_the_projection_of_attention_is_that_however_its_output_is_put_together(form: Any) -> None:
    """Rules of gamma have none there."""
    specs = ("pa_lrp", "input_x_gradient:pa-lrp", "input_x_gradient:cp-lrp-gamma")
    found, expected = (scores(vit_of(each), pixels(), 1, *specs) for each in (form, of_module))
    for spec, one, other in zip(specs, found, expected, strict=True):
        assert float((one - other).abs().max()) < 1e-5 * float(other.abs().max()), spec


def heads_in_two_axes(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    q, k, v = (each[:, :, None] for each in (q, k, v))
    return torch.einsum("bgrji,bgrjc->bgric", torch.einsum("bgric,bgrjc->bgrji", q, k).softmax(-2), v)[:, :, 0]


def keys_before_queries(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (v.mT @ (k @ q.mT / q.shape[-1] ** 0.5).softmax(-2)).mT


def squared(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k).square()
    return weights / weights.sum(-1, keepdim=True) @ v


def difference(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    more = module.heads(module.more(x), 2)
    return (softmax_of(q, k) - 0.3 * softmax_of(more[0], more[1])) @ v


def narrow(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q[..., : q.shape[-1] // 2], k[..., : k.shape[-1] // 2]) @ v


def in_float32(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q.float(), k.float()).to(v) @ v


def test_grad_eclip_of_queries_and_keys_in_another_type_than_the_projection() -> None:
    (found,), (expected,) = (scores(vit_of(form), pixels(), 1, "grad_eclip") for form in (in_float32, of_module))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def shared_keys(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k[:, :1]) @ v[:, :1]


def repeated_keys(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k[:, :1].repeat(1, HEADS, 1, 1)) @ v[:, :1].repeat(1, HEADS, 1, 1)


def heads_last(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = torch.einsum("bhqd,bhkd->bqkh", q, k / q.shape[-1] ** 0.5).softmax(2)
    return torch.einsum("bqkh,bhkd->bhqd", weights, v)


def in_two_hops(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    weights = softmax_of(q, k)
    return weights @ (weights @ v)


def with_a_softmax_of_channels(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return ((q[:, :, :, None] * k[:, :, None]).softmax(3) * v[:, :, None]).sum(3)


@pytest.mark.parametrize(
    ("form", "reason"), [(in_two_hops, "goes into another without a residual"), (with_a_softmax_of_channels, "no softmax in them")]
)
def test_norm_cams_say_why_what_attention_takes_is_not_known(form: Any, reason: str) -> None:
    with pytest.raises(ExplainerError, match=rf"without an attention map over all its tokens \(.*{reason}.* is not known\. What reads"):
        scores(vit_of(form), pixels(), 1, "pytorch_grad_cam")


def test_grad_eclip_of_heads_that_share_keys_and_values() -> None:
    """By its formula, on the model's own tensors."""
    (found,), (repeated,) = (scores(vit_of(form), pixels(), 1, "grad_eclip") for form in (shared_keys, repeated_keys))
    vit = vit_of(shared_keys)
    kept: list[Tensor] = []

    def attend(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
        kept[:] = [q, k[:, :1], v[:, :1], shared_keys(module, q, k, v, x)]
        kept[-1].retain_grad()
        return kept[-1]

    last = vit.blocks[-1].attn  # type: ignore[union-attr,index]
    last.form = attend
    vit(pixels())[0, 1].backward()
    query, key, value, output = kept
    assert output.grad is not None
    query, key = (last.proj(each.expand_as(output).transpose(1, 2).flatten(2))[0] for each in (query, key))
    likeness = F.cosine_similarity(query[:1], key[1:], dim=-1)
    likeness = (likeness - likeness.min()) / (likeness.max() - likeness.min())
    expected = (likeness * (output.grad[0, :, :1] * value[0, :, 1:]).sum((0, 2))).clamp(min=0).detach()
    torch.testing.assert_close(found[1:], expected, rtol=1e-5, atol=1e-8)
    torch.testing.assert_close(repeated, found, rtol=1e-5, atol=1e-8)


def by_bmm(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    joined = [each.flatten(0, 1) for each in (q / q.shape[-1] ** 0.5, k, v)]
    return torch.bmm(torch.bmm(joined[0], joined[1].mT).softmax(-1), joined[2]).view(q.shape)


def by_bmm_and_views(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    samples, heads, tokens, _ = q.shape
    joined = [each.flatten(0, 1) for each in (q / q.shape[-1] ** 0.5, k, v)]
    weights = torch.bmm(joined[0], joined[1].mT).view(samples, heads, tokens, tokens).softmax(-1)
    return torch.bmm(weights.view(-1, tokens, tokens), joined[2]).view(q.shape)


@pytest.mark.parametrize("form", [by_bmm, by_bmm_and_views])
def test_what_reads_maps_has_the_same_digits_where_samples_and_heads_lie_along_one_axis(form: Any) -> None:
    for spec in ("rollout", "generic_attention", "transformer_attribution", "partial_lrp"):
        found, expected = (scores(vit_of(each), pixels(), 1, spec) for each in (form, of_module))
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (shuffled_queries, "queries or keys that are not its tokens in their order"),
        (shuffled_keys, "queries or keys that are not its tokens in their order"),
        (class_token_apart, "several products of weights and values"),
        (in_chunks, "several products of weights and values"),
        (head_by_head, "several products of weights and values"),
        (keys_before_queries, "transposed weights, with keys before queries"),
        (heads_in_two_axes, "other axes than"),
        (heads_last, "other axes than"),
        (by_bmm, "in three axes, with samples and heads along one, as torch.bmm takes them"),
        (by_bmm_and_views, "in three axes, with samples and heads along one, as torch.bmm takes them"),
        (squared, "one softmax that meets values as it is"),
        (difference, "several softmaxes, each of queries and keys of its own"),
        (narrow, "queries and keys of another width than its values"),
    ],
)
def test_queries_and_keys_that_cannot_be_read_are_refused_with_the_true_reason(form: Any, reason: str) -> None:
    with pytest.raises(ExplainerError, match=reason):
        scores(vit_of(form), pixels(), 1, "grad_eclip")


@pytest.mark.parametrize(("how", "reason"), [("parallel", "several products"), ("one after the other", "attends several times")])
def test_grad_eclip_refuses_a_block_of_two_attentions_with_the_true_reason(how: str, reason: str) -> None:
    vit = built(lambda: Vit(lambda: [Twice(lambda: Attention(of_module), how), Twice(lambda: Attention(of_module), how)]))
    with pytest.raises(ExplainerError, match=reason):
        scores(vit, pixels(), 1, "grad_eclip")


class Macaron(Block):
    """A block with another MLP before its attention, which here adds next to nothing."""

    def __init__(self) -> None:
        super().__init__(lambda: Attention(of_module))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + 1e-9 * self.mlp(self.n2(x)))


def test_an_mlp_before_attention_is_not_taken_for_it() -> None:
    found = scores(built(lambda: Vit(lambda: [Macaron(), Macaron()])), pixels(), 1, *INSIDE_BLOCKS)
    for one, expected in zip(found, scores(vit_of(of_module), pixels(), 1, *INSIDE_BLOCKS), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-6)


class Together(Block):
    """A block whose attention and MLP are added to each other before they are added to the stream."""

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.attn(self.n1(x)) + self.mlp(self.n2(x)))


def test_the_stream_after_attention_leaves_out_an_mlp_that_is_added_in_the_same_sum() -> None:
    vit = built(lambda: Vit(lambda: [Together(lambda: Attention(of_module)) for _ in range(2)]))
    recording = explainers.Session(explainers.wrap(vit, kind="image", preprocess=PREPROCESS), {"pixel_values": pixels()}, 1).recording
    with torch.no_grad():
        for block, x, found in zip(vit.blocks, recording.block_inputs, recording.mid_residuals, strict=True):  # type: ignore[arg-type]
            assert found is not None
            torch.testing.assert_close(found, x + block.attn(block.n1(x)), rtol=1e-12, atol=1e-12)


class AddedInParts(Block):
    """A block that adds attention to the class token and to the patches one after the other, or to flattened rows."""

    def __init__(self, is_flat: bool) -> None:
        super().__init__(lambda: Attention(of_module))
        self.is_flat = is_flat

    def forward(self, x: Tensor) -> Tensor:
        given = self.attn(self.n1(x))
        if self.is_flat:
            x = (x.flatten(0, 1) + given.flatten(0, 1)).view_as(x)
        else:
            x = x.clone()
            x[:, 1:] += given[:, 1:]
            x[:, :1] += given[:, :1]
        return x + self.mlp(self.n2(x))


@pytest.mark.parametrize("is_flat", [False, True])
def test_what_reads_the_stream_after_attention_is_refused_where_it_is_no_single_tensor(is_flat: bool) -> None:
    vit = built(lambda: Vit(lambda: [AddedInParts(is_flat), AddedInParts(is_flat)]))
    for spec in INSIDE_BLOCKS:
        with pytest.raises(ExplainerError, match="do not add attention to a residual stream by a sum, all tokens at once"):
            scores(vit, pixels(), 1, spec)
    specs = ("rollout", "legrad", "fullgrad_plus", "input_x_gradient:libra", "transformer_attribution")
    for found, expected in zip(scores(vit, pixels(), 1, *specs), scores(vit_of(of_module), pixels(), 1, *specs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


class FlippedInside(Block):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flip(1)).flip(1)


class FlippedAttention(Attention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flip(1)).flip(1)


class FlippedMlp(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flip(1)).flip(1)


class FlippedBetweenLayers(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        return self.b(F.gelu(self.a(x)).flip(1)).flip(1)


@pytest.mark.parametrize(
    "block",
    [
        lambda: FlippedInside(lambda: Attention(of_module)),
        lambda: Block(lambda: FlippedAttention(of_module)),
        lambda: Block(lambda: Attention(of_module), FlippedMlp),
        lambda: Block(lambda: Attention(of_module), FlippedBetweenLayers),
    ],
)
def test_what_reads_tokens_inside_blocks_is_refused_where_they_lie_in_another_order(block: Callable[[], nn.Module]) -> None:
    vit, plain = built(lambda: Vit(lambda: [block(), block()])), vit_of(of_module)
    runs = (
        "raw_attention",
        "rollout",
        "transformer_attribution",
        "gradcam_plus",
        "input_x_gradient:libra",
        "fullgrad:libra",
        "fullgrad_plus",
    )
    for spec in runs:
        (found,), (expected,) = scores(vit, pixels(), 1, spec), scores(plain, pixels(), 1, spec)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    for spec in ("token_tm", "globenc", "alti"):
        with pytest.raises(ExplainerError, match="another order"):
            scores(vit, pixels(), 1, spec)


def test_vit_cx_reads_the_input_of_attention_where_weights_are_flattened() -> None:
    (found,), (expected,) = (scores(vit_of(form), pixels(), 1, "vit_cx?distance=0.4") for form in (flat_weights, of_module))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


class SharedKeys(nn.Module):
    """Attention whose heads share their keys and values; ``folded``: the queries of all heads are rows of one matrix."""

    def __init__(self, folded: str) -> None:
        super().__init__()
        self.q, self.kv, self.proj, self.folded = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), folded

    def forward(self, x: Tensor) -> Tensor:
        q, (k, v) = self.q(x).unflatten(-1, (HEADS, -1)), self.kv(x).chunk(2, -1)
        if self.folded == "tokens first":
            return self.proj((softmax_of(q.flatten(1, 2), k) @ v).reshape(x.shape))
        if self.folded == "heads first":
            given = softmax_of(q.transpose(1, 2).flatten(1, 2), k) @ v
            return self.proj(given.unflatten(1, (HEADS, -1)).transpose(1, 2).flatten(2))
        return self.proj((softmax_of(q.transpose(1, 2), k[:, None]) @ v[:, None]).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("folded", ["tokens first", "heads first"])
def test_heads_folded_into_the_queries_of_one_matrix(folded: str) -> None:
    specs = ("raw_attention", "rollout", "generic_attention", "attcat", "transformer_attribution", "legrad", "pytorch_grad_cam", "alti")
    one, other = (built(lambda how=how: Vit(lambda: [Block(lambda: SharedKeys(how)) for _ in range(2)])) for how in (folded, ""))
    for found, expected in zip(scores(one, pixels(), 1, *specs), scores(other, pixels(), 1, *specs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


class Pooling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(x.mT, 3, 1, 1).mT - x


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.randn(17, 17))

    def forward(self, x: Tensor) -> Tensor:
        return self.scores.softmax(-1) @ x


@pytest.mark.parametrize("mixer", [Pooling, Constant])
def test_a_mean_of_tokens_is_not_taken_for_another_order(mixer: Callable[[], nn.Module]) -> None:
    vit = built(lambda: Vit(lambda: [Block(mixer), Block(mixer)]))
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["fullgrad_plus:libra"])
    assert result.completeness("libra") < 1e-9
    with pytest.raises(ExplainerError, match="no softmax runs in them"):
        explainers.explain(model, {"pixel_values": pixels()}, 1, ["rollout"])


def element_wise(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (softmax_of(q, k)[..., None] * v[:, :, None]).sum(-2)


def values_of_several(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return softmax_of(q, k) @ F.avg_pool2d(v, (3, 1), 1, (1, 0))


@pytest.mark.parametrize(("form", "reason"), [(element_wise, "number by number"), (values_of_several, "made of several tokens each")])
def test_a_refusal_says_why_attention_is_not_read(form: Any, reason: str) -> None:
    with pytest.raises(ExplainerError, match=reason):
        scores(vit_of(form), pixels(), 1, "rollout")
    if form is element_wise:
        (found,), (expected,) = (scores(vit_of(each), pixels(), 1, "fullgrad_plus:libra") for each in (form, of_module))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


class Merging(Vit):
    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        x = self.blocks[0](torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos)
        x = torch.cat([x[:, :1], (x[:, 1::2] + x[:, 2::2]) / 2], 1)
        for block in self.blocks[1:]:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Middle(Vit):
    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        x = torch.cat([x[:, :8], self.cls.expand(len(x), -1, -1), x[:, 8:]], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 8])


@pytest.mark.parametrize(("vit", "reason"), [(Merging, "tokens are dropped or merged"), (Middle, "they lie among the patches")])
def test_a_refusal_says_which_tokens_are_no_grid(vit: type[Vit], reason: str) -> None:
    with pytest.raises(ExplainerError, match=reason):
        explainers.wrap(built(lambda: vit(lambda: [*plain_blocks(), *plain_blocks()])), kind="image", preprocess=PREPROCESS)


class Latents(nn.Module):
    """A model whose blocks take as many latents of its own as there are patches, which attend to the patches before (Perceiver)."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.latents = nn.Conv2d(3, WIDTH, 8, 8), nn.Parameter(torch.randn(1, 16, WIDTH))
        self.k, self.v = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.blocks, self.head = nn.ModuleList(plain_blocks()), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT
        x = self.latents + softmax_of(self.latents, self.k(x)) @ self.v(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def test_latents_are_not_drawn_as_patches() -> None:
    vit, x = built(Latents), pixels()
    for spec in ("input_x_gradient", "saliency", "fullgrad_plus:libra", "attcat", "hirescam"):
        with pytest.raises(ExplainerError, match="no patches of the picture"):
            scores(vit, x, 1, spec)
    (at_pixels,) = scores(vit, x, 1, "input_x_gradient?at=pixels")
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(vit(leaf)[0, 1], leaf)
    by_patch = (leaf * gradient).detach().sum(1).unflatten(-1, (4, 8)).unflatten(-3, (4, 8)).sum((-3, -1)).flatten()
    torch.testing.assert_close(at_pixels, by_patch, rtol=1e-4, atol=1e-7)
    assert bool(scores(vit, x, 1, "occlusion")[0].any())


class MeanPooled(Vit):
    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).mT + self.pos[:, 1:]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


@pytest.mark.parametrize(("vit", "pools"), [(MeanPooled, True), (Vit, False)])
def test_attcat_says_what_it_leaves_out_where_the_head_pools(vit: type[Vit], pools: bool) -> None:
    model = explainers.wrap(built(lambda: vit(plain_blocks)), kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["attcat", "attcat?published_code=true"])
    assert [any("goes on with patches or words of the last block" in note for note in one.notes) for one in result.maps] == [pools, False]


class Gated(Block):
    """A block with a gate of a sigmoid: over what attention gives, over what is added, or between the two (a highway)."""

    def __init__(self, gate: str) -> None:
        super().__init__(lambda: Attention(of_module))
        self.gate, self.weigh = gate, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        gate, given = self.weigh(x).sigmoid(), self.attn(self.n1(x))
        if self.gate == "attention":
            x = x + self.attn.proj(gate * given)
        elif self.gate == "residual":
            x = x + gate * given
        else:
            x = (1 - gate) * x + gate * given
        return x + self.mlp(self.n2(x))


@pytest.mark.parametrize("gate", ["attention", "residual", "highway"])
def test_gates_of_a_sigmoid_are_constants_and_what_they_let_through_is_conserved(gate: str) -> None:
    vit = built(lambda: Vit(lambda: [Gated(gate), Gated(gate)]))
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["fullgrad:libra"])
    assert result.completeness("libra") < 1e-9


@pytest.mark.parametrize("rule", ["libra", "attnlrp"])
def test_the_share_of_each_factor_of_a_gated_product(rule: str) -> None:
    draw = torch.Generator().manual_seed(0)
    x, a, b = (torch.randn(side, 6, generator=draw, dtype=torch.float64) for side in (3, 6, 6))
    x.requires_grad_()
    with explainers.backward_rule(rule):
        gate, path, curve = F.linear(x, a).sigmoid(), F.linear(x, b), F.silu(F.linear(x, a))
        of_gate, of_curve = (gate * path).sum(), (curve * path).sum()
        signals = [torch.autograd.grad(total, x, retain_graph=True)[0] for total in (of_gate, of_curve)]
    expected = [gate @ b, 0.5 * (curve @ b + ((curve / F.linear(x, a)) * path) @ a)]
    for signal, total, each in zip(signals, (of_gate, of_curve), expected, strict=True):
        torch.testing.assert_close(signal, each.detach())
        torch.testing.assert_close((x * signal).sum(), total)


def next_to_a_sink(q: Tensor, k: Tensor) -> Tensor:
    return F.pad(q @ k.mT / q.shape[-1] ** 0.5, (0, 1)).softmax(-1)[..., :-1]


def with_a_sink(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return next_to_a_sink(q, k) @ v


def by_sigmoid(module: Attention, q: Tensor, k: Tensor, v: Tensor, x: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5 - 3).sigmoid() @ v


def test_rollout_does_not_renormalise_weights_next_to_a_sink() -> None:
    vit = vit_of(with_a_sink)
    joint = torch.eye(TOKENS, dtype=torch.float64)
    with torch.no_grad():
        x = torch.cat([vit.cls, vit.embed(vit.patch(pixels()))], 1) + vit.pos  # type: ignore[operator]
        for block in vit.blocks:  # type: ignore[union-attr]
            q, k, _ = block.attn.heads(block.attn.qkv(block.n1(x)), 3)
            joint = (0.5 * next_to_a_sink(q, k)[0].mean(0) + 0.5 * torch.eye(TOKENS, dtype=torch.float64)) @ joint
            x = block(x)
    assert float(joint[0].sum()) < 0.99
    (found,) = scores(vit, pixels(), 1, "rollout")
    torch.testing.assert_close(found, joint[0], rtol=1e-5, atol=1e-8)


def test_weights_of_a_sigmoid_are_refused_as_the_reason_says() -> None:
    with pytest.raises(ExplainerError, match="by a sigmoid"):
        scores(vit_of(by_sigmoid), pixels(), 1, "rollout")
