"""Operators where a formula has a corner: nothing to attend to, gates at zero, modules of torch with a path of their own."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from explainers.autograd.operators import Softmax
from explainers.autograd.rounding import RelevanceWithError, error_of, value_of
from explainers.autograd.rows import backward_on_nonzero_rows
from explainers.autograd.rules import RULES
from tests.explainers.support.operator_cases.attention import BOOLEAN, qkv
from tests.explainers.support.operator_cases.case import B, D, S, X, assert_close, seed_for, seeded
from tests.explainers.support.toys import autograd, record, signal


def test_a_query_that_may_attend_nothing_gives_zero_and_no_nan() -> None:
    """As the fused kernel does, for boolean and for additive masks, in the value and in every rule."""
    mask = BOOLEAN.clone()
    mask[2] = False
    for given in (mask, torch.zeros(S, S).double().masked_fill(~mask, -torch.inf)):

        def function(x: Tensor, given: Tensor = given) -> Tensor:
            q, k, v = qkv(x)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=given).transpose(1, 2)

        recording = record(function, X)
        assert_close(recording.logits, function(X).flatten(1))
        assert not recording.logits.view(B, S, -1)[:, 2].any()
        for rule in RULES.values():
            assert bool(signal(recording, rule, seed_for(recording)).isfinite().all())
        seed = seed_for(recording)
        assert_close(signal(recording, RULES["gradient"], seed), autograd(function, X, seed))


def test_attention_maps_are_what_eager_attention_would_show() -> None:
    def function(x: Tensor) -> Tensor:
        q, k, v = qkv(x)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=BOOLEAN).transpose(1, 2)

    recording = record(function, X)
    q, k, _ = qkv(X)
    expected = (q @ k.mT / math.sqrt(3)).masked_fill(~BOOLEAN, -torch.inf).softmax(-1)
    (weights,) = [node.output for node in recording.nodes.ran if node.operator is Softmax]
    assert weights is not None
    assert_close(weights, expected)


def test_transformer_encoder_layer_of_torch() -> None:
    """It calls nn.MultiheadAttention, LayerNorm and ReLU, and has a fast path that must not be taken unseen."""
    layer = seeded(lambda: nn.TransformerEncoderLayer(D, 2, 8, batch_first=True, norm_first=True))
    recording = record(layer, X)
    with torch.no_grad():
        assert_close(recording.logits, layer(X).flatten(1))
    seed = seed_for(recording)
    assert_close(signal(recording, RULES["gradient"], seed), autograd(layer, X, seed))


def test_gates_near_zero_take_the_slope_there() -> None:
    x = X.clone()
    x[0, 0] = 0.0
    x[0, 1] = 1e-9
    recording = record(F.gelu, x)
    ones = torch.ones_like(recording.logits)
    found = signal(recording, RULES["libra"], ones)
    assert_close(found[0, 0], torch.full((D,), 0.5).double())
    torch.testing.assert_close(found[0, 1], torch.full((D,), 0.5).double(), rtol=0, atol=1e-8)


def test_relevance_of_attention_is_a_quarter_a_quarter_and_a_half() -> None:
    """Queries and keys get a quarter each, values half."""
    parts: dict[str, Tensor] = {}

    def function(x: Tensor) -> Tensor:
        q, k, v = (t * 1.0 for t in qkv(x))
        for name, t in zip("qkv", (q, k, v), strict=True):
            t.register_hook(lambda signal, name=name: parts.__setitem__(name, signal.sum((1, 2, 3))))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)

    recording = record(function, X)
    seed = seed_for(recording)
    signal(recording, RULES["deep_taylor"], seed)
    total = seed.sum(1)
    for name, share in {"q": 0.25, "k": 0.25, "v": 0.5}.items():
        assert_close(parts[name], share * total, 1e-5)


@pytest.mark.parametrize(("live", "taken"), [((), 1), ((0,), 2), ((0, 3), 4), (tuple(range(6)), 12)])
def test_rows_without_a_signal_are_left_out(live: tuple[int, ...], taken: int) -> None:
    """Of two samples of six tokens the ``live`` ones have a signal; with that of the others left out, numbers are the same."""
    generator = torch.Generator().manual_seed(0)
    x, arrived, weight = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((2, 6, 3), (2, 6, 4), (4, 3)))
    arrived[:, [token for token in range(6) if token not in live]] = 0
    rows = []

    def back(arrived: Tensor, x: Tensor) -> Tensor:
        rows.append(arrived.shape[:-1].numel())
        return x * (arrived @ weight)

    torch.testing.assert_close(backward_on_nonzero_rows(back, arrived, x), x * (arrived @ weight))
    assert rows == [taken]
    carried = backward_on_nonzero_rows(
        lambda given, x: RelevanceWithError(x * (value_of(given) @ weight), error_of(given)[..., :3]),
        RelevanceWithError(arrived, arrived.abs()),
        x,
    )
    torch.testing.assert_close(value_of(carried), x * (arrived @ weight))
    torch.testing.assert_close(error_of(carried), arrived.abs()[..., :3])
