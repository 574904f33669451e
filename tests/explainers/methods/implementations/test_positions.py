"""PA-LRP against its formulas written out: relevance handed from layer to layer of a ViT, by pairs, without the engine."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers import ExplainerError
from explainers.autograd.recording import Recording
from explainers.methods.implementations.positions import ROTARY
from tests.explainers.support.wrapped import inputs, wrapped

TARGET = 1


def gamma_rule(x: Tensor, weight: Tensor, bias: Tensor, r: Tensor, strength: float) -> Tensor:
    """R_j = sum_i x_j w_ij (1 + γ where the product has the sign of output i) / (their sum + the bias, likewise) R_i."""
    y = x @ weight.mT + bias
    pairs = x[..., None, :] * weight
    pairs = pairs * (1 + strength * (pairs.sign() == y.sign()[..., None]))
    whole = pairs.sum(-1) + bias * (1 + strength * (bias.sign() == y.sign()))
    return (pairs * (r / (whole + 1e-6 * whole.sign()))[..., None]).sum(-2)


def plain_rule(x: Tensor, weight: Tensor, bias: Tensor, r: Tensor) -> Tensor:
    """R_j = sum_i x_j w_ij / (x w_i + b_i) R_i."""
    return x * ((r / (x @ weight.mT + bias)) @ weight)


def norm_rule(x: Tensor, norm: nn.LayerNorm, r: Tensor) -> Tensor:
    """LayerNorm with its scale constant is linear: its dense matrix, with the bias in the denominator."""
    width = x.shape[-1]
    inverse = (x.var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt()
    matrix = (torch.eye(width, dtype=x.dtype) - 1 / width) * norm.weight[:, None]
    pairs = inverse[..., None] * matrix * x[..., None, :]
    return (pairs * (r / (pairs.sum(-1) + norm.bias))[..., None]).sum(-2)


def sum_rule(parts: list[Tensor], r: Tensor) -> list[Tensor]:
    return [part * r / sum(parts) for part in parts]


def attention(block: nn.Module, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights (B, H, S, S), values (B, H, S, d), and what the projection takes (B, S, D)."""
    q, k, v = (t.unflatten(-1, (block.attn.num_heads, -1)).transpose(1, 2) for t in block.attn.qkv(y).chunk(3, -1))
    weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
    return weights, v, (weights @ v).transpose(1, 2).flatten(2)


def written_out(module: nn.Module, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance of the pixels (B, height, width), and of each patch's position embedding (B, N), from 1 at the target."""
    size = module.patch_embed.proj.kernel_size[0]
    rows, columns = pixels.shape[2] // size, pixels.shape[3] // size
    seen = F.unfold(pixels, size, stride=size).mT  # (B, N, 3 size size)
    kernel, kernel_bias = module.patch_embed.proj.weight.flatten(1), module.patch_embed.proj.bias
    tokens = torch.cat([module.cls_token.expand(len(pixels), -1, -1), seen @ kernel.mT + kernel_bias], 1)
    x = tokens + module.pos_embed
    kept = []
    for block in module.blocks:
        mid = x + block.attn(block.norm1(x))
        kept.append((x, mid))
        x = mid + block.mlp(block.norm2(mid))
    read = module.norm(x)[:, 0]
    start = torch.zeros(len(pixels), module.num_classes, dtype=x.dtype)
    start[:, TARGET] = 1
    r = torch.zeros_like(x)
    r[:, 0] = gamma_rule(read, module.head.weight, module.head.bias, start, 0.05)
    after = torch.where(r != 0, r, 0.0)
    r = torch.zeros_like(x)
    r[:, :1] = norm_rule(x[:, :1], module.norm, after[:, :1])
    for block, (before, mid) in zip(reversed(module.blocks), reversed(kept), strict=True):
        y = block.norm2(mid)
        hidden = block.mlp.fc1(y)
        stays, through = sum_rule([mid, block.mlp(y)], r)
        through = gamma_rule(F.gelu(hidden), block.mlp.fc2.weight, block.mlp.fc2.bias, through, 0.05)  # GELU hands it on as it is
        through = gamma_rule(y, block.mlp.fc1.weight, block.mlp.fc1.bias, through, 0.05)
        r = stays + norm_rule(mid, block.norm2, through)
        y = block.norm1(before)
        weights, values, out = attention(block, y)
        stays, through = sum_rule([before, block.attn(y)], r)
        through = plain_rule(out, block.attn.proj.weight, block.attn.proj.bias, through)
        each = (through / out).unflatten(-1, (block.attn.num_heads, -1)).transpose(1, 2)
        to_values = values * (weights.mT @ each) / 2  # the weights take the other half, and hand nothing on
        to_values = to_values.transpose(1, 2).flatten(2)
        width = y.shape[-1]
        through = plain_rule(y, block.attn.qkv.weight[2 * width :], block.attn.qkv.bias[2 * width :], to_values)
        r = stays + norm_rule(before, block.norm1, through)
    shown, placed = sum_rule([tokens, module.pos_embed.expand_as(tokens)], r)
    back = gamma_rule(seen, kernel, kernel_bias, shown[:, 1:], 100)
    colours = F.fold(back.mT, pixels.shape[2:], size, stride=size)
    assert rows * columns == placed.shape[1] - 1
    return colours.sum(1), placed[:, 1:].sum(-1)


@pytest.fixture(scope="module")
def relevance() -> tuple[Tensor, Tensor]:
    module = wrapped("vit").module
    with torch.no_grad():
        return written_out(module, inputs("vit")["pixel_values"])


@pytest.mark.parametrize("part", ["both", "pixels", "positions"])
def test_pa_lrp_is_what_its_formulas_give(part: str, relevance: tuple[Tensor, Tensor]) -> None:
    """Without the ε of 1e-6 and 1e-8 that the authors' code adds to denominators."""
    model, tensors = wrapped("vit"), inputs("vit")
    results = explainers.explain(model, tensors, target=TARGET, methods=[f"pa_lrp?part={part}"])
    rows, columns = model.layout_of(tensors).grid or (0, 0)
    own, placed = relevance
    height, width = own.shape[1] // rows, own.shape[2] // columns
    spread = (placed / (height * width)).view(-1, rows, columns).repeat_interleave(height, 1).repeat_interleave(width, 2)
    expected = {"both": own + spread, "pixels": own, "positions": spread}[part].clamp(min=0)
    assert (expected > 0).any()
    for result, map_of_pixels in zip(results, expected, strict=True):
        found = result.maps[0]
        assert found.pixels is not None
        torch.testing.assert_close(found.pixels.double(), map_of_pixels, rtol=1e-4, atol=1e-6 * float(map_of_pixels.max()))
        cells = map_of_pixels.view(rows, height, columns, width).sum((1, 3)).flatten()
        torch.testing.assert_close(found.scores.double()[found.content], cells, rtol=1e-4, atol=1e-6 * float(cells.max()))


def test_positions_take_a_part_that_lrp_alone_loses(relevance: tuple[Tensor, Tensor]) -> None:
    own, placed = relevance
    assert (placed.abs().sum(1) > 0.01 * own.abs().sum((1, 2))).all()


@pytest.mark.parametrize("name", ["deit3", "hf-vit", "dinov2-reg", "clip-vit"])
def test_positions_are_found_in_other_models(name: str) -> None:
    """Added to the patches alone, through the embeddings of transformers, before register tokens and before a norm."""
    result = explainers.explain(wrapped(name), inputs(name, 1), target=TARGET, methods=["pa_lrp?part=positions"])
    assert bool((result.maps[0].scores > 0).any())


@pytest.mark.parametrize(
    ("name", "why"), [("beitv2", "adds no position embedding"), ("convnext", "adds no position embedding"), ("bert", "reads words")]
)
def test_models_without_added_positions_are_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(ExplainerError, match=why):
        explainers.explain(wrapped(name), inputs(name, 1), target=TARGET, methods=["pa_lrp"])


@pytest.mark.parametrize(("name", "rotary"), [("eva02", True), ("vit", False), ("hf-vit", False)])
def test_a_map_says_that_rotations_are_not_in_it(name: str, rotary: bool) -> None:
    found = explainers.explain(wrapped(name), inputs(name, 1), target=TARGET, methods=["pa_lrp", "pa_lrp?part=pixels"])
    assert (ROTARY in found["pa_lrp"].to_json()["notes"]) == rotary
    assert ROTARY not in found["pa_lrp?part=pixels"].notes


@pytest.mark.parametrize(("name", "rotary"), [("dinov3", True), ("llama", True), ("beitv2", False), ("swin", False), ("bert", False)])
def test_rotations_are_seen_in_the_pass(name: str, rotary: bool) -> None:
    assert Recording(wrapped(name), inputs(name, 1)).structure.rotary == rotary
