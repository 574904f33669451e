"""CrossViT: a row has the tokens of all branches, and what larger patches were given is shared among those that they cover.

The twin is CrossViT written out by hand with the operators of each rule; torch alone differentiates it, with respect to each branch apart.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.analysis.inspection import contributions, head_maps
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, gradient_rules
from explainers.methods.requests import LARGER_PATCHES
from explainers.methods.requirements import missing_requirements, variants
from explainers.models.grids import on_grid, shares
from explainers.models.layout import Layout
from explainers.models.model import Model
from explainers.models.removal.patches import patch_removal
from explainers.models.structure.block_kinds import BlockCall, Branches
from explainers.records.session import Session
from tests.explainers.support.by_hand import ByHand, close
from tests.explainers.support.formulas import twin_of
from tests.explainers.support.wrapped import inputs, one_hot, trace_of, wrapped

# isort: split
from timm.models.crossvit import CrossVit

BATCH, SIDE = 2, 12
COUNTS, WIDTHS, HEADS = (9, 4), (8, 4), (2, 2)  # of the branches: patches, widths, heads
GRIDS = ((3, 3), (2, 2))


@cache
def module(biased: bool = True, **arguments: bool) -> CrossVit:
    """Narrow enough for dense Jacobians. Without biases there are no constants at all: neither positions nor classification tokens."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        depth = ((1, 1, 0), (1, 1, 0))
        made = CrossVit(SIDE, (1.0, 0.5), (4, 3), 3, 3, WIDTHS, depth, HEADS, (2, 2, 1), **arguments)
        with torch.no_grad():
            for name, parameter in made.named_parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
                if not biased and (name.endswith("bias") or name.startswith(("cls_token", "pos_embed"))):
                    parameter.zero_()
    return made.eval().double()


@cache
def model(biased: bool = True) -> Model:
    return explainers.wrap(module(biased))


def images() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(BATCH, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1)).double()}


def logits_of(hand: ByHand, net: CrossVit, *streams: Tensor) -> Tensor:
    add = hand.operators.add
    for block in net.blocks:
        streams = tuple(x * 1 for x in streams)  # nodes of their own
        hand.streams.append(streams)
        tokens = [within(hand, branch[0], x, heads) for branch, x, heads in zip(block.blocks, streams, HEADS, strict=True)]
        translated = [changed(hand, proj, x[:, :1]) for proj, x in zip(block.projs, tokens, strict=True)]
        made = []
        for number in (0, 1):
            other = 1 - number
            together = torch.cat([translated[number], tokens[other][:, 1:]], 1)
            part = block.fusion[number]
            normed = hand.norm(part.norm1, together)
            q, k, v = (
                hand.linear(layer, x, "projection").unflatten(-1, (HEADS[other], -1)).transpose(1, 2)
                for layer, x in ((part.attn.wq, normed[:, :1]), (part.attn.wk, normed), (part.attn.wv, normed))
            )
            crossed = add(together[:, :1], hand.linear(part.attn.proj, hand.attend(q, k, v), "projection"))
            made.append(torch.cat([changed(hand, block.revert_projs[number], crossed), tokens[number][:, 1:]], 1))
        streams = tuple(made)
    answers = [hand.linear(net.head[i], hand.norm(net.norm[i], streams[i])[:, 0]) for i in (0, 1)]
    return hand.operators.mean(torch.stack(answers), 0)


def within(hand: ByHand, block: nn.Module, x: Tensor, heads: int) -> Tensor:
    """An ordinary block of one branch."""
    q, k, v = hand.linear(block.attn.qkv, hand.norm(block.norm1, x), "projection").unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
    x = hand.operators.add(x, hand.linear(block.attn.proj, hand.attend(q, k, v), "projection"))
    return hand.operators.add(x, hand.mlp(block.mlp, hand.norm(block.norm2, x)))


def changed(hand: ByHand, part: nn.Module, x: Tensor) -> Tensor:
    """A classification token in the width of the other branch."""
    return hand.linear(part[2], hand.operators.act(F.gelu, hand.norm(part[0], x)))


def x1(net: CrossVit) -> list[Tensor]:
    with torch.no_grad():
        return [x.clone().requires_grad_() for x in net._embed(images()["pixel_values"])]


def row(fine: Tensor, coarse: Tensor) -> Tensor:
    """Both branches in rows: the two classification tokens, then the patches, each branch in its columns."""
    rows = torch.zeros(len(fine), 2 + sum(COUNTS), sum(WIDTHS), dtype=fine.dtype)
    rows[:, 0, : WIDTHS[0]], rows[:, 1, WIDTHS[0] :] = fine[:, 0], coarse[:, 0]
    rows[:, 2:11, : WIDTHS[0]], rows[:, 11:, WIDTHS[0] :] = fine[:, 1:], coarse[:, 1:]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_goes_back_through_both_branches(rule: str) -> None:
    recording = Recording(model(), images())
    signals = trace_of(recording, rule).signals
    hand = ByHand(twin_of(RULES[rule]))
    logits = logits_of(hand, module(), *x1(module()))
    torch.testing.assert_close(logits.detach(), recording.logits.detach())
    seed = trace_of(recording, rule).chosen.output_gradient(logits.detach(), RULES[rule])
    streams = torch.autograd.grad(logits, [x for pair in hand.streams for x in pair], seed, allow_unused=True, materialize_grads=True)
    for block, (fine, coarse) in enumerate(hand.streams):
        close(recording.block_inputs[block].detach(), row(fine.detach(), coarse.detach()))
        close(signals.block_inputs[block], row(streams[2 * block], streams[2 * block + 1]))


def test_without_constants_libra_adds_up_at_every_block_and_at_the_pixels() -> None:
    """Input times signal is then the logit wherever the model is cut, also before the image is made smaller for one branch."""
    recording = Recording(model(biased=False), images(), pixels=True)
    trace = trace_of(recording, "libra")
    cuts = [*zip(trace.block_inputs, trace.block_input_grads, strict=True), (trace.pixel_values, trace.pixel_grads)]
    for x, signal in [*cuts, *zip(trace.block_outputs, trace.block_output_grads, strict=True)]:
        torch.testing.assert_close((x * signal).flatten(1).sum(1), trace.value(), rtol=1e-9, atol=1e-12)
    specs = ["input_x_gradient:libra", "input_x_gradient:libra?at=pixels", "decompx:libra"]
    for explanation, value in zip(explainers.explain(model(biased=False), images(), target=1, methods=specs), trace.value(), strict=True):
        for one in explanation.maps:
            assert float(one.scores.sum()) == pytest.approx(float(value), rel=1e-5)


@pytest.mark.parametrize("rule", [rule for rule in gradient_rules() if RULES[rule].linear == "jacobian"])
def test_biases_belong_to_the_patch_of_the_branch_in_which_they_act(rule: str) -> None:
    recording = Recording(model(), images())
    signals = recording.cached_backward(RULES[rule], one_hot(recording))
    hand = ByHand(twin_of(RULES[rule]), apart=True)
    logits = logits_of(hand, module(), *x1(module()))
    of_patches = torch.zeros(BATCH, sum(COUNTS), dtype=torch.float64)
    of_class_tokens = torch.zeros(BATCH, dtype=torch.float64)
    for term in hand.bias_terms(logits, one_hot(recording)):
        if term.dim() == 3 and term.shape[1] > 1:
            place = slice(0, 9) if term.shape[1] == 10 else slice(9, 13)
            of_patches[:, place] += term[:, 1:].sum(2)
        of_class_tokens += term.sum(1) if term.dim() == 2 else term[:, 0].sum(1)
    close(signals.bias[:, 2:], of_patches, 1e-9)
    close(signals.bias[:, :2].sum(1), of_class_tokens, 1e-9)
    assert not signals.unplaced.any()


def test_the_map_is_that_of_the_smaller_patches_with_what_they_share_of_the_larger() -> None:
    recording = Recording(model(), images())
    trace = trace_of(recording, "libra")
    raw = (trace.block_inputs[0] * trace.block_input_grads[0]).sum(-1)
    found = explainers.explain(model(), images(), target=1, methods=["input_x_gradient:libra", "gradcam_plus", "random", "occlusion"])
    for sample, explanation in enumerate(found):
        one = explanation["input_x_gradient:libra"]
        assert one.patches == (3, 3)
        assert one.notes == (LARGER_PATCHES,)
        torch.testing.assert_close(one.scores[one.content].double(), by_pixels(raw[sample, 2:11], raw[sample, 11:]), rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(one.scores[:2].double(), raw[sample, :2], rtol=1e-5, atol=1e-7)
        assert all(not each.scores[11:].any() for each in explanation.maps)
        assert [LARGER_PATCHES in each.notes for each in explanation.maps] == [True, True, False, False]


def test_what_each_block_adds_is_shared_likewise() -> None:
    pixels = {name: tensor[:1] for name, tensor in images().items()}
    parts = contributions(Session(model(), pixels, 1), "fullgrad_plus:libra")
    (explanation,) = explainers.explain(model(), images(), target=1, methods=["fullgrad_plus:libra"])[:1]
    assert parts.rest is not None
    torch.testing.assert_close(sum(parts.blocks.values(), parts.rest), explanation.maps[0].scores, rtol=1e-5, atol=1e-7)
    assert all(not term[11:].any() for term in parts.blocks.values())


def by_pixels(fine: Tensor, coarse: Tensor) -> Tensor:
    """(9,): both painted on 6 x 6 pixels, each patch's score spread over its own, and summed over each of the smaller patches."""
    painted = torch.zeros(6, 6, dtype=torch.float64)
    for down in range(6):
        for across in range(6):
            painted[down, across] = fine[down // 2 * 3 + across // 2] / 4 + coarse[down // 3 * 2 + across // 3] / 9
    return painted.unflatten(0, (3, 2)).unflatten(2, (3, 2)).sum((1, 3)).flatten()


def test_what_cannot_run_says_why() -> None:
    lacks = missing_requirements(wrapped("crossvit"))
    of_blocks = {"attention", "scores", "residual", "parts", "positions", "attention_input"}
    assert set(lacks) == {*of_blocks, "patch_features", "prompts", "boxes"}
    assert "each branch attends to its own" in lacks["attention"]
    able = {v.method_name for v in variants(wrapped("crossvit")) if v.reason is None}
    assert {"fullgrad", "lrp", "decompx", "hirescam", "integrated_gradients", "rise"} <= able
    assert not {"rollout", "transformer_attribution", "legrad", "token_tm", "pa_lrp"} & able
    with pytest.raises(ExplainerError, match="each branch attends to its own"):
        explainers.explain(wrapped("crossvit"), inputs("crossvit"), methods=["rollout"])
    with pytest.raises(ExplainerError, match="no head"):
        head_maps(Session(wrapped("crossvit"), inputs("crossvit", 1), 1))
    first, second = ({"pixel_values": image[None]} for image in inputs("crossvit")["pixel_values"])
    with pytest.raises(ExplainerError, match="by no linear layer over one vector"):
        explainers.input_interaction(wrapped("crossvit"), first, second)


def test_patches_of_several_sizes_are_painted_not_removed() -> None:
    pixels = {name: tensor[:1] for name, tensor in images().items()}
    assert patch_removal(model(), pixels, (3, 3)).how == "painted"
    for how in ("removed", "zeroed"):
        with pytest.raises(ExplainerError, match="lie over each other: choose how=painted"):
            patch_removal(model(), pixels, (3, 3), how)


def test_a_branch_that_is_shown_a_crop_is_refused() -> None:
    explainers.wrap(module(crop_scale=False))
    with pytest.raises(ExplainerError, match="2 x 2 patches does not see the whole image"):
        explainers.wrap(module(crop_scale=True))


# --- the form, and the grid -------------------------------------------------------------------------------------------


def found(args: tuple[Any, ...], output: Any) -> Branches | None:
    return Branches.find(BlockCall(nn.Identity(), args, {}, output, 2))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["fine first", "coarse first"])
def test_branches_are_put_in_one_row_and_back(order: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(2)
    streams = [torch.randn(2, 1 + count, width, generator=generator) for count, width in zip(COUNTS, WIDTHS, strict=True)]
    for stream in streams:
        stream[1, 0] = stream[0, 0]  # the same in every image
    given = [streams[number] for number in order]
    block_kind = found((given,), tuple(given))
    assert block_kind == Branches(tuple((1, COUNTS[number]) for number in order))
    assert block_kind is not None
    x = block_kind.input_tokens((given, True), {})
    before = [stream[:, 0] for stream in given]
    assert x.shape == (2, 2 + 9 + 4, 8 + 4)
    columns = [slice(0, 8), slice(8, 12)] if order == (0, 1) else [slice(4, 12), slice(0, 4)]  # of the fine one, of the coarse one
    assert torch.equal(x[:, 2:11, columns[0]], streams[0][:, 1:])
    assert torch.equal(x[:, 11:, columns[1]], streams[1][:, 1:])
    assert float(x.abs().sum()) == pytest.approx(float(sum(stream.abs().sum() for stream in streams)), rel=1e-5)
    assert torch.equal(x[:, 0].abs().sum(-1), before[0].abs().sum(-1))
    (back, flag), _ = block_kind.with_input_tokens((given, True), {}, x)
    assert flag is True
    assert all(torch.equal(a, b) for a, b in zip(back, given, strict=True))
    assert torch.equal(block_kind.output_tokens(block_kind.with_output_tokens(given, x * 2)), x * 2)


def test_other_blocks_have_no_branches() -> None:
    x, y = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    assert found((x,), x) is None  # one stream
    assert found((x, y), (x, y)) is None  # no list
    assert found(([x],), [x]) is None
    assert found(([x, y],), [x, x]) is None  # other shapes
    assert found(([x, x],), [x, x]) is None  # which is which?
    assert found(([x[:1], y[:1]],), [x[:1], y[:1]]) is None  # one sample: what changes with the image is not known
    late = y.clone()
    late[1, 2] = late[0, 2]
    assert found(([x, late],), [x, late]) is None  # a token after the patches


@pytest.mark.parametrize(("coarse", "fine"), [((2, 2), (4, 4)), ((3, 2), (5, 7)), ((14, 14), (20, 20)), ((4, 3), (4, 3))])
def test_a_patch_shares_by_area(coarse: tuple[int, int], fine: tuple[int, int]) -> None:
    found = shares(coarse, fine)
    torch.testing.assert_close(found.sum(1), torch.ones(coarse[0] * coarse[1], dtype=torch.float64))
    owners = []
    for many, few in zip(coarse, fine, strict=True):  # along one side, by pixels that both divide
        overlap = torch.zeros(many, few, dtype=torch.float64)
        for pixel in range(many * few):
            overlap[pixel // few, pixel // many] += 1 / few
        owners.append(overlap)
    torch.testing.assert_close(found, torch.kron(*owners), atol=1e-12, rtol=0)


def test_only_larger_patches_are_moved() -> None:
    values = torch.randn(2, 2 + 9 + 4)
    assert on_grid(values, Layout(2, 0, (3, 3))) is values
    moved = on_grid(values, Layout(2, 0, GRIDS[0], GRIDS[1:]))
    torch.testing.assert_close(moved.sum(1), values.sum(1))
    assert torch.equal(moved[:, :2], values[:, :2])
    assert not moved[:, 11:].any()
