"""Transformer in Transformer: a row is a patch's token with the tokens inside the patch beside it.

The twin is TNT written out by hand with the operators of each rule; torch alone differentiates it, with respect to both streams apart.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, gradient_rules
from explainers.methods.registry import METHODS
from explainers.methods.requirements import missing_requirements, variants
from explainers.models.model import Model
from explainers.models.removal.patches import patch_removal
from explainers.models.structure.block_kinds import BlockCall, InnerTokens
from tests.explainers.support.by_hand import ByHand, close
from tests.explainers.support.formulas import twin_of
from tests.explainers.support.wrapped import inputs, one_hot, trace_of, wrapped

# isort: split
from timm.models.tnt import TNT

BATCH, PATCHES, WITHIN, NARROW, WIDE = 2, 4, 4, 4, 8  # samples, patches, tokens inside one, and the widths of these and of patches
BOTH = pytest.mark.parametrize("legacy", [False, True], ids=["tnt", "tnt-legacy"])


@cache
def module(legacy: bool, biased: bool = True) -> TNT:
    """Narrow enough for dense Jacobians. Without biases there are no constants at all: neither positions nor a classification token."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = TNT(16, 8, 3, 3, "token", WIDE, NARROW, 2, 2, 2, 2.0, qkv_bias=True, legacy=legacy)
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
                if not biased and (name.endswith("bias") or name in ("cls_token", "patch_pos", "pixel_pos")):
                    parameter.zero_()
    return made.eval().double()


@cache
def model(legacy: bool, biased: bool = True) -> Model:
    return explainers.wrap(module(legacy, biased))


def images() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(BATCH, 3, 16, 16, generator=torch.Generator().manual_seed(1)).double()}


def attention(hand: ByHand, part: nn.Module, x: Tensor) -> Tensor:
    q, k = hand.linear(part.qk, x, "projection").unflatten(-1, (2, 2, -1)).permute(2, 0, 3, 1, 4)
    v = hand.linear(part.v, x, "projection").unflatten(-1, (2, -1)).transpose(1, 2)
    return hand.linear(part.proj, hand.attend(q, k, v), "projection")


def logits_of(hand: ByHand, net: TNT, inner: Tensor, outer: Tensor) -> Tensor:
    add = hand.operators.add

    def add_inner(first: Tensor, second: Tensor) -> Tensor:
        """The sum of two inner streams, whose relevance is shared out within each picture, not within each patch."""
        return add(*(each.unflatten(0, (len(outer), PATCHES)) for each in (first, second))).flatten(0, 1)

    for block in net.blocks:
        inner, outer = inner * 1, outer * 1  # nodes of their own
        hand.streams.append((inner, outer))
        inner = add_inner(inner, attention(hand, block.attn_in, hand.norm(block.norm_in, inner)))
        hand.maps.pop()  # those between patches are kept
        inner = add_inner(inner, hand.mlp(block.mlp_in, hand.norm(block.norm_mlp_in, inner)))
        if block.norm2_proj is None:
            said = hand.linear(block.proj, hand.norm(block.norm1_proj, inner).reshape(len(outer), PATCHES, -1))
        else:
            together = hand.norm(block.norm1_proj, inner.reshape(len(outer), PATCHES, -1))
            said = hand.norm(block.norm2_proj, hand.linear(block.proj, together))
        outer = torch.cat([outer[:, :1], add(outer[:, 1:], said)], 1)
        outer = add(outer, attention(hand, block.attn_out, hand.norm(block.norm_out, outer)))
        outer = add(outer, hand.mlp(block.mlp, hand.norm(block.norm_mlp, outer)))
    return hand.linear(net.head, hand.norm(net.norm, outer)[:, 0])


def x1(net: TNT, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The embedded tokens inside patches and of patches."""
    with torch.no_grad():
        inner = net.pixel_embed(pixels, net.pixel_pos)
        outer = net.norm2_proj(net.proj(net.norm1_proj(inner.reshape(len(pixels), PATCHES, -1))))
        outer = torch.cat([net.cls_token.expand(len(pixels), -1, -1), outer], 1) + net.patch_pos
    return inner.requires_grad_(), outer.requires_grad_()


def row(inner: Tensor, outer: Tensor) -> Tensor:
    """Both streams in rows, patch by patch."""
    rows = torch.zeros(len(outer), 1 + PATCHES, WIDE + WITHIN * NARROW, dtype=outer.dtype)
    rows[..., :WIDE] = outer
    for sample in range(len(outer)):
        for patch in range(PATCHES):
            for token in range(WITHIN):
                first = WIDE + token * NARROW
                rows[sample, 1 + patch, first : first + NARROW] = inner[sample * PATCHES + patch, token]
    return rows


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_goes_back_through_both_streams(legacy: bool, rule: str) -> None:
    recording = Recording(model(legacy), images())
    signals = trace_of(recording, rule).signals
    hand = ByHand(twin_of(RULES[rule]))
    logits = logits_of(hand, module(legacy), *x1(module(legacy), images()["pixel_values"]))
    torch.testing.assert_close(logits.detach(), recording.logits.detach())
    seed = trace_of(recording, rule).chosen.output_gradient(logits.detach(), RULES[rule])
    wanted = [*(stream for pair in hand.streams for stream in pair), *hand.maps]
    *streams, first, second = torch.autograd.grad(logits, wanted, seed, allow_unused=True, materialize_grads=True)
    for block, (inner, outer) in enumerate(hand.streams):
        close(recording.block_inputs[block].detach(), row(inner.detach(), outer.detach()))
        close(signals.block_inputs[block], row(streams[2 * block], streams[2 * block + 1]))
    for ours, theirs in zip(signals.attentions, (first, second), strict=True):
        assert ours is not None
        close(ours, theirs)
    if rule in ("gradient", "libra", "deep_taylor"):  # what is passed on inside patches counts in both blocks
        assert all(float(x[:, 1:, WIDE:].abs().max()) > 1e-3 * float(x.abs().max()) for x in signals.block_inputs)


@BOTH
def test_without_constants_libra_adds_up_at_every_block_and_at_the_pixels(legacy: bool) -> None:
    """Input times signal is then the logit wherever the model is cut, for nothing else is added on the way."""
    recording = Recording(model(legacy, biased=False), images(), pixels=True)
    trace = trace_of(recording, "libra")
    cuts = [*zip(trace.block_inputs, trace.block_input_grads, strict=True), (trace.pixel_values, trace.pixel_grads)]
    for x, signal in [*cuts, *zip(trace.block_outputs, trace.block_output_grads, strict=True)]:
        torch.testing.assert_close((x * signal).flatten(1).sum(1), trace.value(), rtol=1e-9, atol=1e-12)
    scores = explainers.explain(model(legacy, biased=False), images(), target=1, methods=["input_x_gradient:libra?at=pixels"])
    for explanation, value in zip(scores, trace.value(), strict=True):
        assert float(explanation.maps[0].scores.sum()) == pytest.approx(float(value), rel=1e-5)
        assert float(explanation.maps[0].scores[0]) == 0  # the classification token has no pixels


@BOTH
@pytest.mark.parametrize("rule", [rule for rule in gradient_rules() if RULES[rule].linear == "jacobian"])
def test_biases_belong_to_the_patch_in_which_they_act(legacy: bool, rule: str) -> None:
    recording = Recording(model(legacy), images())
    signals = recording.cached_backward(RULES[rule], one_hot(recording))
    hand = ByHand(twin_of(RULES[rule]), apart=True)
    logits = logits_of(hand, module(legacy), *x1(module(legacy), images()["pixel_values"]))
    expected = torch.zeros(BATCH, 1 + PATCHES, dtype=torch.float64)
    for term in hand.bias_terms(logits, one_hot(recording)):
        if len(term) == BATCH * PATCHES:  # inside patches
            expected[:, 1:] += term.sum((1, 2)).view(BATCH, PATCHES)
        elif term.dim() == 2:  # of the head
            expected[:, 0] += term.sum(1)
        else:  # of patches, with the classification token or without
            expected[:, -term.shape[1] :] += term.sum(2)
    close(signals.bias, expected, 1e-9)
    assert not signals.unplaced.any()


@BOTH
def test_attention_is_read_between_patches(legacy: bool) -> None:
    """Against loops over the maps of the twin, gradient and relevance each by its own."""
    specs = ["raw_attention", "rollout", "generic_attention", "transformer_attribution", "transformer_attribution_last_block"]
    found = explainers.explain(model(legacy), images(), target=1, methods=specs)
    maps, signals = [], []
    for rule in ("gradient", "deep_taylor"):
        hand = ByHand(twin_of(RULES[rule]))
        logits = logits_of(hand, module(legacy), *x1(module(legacy), images()["pixel_values"]))
        seed = F.one_hot(torch.ones(BATCH, dtype=torch.long), 3).double()
        signals.append(torch.autograd.grad(logits, hand.maps, seed))
        maps = [a.detach() for a in hand.maps]
    for sample, explanation in enumerate(found):
        rolled, generic, attribution = (torch.eye(1 + PATCHES, dtype=torch.float64) for _ in range(3))
        for a, g, r in zip(maps, *signals, strict=True):
            assert a.shape == (BATCH, 2, 1 + PATCHES, 1 + PATCHES)
            rolled = (a[sample].mean(0) + torch.eye(1 + PATCHES)) / 2 @ rolled
            generic = generic + (a[sample] * g[sample]).clamp(min=0).mean(0) @ generic
            last = (g[sample] * r[sample]).clamp(min=0).mean(0)
            attribution = attribution + last @ attribution
        expected = (maps[-1][sample].mean(0), rolled, generic, attribution, last)
        for spec, matrix in zip(specs, expected, strict=True):
            torch.testing.assert_close(explanation[spec].scores.double(), matrix[0], rtol=1e-5, atol=1e-9)
            assert explanation[spec].notes == (InnerTokens.attention_note,)
            assert explanation[spec].patches == (2, 2)


@BOTH
def test_a_patch_is_propagated_forward_with_the_tokens_inside_it(legacy: bool) -> None:
    """What each row gives on alone is its share of the map that is linear in x^1: input times signal under Libra."""
    for explanation in explainers.explain(model(legacy), images(), target=1, methods=["decompx:libra", "input_x_gradient:libra"]):
        torch.testing.assert_close(explanation["decompx:libra"].scores, explanation["input_x_gradient:libra"].scores, rtol=1e-5, atol=1e-7)


def test_two_images_are_compared_patch_by_patch() -> None:
    """The pairs of rows, tokens inside patches included, sum to the cosine where nothing else is added."""
    first, second = ({"pixel_values": image[None]} for image in images()["pixel_values"])
    compared = explainers.input_interaction(model(False, biased=False), first, second)
    assert compared.pairs.shape == (PATCHES, PATCHES)
    assert float(compared.pairs.sum()) == pytest.approx(compared.cosine, abs=1e-5)


def test_where_the_head_pools_the_row_is_chosen() -> None:
    pooled = TNT(16, 8, 3, 3, "avg", WIDE, NARROW, 2, 2, 2, 2.0).eval()
    specs = ["rollout?row=mean", "rollout?row=class_token", "fullgrad:libra"]
    found = explainers.explain(explainers.wrap(pooled), {name: x[:1].float() for name, x in images().items()}, target=1, methods=specs)
    assert InnerTokens.attention_note in found["rollout?row=mean"].notes
    assert float(found["fullgrad:libra"].completeness_error) < 1e-5
    with pytest.raises(ExplainerError, match="row=mean"):
        explainers.explain(explainers.wrap(pooled), {name: x[:1].float() for name, x in images().items()}, methods=["rollout"])


def test_only_maps_of_attention_say_between_what() -> None:
    maps = explainers.explain(model(False), images(), target=1, methods=["fullgrad:libra", "legrad", "random"])[0].maps
    assert [InnerTokens.attention_note in one.notes for one in maps] == [False, True, False]


def test_what_cannot_run_says_why() -> None:
    lacks = missing_requirements(wrapped("tnt"))
    assert set(lacks) == {"residual", "positions", "patch_features", "attention_input", "prompts", "boxes"}
    assert "what attention alone does to the residual stream cannot be read" in lacks["residual"]
    assert "also to other tokens of the same places" in lacks["positions"]
    refused = {v.method_name for v in variants(wrapped("tnt")) if v.reason}
    of_tokens = {
        "token_tm",
        "globenc",
        "alti",
        "pa_lrp",
        "refinecam",
        "pytorch_grad_cam",
        "clip_decomposition",
        "d_rise",
        "nib",
        "m2ib",
        "cdam",
    }
    assert refused == {*of_tokens, *(m.name for m in METHODS.values() if m.family == "similarity")}
    with pytest.raises(ExplainerError, match="before attention is added"):
        explainers.explain(wrapped("tnt"), inputs("tnt"), methods=["token_tm"])


@BOTH
@pytest.mark.parametrize("kept", [[0, 3], [1], [0, 1, 2, 3]])
def test_a_patch_goes_with_the_tokens_inside_it(legacy: bool, kept: list[int]) -> None:
    """Against the twin, given the kept rows of both streams alone."""
    pixels = {name: tensor[:1] for name, tensor in images().items()}
    removal = patch_removal(model(legacy), pixels, (2, 2))
    assert (removal.how, removal.tokens, removal.least) == ("removed", PATCHES, 1)
    keep = torch.zeros(1, PATCHES, dtype=torch.bool)
    keep[0, kept] = True
    inner, outer = x1(module(legacy), pixels["pixel_values"])
    with torch.no_grad():
        inner, outer = inner[kept], outer[:, [0, *(1 + patch for patch in kept)]]
        for block in module(legacy).blocks:
            inner, outer = block(inner, outer)
        expected = module(legacy).forward_head(module(legacy).norm(outer))
    torch.testing.assert_close(removal.logits(keep), expected.float())


# --- the form ---------------------------------------------------------------------------------------------------------


def streams() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(6, 4, 2, generator=generator), torch.randn(2, 4, 5, generator=generator)


@pytest.mark.parametrize("inner", [0, 1])
def test_both_streams_are_put_beside_each_other_and_back(inner: int) -> None:
    within, patches = streams()
    pair = (within, patches) if inner == 0 else (patches, within)
    block_kind = InnerTokens.find(BlockCall(nn.Identity(), pair, {}, pair, 2))
    assert block_kind == InnerTokens(inner)
    assert block_kind is not None
    x = block_kind.input_tokens((pair[0],), {"other": pair[1], "flag": True})
    assert x.shape == (2, 4, 5 + 4 * 2)
    assert torch.equal(x[:, :, :5], patches)
    assert torch.equal(x[1, 2, 5:], within[3 + 1].flatten())
    assert not x[:, 0, 5:].any()
    args, kwargs = block_kind.with_input_tokens((pair[0],), {"other": pair[1], "flag": True}, x)
    assert torch.equal(args[0], pair[0])
    assert torch.equal(kwargs["other"], pair[1])
    assert kwargs["flag"] is True
    fewer = x[:1, [0, 2]]  # one sample, one patch
    output = block_kind.with_output_tokens([*pair, None], fewer)
    assert [tuple(part.shape) for part in (output[inner], output[1 - inner])] == [(1, 4, 2), (1, 2, 5)]
    assert torch.equal(output[inner], within[1:2])
    assert output[2] is None
    assert torch.equal(block_kind.output_tokens(output), fewer)
    with pytest.raises(ExplainerError, match="2 tensors of tokens"):
        block_kind.input_tokens((pair[0],), {})


@pytest.mark.parametrize(
    "shapes",
    [[(2, 4, 5)], [(2, 4, 5), (2, 4, 5)], [(2, 4, 5), (12, 4, 2)], [(2, 4, 5), (6, 4)], [(2, 40, 5), (6, 4, 2)]],
    ids=["one", "two alike", "more patches than tokens", "no tokens inside", "too many tokens before"],
)
def test_other_blocks_have_no_tokens_inside_patches(shapes: list[tuple[int, ...]]) -> None:
    given = [torch.zeros(shape) for shape in shapes]
    assert InnerTokens.find(BlockCall(nn.Identity(), (given,), {}, given, 2)) is None
    pair = streams()
    assert InnerTokens.find(BlockCall(nn.Identity(), pair, {}, pair[:1], 2)) is None
