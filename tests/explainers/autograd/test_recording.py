"""One recording of every family: its value and its rules."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.autograd import relevance
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES, gradient_rules
from explainers.autograd.saved_values import _Kept
from tests.explainers.support.double import in_double
from tests.explainers.support.garbage import without_collection
from tests.explainers.support.toys import record, signal, toy
from tests.explainers.support.wrapped import all_signals, every_family, inputs, one_hot, read, trace_of, wrapped
from tests.families import FAMILIES

NAMES = list(FAMILIES)
# what they do in attention and at products and linear maps differs; attention is written without norms and activations
ATTENTION_RULES = list({(rule.attention, rule.product, rule.linear): rule for rule in reversed(RULES.values())}.values())
OWN_RULES = tuple(name for name in RULES if "-" not in name)  # those that are not another one with a field changed


in_turn = pytest.mark.parametrize("name", NAMES, scope="module")  # all tests of a family, then those of the next


@lru_cache(maxsize=1)
def together(name: str) -> Recording:
    """Three samples of a family: tests ask it for the same signals, which it computes once."""
    return Recording(wrapped(name), inputs(name, 3))


def relative(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).detach().abs().max() / theirs.detach().abs().max().clamp(min=1e-300))


@every_family
@pytest.mark.parametrize(
    ("dtype", "bound"),
    [pytest.param(torch.float32, 1e-6, id="float32", marks=pytest.mark.slow), pytest.param(torch.float64, 1e-12, id="float64")],
)
def test_logits_are_the_models_own(name: str, dtype: torch.dtype, bound: float) -> None:
    model, tensors = wrapped(name, dtype), inputs(name, 3, dtype)
    with torch.no_grad():
        own = model.forward(tensors)
    assert relative(Recording(model, tensors).logits, own) < bound


@in_turn
@pytest.mark.parametrize(
    ("dtype", "bound"),
    [pytest.param(torch.float32, 1e-4, id="float32", marks=pytest.mark.slow), pytest.param(torch.float64, 1e-10, id="float64")],
)
def test_libra_fullgrad_sums_to_the_logit(name: str, dtype: torch.dtype, bound: float) -> None:
    recording = together(name) if dtype == torch.float64 else Recording(wrapped(name, dtype), inputs(name, 3, dtype))
    logits = recording.logits.detach()
    for target in range(logits.shape[1]):
        total = read(recording, "fullgrad", "libra", target).sum(1) + trace_of(recording, "libra", target).signals.unplaced
        assert float((total - logits[:, target]).abs().max()) < bound * float(logits.abs().max())


@every_family
def test_gradient_of_the_blocks_is_autograds(name: str) -> None:
    """At x^1 and at every attention map: the gradient by the operators against torch's own of the same model."""
    model, tensors = wrapped(name), inputs(name, 2)
    recording = Recording(model, tensors)
    signals = recording.cached_backward(RULES["gradient"], one_hot(recording))
    x1: list[Tensor] = []

    def enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if x1:
            return None
        x1.append(model.block_kind.input_tokens(args, kwargs).detach().requires_grad_())
        return model.block_kind.with_input_tokens(args, kwargs, x1[0] * 1)  # a block may write into what it is given

    handle = model.entry.register_forward_pre_hook(enter, with_kwargs=True)
    try:
        with torch.enable_grad():
            logits = model.forward(tensors)
    finally:
        handle.remove()
    (expected,) = torch.autograd.grad(logits, x1, one_hot(recording))
    assert relative(signals.block_inputs[0], expected) < 1e-9


@pytest.mark.slow
@in_turn
def test_every_block_accounts_for_the_logit_with_the_biases_after_it(name: str) -> None:
    """Libra is complete at every depth: input times gradient at block l grows by the biases of the blocks before it alone."""
    recording = together(name)
    signals = trace_of(recording, "libra").signals
    own = [(x.detach() * g).sum((1, 2)) for x, g in zip(recording.block_inputs, signals.block_inputs, strict=True)]
    biases = signals.bias.sum(1) + signals.unplaced
    whole = own[0] + biases
    assert relative(whole, recording.logits[:, 1].detach()) < 1e-8
    last = (recording.block_outputs[-1].detach() * signals.block_outputs[-1]).sum((1, 2))
    assert bool(last.isfinite().all())


@pytest.mark.slow
@every_family
def test_deep_taylor_relevance_sums_to_one_at_every_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what a class token got that comes after the blocks: what constants beside the tokens get is counted.

    In some models outputs of a linear map have no pair of positive product; what they got goes nowhere (so eq. 5), of either sign.

    There the sum may differ from 1, but by no more than that: what such outputs got is counted here and must explain the difference.
    """
    lost = [torch.zeros(())]
    split = relevance.split_linear

    def counting(
        x: Tensor,
        weight: Tensor,
        r: Tensor,
        forward: Callable[..., Tensor],
        backward: Callable[..., Tensor],
        inputs: relevance.Inputs,
        product: Tensor | None,
    ) -> Tensor:
        out = split(x, weight, r, forward, backward, inputs, product)
        lost[0] = lost[0] + r.reshape(2, -1).sum(1) - out.reshape(2, -1).sum(1)
        none = forward(x.clamp(min=0), weight.clamp(min=0)) + forward(x.clamp(max=0), weight.clamp(max=0)) == 0
        kept = (r * ~none).reshape(2, -1).sum(1)
        torch.testing.assert_close(out.reshape(2, -1).sum(1), kept, rtol=1e-4, atol=1e-4)
        return out

    if FAMILIES[name].lossy:
        monkeypatch.setattr(relevance, "split_linear", counting)
    recording = Recording(wrapped(name), inputs(name, 2))
    signals = recording.cached_backward(RULES["deep_taylor"], one_hot(recording))
    sums = torch.stack([x.sum((1, 2)) for x in (*signals.block_inputs, *signals.block_outputs)])
    sums = sums + signals.bias.sum(1) + signals.unplaced
    if FAMILIES[name].lossy:
        assert bool(((sums > 0.9) & (sums < 1.1)).all())
        torch.testing.assert_close(sums[0] + lost[0], torch.ones(2).double(), rtol=1e-5, atol=1e-5)
    else:
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@in_turn
def test_a_samples_signals_do_not_depend_on_its_neighbours(name: str) -> None:
    """Under every rule; padding counts as a neighbour."""
    model, tensors, whole = wrapped(name), inputs(name, 3), together(name)
    for sample in (1, 2) if model.kind == "text" else (1,):  # of texts the last is shorter
        own = {key: value[sample : sample + 1] for key, value in tensors.items()}
        if model.kind == "clip":
            own = {**tensors, "pixel_values": own["pixel_values"]}  # the prompts are the classes
        elif model.kind == "text":
            own = {key: value[:, : int(tensors["attention_mask"][sample].sum())] for key, value in own.items()}
        alone = Recording(model, own)
        assert relative(alone.logits[0], whole.logits[sample]) < 1e-10
        tokens = alone.block_inputs[0].shape[1]
        for rule in OWN_RULES:
            a = alone.cached_backward(RULES[rule], one_hot(alone))
            b = whole.cached_backward(RULES[rule], one_hot(whole))
            for here, there in zip(all_signals(a), all_signals(b), strict=True):
                piece = there[sample : sample + 1]
                if piece.dim() == 4:
                    piece = piece[..., :tokens, :tokens]
                elif piece.dim() > 1:
                    padding = piece[:, tokens:]
                    assert float(padding.abs().max() if padding.numel() else 0) <= 1e-9 * float(there.abs().max()), rule
                    piece = piece[:, :tokens]
                scale = float(piece.abs().max())
                assert float((here - piece).abs().max()) <= 1e-6 * scale + 1e-12, rule


@pytest.mark.slow
@in_turn
def test_the_same_twice(name: str) -> None:
    first, second = together(name), Recording(wrapped(name), inputs(name, 3))
    for rule in ("libra", "deep_taylor"):
        for a, b in zip(
            all_signals(first.cached_backward(RULES[rule], one_hot(first))),
            all_signals(second.cached_backward(RULES[rule], one_hot(second))),
            strict=True,
        ):
            assert torch.equal(a, b)


def test_a_rule_leaves_nothing_behind_for_the_next() -> None:
    recording = Recording(wrapped("vit"), inputs("vit"))
    seed = one_hot(recording)
    before = all_signals(recording.cached_backward(RULES["gradient"], seed))
    for rule in RULES.values():
        recording.cached_backward(rule, seed)
    recording.forget_signals()
    for a, b in zip(before, all_signals(recording.cached_backward(RULES["gradient"], seed)), strict=True):
        assert torch.equal(a, b)


# --- ways of writing attention --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if FAMILIES[n].library == "transformers" and FAMILIES[n].heads])
def test_eager_and_fused_attention_of_transformers_give_equal_maps(name: str) -> None:
    """The eager one casts its softmax to float32, which is not what is asked here: that cast is left out."""
    found: dict[str, Recording] = {wrapped(name).module.config._attn_implementation: Recording(wrapped(name), inputs(name))}
    for implementation in {"eager", "sdpa"} - found.keys():
        module = FAMILIES[name].build().double()
        module.set_attn_implementation(implementation)
        model = explainers.wrap(module)
        found[implementation] = Recording(replace(model, forward=in_double(model.forward)), inputs(name))
    _assert_equal_maps(found["eager"], found["sdpa"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vit", "eva02", "eva02-base", "beitv2", "siglip", "dinov3-token", "volo"])
def test_eager_and_fused_attention_of_timm_give_equal_maps(name: str) -> None:
    found = []
    for fused in (False, True):
        module = FAMILIES[name].build().double()
        switched = [m for m in module.modules() if hasattr(m, "fused_attn")]
        assert switched
        for part in switched:
            part.fused_attn = fused
        found.append(Recording(explainers.wrap(module), inputs(name)))
    _assert_equal_maps(*found)


def _assert_equal_maps(eager: Recording, fused: Recording) -> None:
    """For relevance up to its stabiliser of 1e-9, which sees scores before or after their scaling. Rows of padding may be anything."""
    assert relative(fused.logits, eager.logits) < 1e-10
    for a, b in zip(eager.attentions, fused.attentions, strict=True):
        assert a is not None
        assert b is not None
        rows = eager.mask[:, None, :, None]
        assert relative(b * rows, a * rows) < 1e-9
    for rule in ATTENTION_RULES:
        seed = one_hot(eager)
        for a, b in zip(all_signals(eager.cached_backward(rule, seed)), all_signals(fused.cached_backward(rule, seed)), strict=True):
            bound = 1e-3 if rule.is_relevance or rule.linear == "epsilon" else 1e-8
            assert float((a - b).abs().max()) <= bound * float(a.abs().max()) + 1e-12, rule.name


# --- what has no rule is said ---------------------------------------------------------------------------------------

UNRULED: dict[str, Callable[[Tensor], Tensor]] = {
    "sin": torch.sin,
    "exp": torch.exp,
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "softplus": F.softplus,
    "cumprod": lambda x: x.cumprod(1),
    "einsum of complex numbers": lambda x: torch.einsum("bsd,btd->bst", x.to(torch.complex128), x.to(torch.complex128)).real,
    "lp_pool1d": lambda x: F.lp_pool1d(x, 2.0, 2),
    "abs": torch.abs,
    "logsumexp": lambda x: x.logsumexp(-1),
    "prod": lambda x: x.prod(-1),
    "sqrt": lambda x: x + (x.abs().detach() + x.square()).sqrt(),
    "reciprocal": lambda x: x + torch.reciprocal(x.square() + 1),
    "norm": lambda x: x.norm(dim=-1),
    "floor-free division": lambda x: x + 1 / (x.square() + 1),
}


@pytest.mark.parametrize("name", UNRULED)
def test_a_function_without_a_rule_is_named_and_gets_the_ordinary_gradient(name: str) -> None:
    x = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0)).double()
    recording = record(UNRULED[name], x)
    seed = torch.ones_like(recording.logits)
    assert not recording.cached_backward(RULES["gradient"], seed).unruled
    for rule in ("libra", "conservative", "attnlrp"):
        assert recording.cached_backward(RULES[rule], seed).unruled, rule
        found = signal(recording, RULES[rule], seed)
        if name in {"sin", "exp", "log_softmax", "softplus", "cumprod"}:
            assert torch.allclose(found, signal(recording, RULES["gradient"], seed))


def test_the_note_reaches_the_result() -> None:
    x = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))
    result = explainers.explain(toy(torch.sin), {"x": x}, target=0, methods=["input_x_gradient:libra", "input_x_gradient"])[0]
    assert any("sin" in note for note in result["input_x_gradient:libra"].notes)
    assert not result["input_x_gradient"].notes


@pytest.mark.slow
@in_turn
def test_no_family_uses_a_function_without_a_rule(name: str) -> None:
    recording = together(name)
    for rule in OWN_RULES:
        assert not recording.cached_backward(RULES[rule], one_hot(recording)).unruled, rule


# --- what cannot be recorded ----------------------------------------------------------------------------------------


def test_a_model_that_detaches_is_refused() -> None:
    with pytest.raises(ExplainerError, match="No gradient goes from the model"):
        record(lambda x: x.detach() * 2, torch.randn(2, 3, 4))


def test_a_model_whose_blocks_do_not_run_is_refused() -> None:
    model = toy(lambda x: x * 2)
    model.blocks = [nn.Identity()]
    with pytest.raises(ExplainerError, match="blocks"):
        Recording(model, {"x": torch.randn(2, 3, 4)})


def test_a_model_that_mixes_its_samples_is_refused_where_biases_are_counted() -> None:
    recording = record(lambda x: torch.stack([F.linear(row, torch.eye(4), torch.ones(4)) for row in x]), torch.randn(2, 3, 4))
    with pytest.raises(ExplainerError, match="mixes its samples"):
        recording.cached_backward(RULES["libra"], torch.ones_like(recording.logits))


# --- where biases go ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", [0, 1])
def test_a_bias_of_the_head_belongs_to_no_patch_even_when_there_are_as_many_classes_as_tokens(prefix: int) -> None:
    """It goes to the first prefix token, or outside the map."""
    tokens = 4
    head = nn.Linear(6, tokens).double()
    x = torch.randn(2, tokens, 6, generator=torch.Generator().manual_seed(0)).double()
    recording = record(lambda x: head(x.mean(1)), x, prefix)
    seed = torch.ones(2, tokens).double()
    signals = recording.cached_backward(RULES["libra"], seed)
    total = head.bias.detach().sum().expand(2)
    if prefix:
        torch.testing.assert_close(signals.bias[:, 0], total)
        assert not signals.bias[:, 1:].any()
    else:
        torch.testing.assert_close(signals.unplaced, total)
        assert not signals.bias.any()


def test_a_bias_of_a_pooler_as_wide_as_the_text_is_long_goes_to_the_first_token() -> None:
    """A pooled vector (B, D) has no axis of tokens, whatever D is."""
    tokens = 6
    pooler, head = nn.Linear(6, tokens).double(), nn.Linear(tokens, 3).double()
    x = torch.randn(2, tokens, 6, generator=torch.Generator().manual_seed(0)).double()
    recording = record(lambda x: head(torch.tanh(pooler(x[:, 0]))), x, prefix=1)
    signals = recording.cached_backward(RULES["libra"], one_hot(recording))
    assert not signals.bias[:, 1:].any()
    total = (recording.block_inputs[0].detach() * signals.block_inputs[0]).sum((1, 2)) + signals.bias.sum(1)
    torch.testing.assert_close(total, recording.logits[:, 1].detach())


@pytest.mark.parametrize("rule", gradient_rules())
def test_biases_before_the_first_block_are_part_of_x1(rule: str) -> None:
    recording = Recording(wrapped("vit"), inputs("vit"), pixels=True)
    plain = Recording(wrapped("vit"), inputs("vit"))
    a, b = recording.cached_backward(RULES[rule], one_hot(recording)), plain.cached_backward(RULES[rule], one_hot(plain))
    torch.testing.assert_close(a.bias, b.bias, rtol=1e-10, atol=1e-12)
    assert a.pixels is not None
    assert b.pixels is None


@pytest.mark.slow
@pytest.mark.parametrize("family", NAMES)
def test_a_recording_that_nobody_holds_is_freed_with_its_graph(family: str) -> None:
    """At once, without the garbage collector, which cannot see through autograd's nodes: else every explanation would stay in memory."""
    model, tensors = wrapped(family, torch.float32), inputs(family, 1, torch.float32)
    with without_collection():
        recording = Recording(model, tensors)
        seed = torch.zeros_like(recording.logits)
        seed[:, 0] = 1
        for rule in ("gradient", "attnlrp", "deep_taylor"):
            recording.cached_backward(RULES[rule], seed)
        held = [weakref.ref(tensor) for tensor in (recording.logits, *recording.block_inputs)]
        del recording
        assert [reference() for reference in held] == [None] * len(held)


def test_what_is_kept_for_the_way_back_is_freed_with_its_recording() -> None:
    """At once too: it is more than all the rest."""
    model, tensors = wrapped("vit", torch.float32), inputs("vit", 1, torch.float32)

    def kept() -> int:
        return sum(type(each) is _Kept for each in gc.get_objects())

    with without_collection():
        before = kept()
        recording = Recording(model, tensors)
        assert kept() > before
        del recording
        assert kept() == before
