"""Maps of tokens, pooling, constants beside the tokens, constants inside attention: what convolutional and late-token models need."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.autograd import relevance as rel
from explainers.autograd.recording import Recording
from explainers.autograd.rules import RULES
from explainers.models.tokens import as_given, as_tokens
from tests.explainers.support.toys import record, signal
from tests.explainers.support.wrapped import inputs, read, trace_of, wrapped
from tests.families import FAMILIES

B, S, D = 2, 5, 6


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("channels", "shape"), [(3, (2, 3, 4, 5)), (1, (2, 5, 3, 4))])
def test_a_map_of_tokens_is_read_row_by_row_and_put_back(channels: int, shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    tokens = as_tokens(x, channels)
    assert tokens.shape == (2, 12, 5)
    second_row_third_column = x[:, 1, 2] if channels == 3 else x[:, :, 1, 2]
    assert torch.equal(tokens[:, 1 * 4 + 2], second_row_third_column)
    assert torch.equal(as_given(tokens, x.shape, channels), x)
    row = normal(2, 12, 5)
    assert as_tokens(row, 2) is row
    assert as_given(row, row.shape, 2) is row


def pooled_by_loops(x: Tensor, r: Tensor, size: int, stride: int) -> Tensor:
    """Of each window, the terms of its sum's sign share what it got, in proportion."""
    out = torch.zeros_like(x)
    for b, c, i, j in torch.cartesian_prod(*(torch.arange(n) for n in r.shape)).tolist():
        window = (b, c, slice(i * stride, i * stride + size), slice(j * stride, j * stride + size))
        sign = -1 if x[window].sum() < 0 else 1
        terms = (sign * x[window]).clamp(min=0)
        out[window] += terms / terms.sum() * r[b, c, i, j]
    return out


@pytest.mark.parametrize("rule", ["deep_taylor", "lrp"])
@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 1), (3, 2)])
def test_relevance_of_average_pooling_window_by_window(size: int, stride: int, rule: str) -> None:
    x = normal(B, 3, 7, 6, seed=1)
    recording = record(lambda x: F.avg_pool2d(x, size, stride), x)
    seed = normal(*recording.logits.shape, seed=2)
    r = seed.view(B, 3, (7 - size) // stride + 1, (6 - size) // stride + 1)
    torch.testing.assert_close(signal(recording, RULES[rule], seed), pooled_by_loops(x, r, size, stride), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("function", [lambda x: F.adaptive_avg_pool2d(x, 1), lambda x: x.mean((2, 3))], ids=["pool", "mean"])
def test_pooling_to_one_is_a_mean_under_every_rule(function) -> None:  # type: ignore[no-untyped-def]
    x = normal(B, 3, 4, 5, seed=3)
    recording, other = record(function, x), record(lambda x: x.sum((-2, -1)) / 20, x)
    seed = normal(B, 3, seed=4)
    for rule in RULES.values():
        torch.testing.assert_close(signal(recording, rule, seed), signal(other, rule, seed), rtol=1e-7, atol=1e-9)


def test_relevance_of_overlapping_windows_that_are_added_up_is_conserved() -> None:
    x = normal(B, 4 * 9, 12, seed=5)
    recording = record(lambda x: F.fold(x, (4, 3), 3, padding=1), x)
    seed = normal(*recording.logits.shape, seed=6)
    torch.testing.assert_close(signal(recording, RULES["deep_taylor"], seed).sum((1, 2)), seed.sum(1), rtol=1e-5, atol=1e-6)


def test_relevance_of_a_convolution_is_that_of_its_windows() -> None:
    x, conv = normal(B, 4, 5, 6, seed=7), nn.Conv2d(4, 3, 3, padding="same").double()
    recording = record(conv, x)
    seed = normal(*recording.logits.shape, seed=8)
    found = signal(recording, RULES["deep_taylor"], seed)
    windows, back = F.unfold(x, 3, padding=1).mT, lambda t: F.fold(t.mT, (5, 6), 3, padding=1)
    flat = conv.weight.detach().flatten(1)
    r = seed.view(B, 3, 30).mT
    expected = back(rel.split_linear(windows, flat, r, F.linear, torch.matmul))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


def test_a_class_token_laid_before_the_tokens_is_a_bias_and_takes_its_share_of_relevance() -> None:
    token, value, head = normal(1, 1, D, seed=1), normal(D, 4 * D, seed=2).abs(), normal(4 * D, 3, seed=3)

    def function(x: Tensor) -> Tensor:
        x = torch.cat([token.expand(len(x), -1, -1), x], 1)
        return F.scaled_dot_product_attention(x[:, None, :1], x[:, None], (x @ value)[:, None])[:, 0, 0] @ head

    recording = record(function, normal(B, S, D, seed=4))
    seed = torch.zeros_like(recording.logits)
    seed[:, 1] = 1
    libra = recording.cached_backward(RULES["libra"], seed)
    total = (recording.block_inputs[0].detach() * libra.block_inputs[0]).sum((1, 2)) + libra.bias.sum(1) + libra.unplaced
    torch.testing.assert_close(total, recording.logits[:, 1].detach())
    assert libra.unplaced.abs().min() > 1e-3
    taylor = recording.cached_backward(RULES["deep_taylor"], seed)
    got = taylor.block_inputs[0].sum((1, 2))
    assert (got < 1 - 1e-3).all()  # the query and one key are the token's
    torch.testing.assert_close(got + taylor.unplaced, torch.ones(B).double(), rtol=1e-5, atol=1e-5)


def test_constants_inside_attention_are_no_biases_of_the_tokens() -> None:
    """Position biases on the scores, a linear layer with a bias over the heads of the weights: constant under Libra, which is complete."""
    heads, position = nn.Linear(2, 2).double(), normal(2, S, S, seed=3)
    project = nn.Linear(D, 3 * D).double()

    def function(x: Tensor) -> Tensor:
        q, k, v = project(x).unflatten(-1, (3, 2, D // 2)).permute(2, 0, 3, 1, 4)
        scores = heads((q @ k.mT + position).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        weights = F.dropout(heads(scores.softmax(-1).permute(0, 2, 3, 1)).permute(0, 3, 1, 2), 0.5, False)
        return (weights @ v).transpose(1, 2).flatten(2).mean(1)

    recording = record(function, normal(B, S, D, seed=4))
    total = read(recording, "fullgrad", "libra").sum(1) + trace_of(recording, "libra").signals.unplaced
    torch.testing.assert_close(total, recording.logits[:, 1].detach())
    plain = record(lambda x: (x @ x.mT + position[0]).softmax(-1).sum(1), normal(B, S, D, seed=5))
    signals = trace_of(plain, "gradient").signals
    assert not signals.bias.any()
    assert not signals.unplaced.any()


@pytest.mark.parametrize("name", ["swin", "convnext", "resnet", "xcit"])
def test_biases_in_a_map_are_told_by_patch(name: str) -> None:
    """Each block's convolutions, norms and linear layers have biases; what has no patch is that of the head, and of windows."""
    recording = Recording(wrapped(name), inputs(name))
    signals = trace_of(recording, "libra").signals
    assert (signals.bias != 0).all()


@pytest.mark.parametrize(("name", "size"), [("resnet", (100, 130)), ("convnext", (160, 96))])
def test_the_grid_is_that_of_the_image_at_hand(name: str, size: tuple[int, int]) -> None:
    recording = Recording(wrapped(name), {"pixel_values": torch.zeros(1, 3, *size).double()})
    assert recording.layout.grid is not None
    assert recording.layout.grid[0] * recording.layout.grid[1] == recording.block_inputs[0].shape[1]
    assert recording.layout.grid == ((4, 5) if name == "resnet" else (5, 3))


def test_pixels_that_a_linear_layer_takes_by_the_patch_get_relevance_by_their_bounds() -> None:
    """The z^B rule, as for a patch embedding that is a convolution."""
    model, tensors = wrapped("hf-siglip2"), inputs("hf-siglip2")
    seen: dict[str, Tensor] = {}

    def keep(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        seen["patches"] = args[0].detach()
        output.register_hook(lambda r: seen.__setitem__("relevance", r))

    embedding = model.module.vision_model.embeddings.patch_embedding
    handle = embedding.register_forward_hook(keep)
    recording = Recording(model, tensors, pixels=True)
    handle.remove()
    found = trace_of(recording, "deep_taylor").signals.pixels
    assert found is not None
    expected = rel.split_image_linear(seen["patches"], embedding.weight.detach(), seen["relevance"], F.linear, torch.matmul)
    by_patch = found.unflatten(-1, (4, 8)).unflatten(-3, (4, 8)).sum((1, 3, 5)).flatten(1)
    torch.testing.assert_close(by_patch, expected.sum(-1), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.sum((1, 2, 3)), seen["relevance"].sum((1, 2)), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.kind != "text"])
def test_the_gradient_at_the_pixels_is_autograds(name: str) -> None:
    """Through stems of convolutions, batch normalisation and pooling, and through patch embeddings of all kinds."""
    model, tensors = wrapped(name), inputs(name)
    recording = Recording(model, tensors, pixels=True)
    pixels = tensors["pixel_values"].clone().requires_grad_()
    (expected,) = torch.autograd.grad(model.forward({**tensors, "pixel_values": pixels})[:, 1].sum(), pixels)
    found = trace_of(recording, "gradient").signals.pixels
    assert found is not None
    assert float((found - expected).abs().max()) <= 1e-9 * float(expected.abs().max())
    for rule in RULES:
        assert not trace_of(recording, rule).signals.unruled, rule


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "eager"])
def test_weights_over_channels_are_not_taken_for_weights_over_tokens(fused: bool) -> None:
    """Also where a head has as many channels as there are tokens, 12 in both of these."""
    for name in ("xcit", "siglip-gap"):
        module = FAMILIES[name].build().double()
        for part in module.modules():
            if hasattr(part, "fused_attn"):
                part.fused_attn = fused
        recording = Recording(explainers.wrap(module), inputs(name))
        assert recording.block_inputs[0].shape[1] == 12 == 24 // 2
        assert [a is None for a in recording.attentions] == [name == "xcit"] * 2
