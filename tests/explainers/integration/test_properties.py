"""What holds for any tiny model, any input and any class: conservation, completeness, linearity, independence, repetition."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import Citation, Contrast, Probability
from explainers.autograd import relevance
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, Rule, gradient_rules
from explainers.models.model import Model
from explainers.records.targets import Classes, resolve
from explainers.records.trace import Trace
from tests.explainers.support.double import in_double
from tests.explainers.support.operator_cases.case import normal
from tests.explainers.support.toys import record, signal
from tests.explainers.support.wrapped import trace_of
from tests.families import CLASS, FAMILIES, PADDING, SEPARATOR, VOCABULARY

few = settings(max_examples=8, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
models = st.tuples(st.sampled_from(["vit", "deit3", "eva02", "siglip", "bert", "llama"]), st.integers(0, 1))
classes = st.tuples(st.integers(0, 2), st.integers(1, 2))  # a class, and how far the other one is
#: Of gradients, as far as they do not look at the sign or size of what linear layers give.
rules_of_gradients = st.sampled_from([name for name in gradient_rules() if RULES[name].linear == "jacobian"])

Which = tuple[str, int]


@cache
def module_of(name: str, seed: int) -> nn.Module:
    return FAMILIES[name].build(seed).double()


def as_model(module: nn.Module) -> Model:
    model = explainers.wrap(module)
    return replace(model, forward=in_double(model.forward))


@cache
def model_of(name: str, seed: int) -> Model:
    """Shared, so never changed."""
    return as_model(module_of(name, seed))


def image(name: str, seed: int, batch: int = 1) -> Tensor:
    return normal(batch, 3, *FAMILIES[name].size, seed=seed)


def texts(lengths: list[int], seed: int) -> dict[str, Tensor]:
    """Texts of so many words each, padded to the longest."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((len(lengths), max(lengths) + 2), PADDING)
    for row, length in zip(ids, lengths, strict=True):
        words = torch.randint(SEPARATOR + 2, VOCABULARY, (length,), generator=generator)
        row[: length + 2] = torch.tensor([CLASS, *words.tolist(), SEPARATOR])
    return {"input_ids": ids, "attention_mask": (ids != PADDING).long()}


def input_of(name: str, seed: int) -> dict[str, Tensor]:
    return texts([4 + seed % 4], seed) if FAMILIES[name].kind == "text" else {"pixel_values": image(name, seed)}


def other(pair: tuple[int, int]) -> int:
    return (pair[0] + pair[1]) % 3


def assert_near(ours: Tensor, theirs: Tensor, bound: float) -> None:
    """Up to ``bound`` of the largest."""
    assert float((ours - theirs).abs().max()) <= bound * float(theirs.abs().max()) + 1e-12


# --- conservation ---------------------------------------------------------------------------------------------------


@few
@given(models, seeds, classes)
def test_deep_taylor_relevance_sums_to_one_at_every_block(which: Which, seed: int, pair: tuple[int, int]) -> None:
    recording = Recording(model_of(*which), input_of(which[0], seed))
    signals = trace_of(recording, "deep_taylor", pair[0]).signals
    sums = torch.stack([x.sum() for x in (*signals.block_inputs, *signals.block_outputs)])
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=1e-4, atol=1e-4)


@few
@given(st.integers(0, 1), seeds, classes)
def test_lrp_relevance_doubles_at_linear_maps_and_is_conserved_everywhere_else(which: int, seed: int, pair: tuple[int, int]) -> None:
    """The positive and the negative inputs of a linear map each get all that an output got, where it has a pair of positive product."""
    passed: list[tuple[Tensor, Tensor]] = []  # the sums that came to, and left, each linear map, from the head back
    split = relevance.split_linear

    def counting(
        x: Tensor, weight: Tensor, r: Tensor, forward: Any, backward: Any, inputs: relevance.Inputs, product: Tensor | None
    ) -> Tensor:
        out = split(x, weight, r, forward, backward, inputs, product)
        passed.append((r.sum(), out.sum()))
        kept = sum(float((r * (forward(x.clamp(*c), weight.clamp(*c)) > 0)).sum()) for c in ((0, None), (None, 0)))
        assert float(out.sum()) == pytest.approx(kept, rel=1e-4, abs=1e-4)
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relevance, "split_linear", counting)
        signals = trace_of(Recording(model_of("vit", which), input_of("vit", seed)), "lrp", pair[0]).signals
    for block in (1, 0):
        (fc2, after_fc2), (fc1, after_fc1), (projection, after_projection), (qkv, after_qkv) = passed[-8:][4 * (1 - block) :][:4]
        assert_near(fc1, after_fc2, 1e-5)  # the activation between them
        assert_near(qkv, after_projection, 1e-5)  # attention
        left = signals.block_outputs[block].sum() - fc2 + after_fc1 - projection + after_qkv  # two sums, two normalisations
        assert_near(signals.block_inputs[block].sum(), left, 1e-4)


@few
@given(models, seeds, classes, st.sampled_from(["constant", "constant_mean"]))
def test_fullgrad_sums_to_the_logit_or_to_the_contrast_of_two(which: Which, seed: int, pair: tuple[int, int], norm: Any) -> None:
    """Wherever attention, scales and gates are constant and products give half to each factor."""
    recording = Recording(model_of(*which), input_of(which[0], seed))
    rule = Rule(attention="constant", norm=norm, activation="gate", product="half")
    classes = Classes([str(i) for i in range(recording.logits.shape[1])])
    for target in (pair[0], Contrast(pair[0], other(pair))):
        trace = Trace(recording, resolve(target, classes, recording.logits), rule)
        x1 = trace.block_inputs[0]
        total = (x1 * trace.block_input_grads[0]).sum((1, 2)) + trace.bias.sum(1) + trace.unplaced
        assert_near(total, trace.value(), 1e-9)


# --- linearity ------------------------------------------------------------------------------------------------------

LINEAR = ("input_x_gradient", "hirescam", "fullgrad", "fullgrad_plus", "gradcam_plus", "xgradcam_plus")


@pytest.mark.slow
@few
@given(models, seeds, classes, rules_of_gradients)
def test_the_map_of_a_contrast_is_the_difference_of_two_maps(which: Which, seed: int, pair: tuple[int, int], rule: str) -> None:
    """Methods that are linear in the signal, under rules that are: all that carry gradients, and LRP, whose sums are not normalised."""
    specs = [*(f"{name}:{rule}" for name in LINEAR), "integrated_gradients?steps=3", "lrp"]
    a, b = pair[0], other(pair)
    result = explainers.explain(model_of(*which), input_of(which[0], seed), target=[a, b, Contrast(a, b)], methods=specs)
    first, second, contrast = ([m.scores for m in result.maps[i * len(specs) : (i + 1) * len(specs)]] for i in range(3))
    for spec, one, two, both in zip(specs, first, second, contrast, strict=True):
        scale = max(float(one.abs().max()), float(two.abs().max()))
        assert float((both - (one - two)).abs().max()) <= 1e-5 * scale, spec


# --- a sample alone and among others --------------------------------------------------------------------------------

SPECS = ["rollout", "generic_attention", "transformer_attribution", "partial_lrp", "lrp", "attcat:libra", "fullgrad_plus:libra"]
SPECS += ["input_x_gradient:attnlrp", "xgradcam_plus", "integrated_gradients?steps=3", "smoothgrad?draws=2"]


def assert_same_maps(alone: Any, among: Any) -> None:
    for one, two in zip(alone.maps, among.maps, strict=True):
        assert_near(two.scores, one.scores, 1e-4 if RULES.get(one.rule or "", Rule()).is_relevance else 1e-5)


@pytest.mark.slow
@few
@given(st.sampled_from(["bert", "distilbert"]), st.lists(st.integers(1, 8), min_size=2, max_size=4), st.data())
def test_a_texts_map_does_not_depend_on_its_neighbours_nor_on_padding(name: str, lengths: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(lengths) - 1))
    together = texts(lengths, data.draw(seeds))
    own = {key: value[place : place + 1, : lengths[place] + 2] for key, value in together.items()}
    model = model_of(name, 0)
    among = explainers.explain(model, together, target=1, methods=SPECS)[place]
    assert_same_maps(explainers.explain(model, own, target=1, methods=SPECS, seed=place), among)


@pytest.mark.slow
@few
@given(st.integers(2, 4), seeds, st.data())
def test_an_images_map_does_not_depend_on_its_neighbours(batch: int, seed: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, batch - 1))
    together = image("vit", seed, batch)
    model = model_of("vit", 0)
    among = explainers.explain(model, {"pixel_values": together}, target=1, methods=SPECS)[place]
    assert_same_maps(explainers.explain(model, {"pixel_values": together[place : place + 1]}, target=1, methods=SPECS, seed=place), among)


# --- repetition -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(few, max_examples=4)
@given(st.sampled_from(["vit", "bert"]), seeds, st.integers(0, 100))
def test_the_same_question_twice_gives_the_same_bits(name: str, seed: int, draw: int) -> None:
    """Also where numbers are drawn at random, for the same seed."""
    specs = [*SPECS, "random"] + (["rise?samples=8", "kernel_shap?samples=8", "lime?samples=8"] if name == "vit" else [])
    model, tensors = model_of(name, 0), input_of(name, seed)
    first, second = (explainers.explain(model, tensors, methods=specs, seed=draw) for _ in range(2))
    for one, two in zip(first.maps, second.maps, strict=True):
        assert torch.equal(one.scores, two.scores), one.method


# --- a shift of all logits ------------------------------------------------------------------------------------------


def shifted(module: nn.Module, by: float) -> nn.Module:
    """A copy whose head gives every class so much more."""
    moved = copy.deepcopy(module)
    head = [m for m in moved.modules() if isinstance(m, nn.Linear)][-1]
    with torch.no_grad():
        head.bias += by
    return moved


@cache
def shifted_model(name: str) -> Model:
    return as_model(shifted(module_of(name, 0), SHIFT))


SHIFT = 2.5


@pytest.mark.slow
@few
@given(st.sampled_from(["vit", "bert"]), seeds, classes, rules_of_gradients)
def test_a_shift_of_all_logits_changes_no_map_of_a_probability_nor_of_a_contrast(
    name: str, seed: int, pair: tuple[int, int], rule: str
) -> None:
    """FullGrad included, which counts the bias of the head. The map of a logit grows by the shift, at the token that holds that bias."""
    tensors = input_of(name, seed)
    targets = [Probability(pair[0]), Contrast(pair[0], other(pair)), pair[0]]
    specs = [f"fullgrad:{rule}", f"fullgrad_plus:{rule}", f"generic_attention:{rule if rule in gradient_rules() else 'gradient'}"]
    before, after = (explainers.explain(m, tensors, target=targets, methods=specs) for m in (model_of(name, 0), shifted_model(name)))
    assert_near(after.logits, before.logits + SHIFT, 1e-6)
    for one, two in zip(before.maps[: 2 * len(specs)], after.maps[: 2 * len(specs)], strict=True):
        assert_near(two.scores, one.scores, 1e-5)
    grown = float(after.maps[2 * len(specs)].scores.sum() - before.maps[2 * len(specs)].scores.sum())
    assert grown == pytest.approx(0 if not RULES[rule].bias else SHIFT, abs=1e-4)


# --- three ways of writing attention --------------------------------------------------------------------------------


@few
@given(seeds, st.sampled_from([1, 2, 3]), st.integers(2, 5), st.sampled_from(["none", "padding", "causal"]))
def test_attention_written_out_fused_and_of_torch_give_equal_signals(seed: int, heads: int, tokens: int, masked: str) -> None:
    width = 3 * heads
    layer = nn.MultiheadAttention(width, heads, batch_first=True).double().eval()
    w_in, b_in = normal(3 * width, width, seed=seed), normal(3 * width, seed=seed + 1)
    w_out, b_out = normal(width, width, seed=seed + 2), normal(width, seed=seed + 3)
    with torch.no_grad():
        for parameter, value in zip(layer.parameters(), (w_in, b_in, w_out, b_out), strict=True):
            parameter.copy_(value)
    allowed = torch.ones(tokens, tokens, dtype=torch.bool)
    if masked == "padding":
        allowed[:, -1] = False
    elif masked == "causal":
        allowed = allowed.tril()

    def parts(x: Tensor) -> list[Tensor]:
        return [t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in F.linear(x, w_in, b_in).chunk(3, -1)]

    def written_out(x: Tensor) -> Tensor:
        q, k, v = parts(x)
        scores = (q @ k.transpose(-2, -1)) * (1 / 3**0.5)
        weights = F.softmax(scores.masked_fill(~allowed, -torch.inf), dim=-1)
        return F.linear((weights @ v).transpose(1, 2).flatten(2), w_out, b_out)

    def fused(x: Tensor) -> Tensor:
        out = F.scaled_dot_product_attention(*parts(x), attn_mask=allowed)
        return F.linear(out.transpose(1, 2).flatten(2), w_out, b_out)

    def of_torch(x: Tensor) -> Tensor:
        out: Tensor = layer(x, x, x, attn_mask=~allowed, need_weights=False)[0]
        return out

    x = normal(2, tokens, width, seed=seed + 4)
    recordings = [record(function, x) for function in (written_out, fused, of_torch)]
    start = normal(*recordings[0].logits.shape, seed=seed + 5)
    for rule in RULES.values():
        first, second, third = (signal(recording, rule, start) for recording in recordings)
        assert_near(second, first, 1e-6 if rule.is_relevance else 1e-11)
        assert_near(third, first, 1e-6 if rule.is_relevance else 1e-11)


# --- rules ----------------------------------------------------------------------------------------------------------


@few
@given(models, seeds, st.sampled_from(sorted(RULES)))
def test_a_rule_made_in_python_is_the_rule_with_a_name(which: Which, seed: int, name: str) -> None:
    own = replace(RULES[name], name="custom", title="custom rule", source=Citation())
    method = "lrp" if own.is_relevance else "fullgrad_plus"
    result = explainers.explain(model_of(*which), input_of(which[0], seed), target=1, methods=[f"{method}:{name}", (method, own)])
    named, made = result.maps
    assert made.rule == "custom"
    assert torch.equal(named.scores, made.scores)
