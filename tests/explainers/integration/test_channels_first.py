"""Blocks over maps (B, D, rows, columns) or rows (B, D, tokens) of channels, with attention by 1 x 1 convolutions: read, or refused with
the true reason.
"""

from __future__ import annotations

import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
from explainers.methods.implementations import own_masks
from tests.explainers.support.attention_forms import CLASSES, HEADS, PREPROCESS, WIDTH, built, pixels, plain_blocks, scores, softmax_of


class MapBlock(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.n1, self.n2 = how, nn.GroupNorm(1, WIDTH), nn.GroupNorm(1, WIDTH)
        self.qkv, self.proj, self.branches = nn.Conv2d(WIDTH, 3 * WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1), nn.Linear(WIDTH, 2 * WIDTH)
        self.a, self.b = nn.Conv2d(WIDTH, 48, 1), nn.Conv2d(48, WIDTH, 1)

    def attend(self, y: Tensor, kept: list[Tensor]) -> Tensor:
        if self.how == "split":  # weights of two branches of channels, as in ResNeSt
            u, v = self.qkv(y)[:, : 2 * WIDTH].chunk(2, 1)
            weights = self.branches((u + v).mean((2, 3))).unflatten(1, (2, WIDTH)).softmax(1)[..., None, None]
            return u * weights[:, 0] + v * weights[:, 1]
        q, k, v = self.qkv(y).flatten(2).unflatten(1, (3, HEADS, -1)).unbind(1)
        kept.append(softmax_of(q.mT, k.mT))
        return (v @ kept[-1].mT).flatten(1, 2).view_as(y)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.proj(self.attend(self.n1(x), []))
        out: Tensor = x + self.b(F.gelu(self.a(self.n2(x))))
        return out


class Maps(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.patch, self.head = nn.Conv2d(3, WIDTH, 8, 8), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList([MapBlock(how), MapBlock(how)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head(x.mean((2, 3)))
        return out


def test_attention_behind_a_normalisation_over_all_tokens_is_read() -> None:
    module, kept = built(lambda: Maps("attention")), list[Tensor]()
    with torch.no_grad():
        x = module.patch(pixels())  # type: ignore[operator]
        for block in module.blocks:  # type: ignore[union-attr]
            block.attend(block.n1(x), kept)
            x = block(x)
    first, second = (torch.eye(16, dtype=torch.float64) + weights[0].mean(0) for weights in kept)
    expected = (second / second.sum(-1, keepdim=True) @ (first / first.sum(-1, keepdim=True))).mean(0)
    (found,) = scores(module, pixels(), 1, "rollout?row=mean")
    torch.testing.assert_close(found / found.sum(), expected / expected.sum(), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    ("how", "spec", "reason"),
    [
        ("attention", "refinecam", "convolutions of a map.*such as gradcam_plus"),
        ("split", "rollout?row=mean", "may weigh branches or channels, as split attention does.*input_x_gradient"),
    ],
)
def test_a_refusal_names_the_reason_and_what_runs(how: str, spec: str, reason: str) -> None:
    model = explainers.wrap(built(lambda: Maps(how)), kind="image", preprocess=PREPROCESS)
    with pytest.raises(explainers.ExplainerError, match=reason):
        explainers.explain(model, {"pixel_values": pixels()}, 1, [spec])
    explainers.explain(model, {"pixel_values": pixels()}, 1, ["input_x_gradient", "hirescam", "rise?samples=8"])


@pytest.mark.parametrize("how", ["attention", "split"])
def test_vit_cx_of_tokens_that_enter_the_last_block(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the formula without noise, with clusters by scipy: of blocks over maps what attention is given cannot be read."""
    monkeypatch.setattr(own_masks, "NOISE", 0.0)
    module, x = built(lambda: Maps(how)), pixels()
    model = explainers.wrap(module, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": x}, 1, ["vit_cx?distance=0.4"])
    found = (result[0] if isinstance(result, list) else result).maps[0]
    assert any("tokens that enter the last block" in note for note in found.notes)
    with torch.no_grad():
        features = module.blocks[0](module.patch(x))[0]  # type: ignore[operator,index]
        fine = F.interpolate(features[None], size=x.shape[-2:], mode="bilinear", align_corners=False)[0].flatten(1)
        scaled = (fine - fine.amin(1, keepdim=True)) / (fine.amax(1, keepdim=True) - fine.amin(1, keepdim=True))
        groups = torch.from_numpy(fcluster(linkage(scaled.numpy(), "complete", "cosine"), 0.4, "distance"))
        sums = torch.stack([scaled[groups == group].sum(0) for group in groups.unique()])
        masks = ((sums - sums.amin(1, keepdim=True)) / (sums.amax(1, keepdim=True) - sums.amin(1, keepdim=True))).view(-1, *x.shape[-2:])
        probability = lambda given: module(given).softmax(-1)[:, 1]  # noqa: E731
        shown = [float(probability(x * mask)[0]) for mask in masks]
    expected = sum(value * mask for value, mask in zip(shown, masks, strict=True)) / masks.sum(0).clamp_min(1e-12) / len(masks)
    by_patch = expected.unflatten(1, (4, 8)).unflatten(0, (4, 8)).sum((1, 3)).flatten()
    assert float(by_patch.max() / by_patch.min()) > 1.01
    torch.testing.assert_close(found.scores.double(), by_patch, rtol=1e-5, atol=0.0)


class RowBlock(nn.Module):
    """Attention over rows (B, width, tokens); with ``turned`` it takes and gives (B, tokens, width)."""

    def __init__(self, width: int, turned: bool) -> None:
        super().__init__()
        self.turned, self.norm = turned, nn.GroupNorm(1, width)
        self.qkv, self.proj, self.mlp = nn.Conv1d(width, 3 * width, 1), nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.mT if self.turned else x
        q, k, v = self.qkv(self.norm(x)).unflatten(1, (3, HEADS, -1)).unbind(1)
        x = x + self.proj((v @ softmax_of(q.mT, k.mT).mT).flatten(1, 2))
        x = x + self.mlp(F.gelu(x))
        return x.mT if self.turned else x


class Rows(nn.Module):
    def __init__(self, width: int, first: str = "patches", turned: bool = False) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 4, 1)]
        self.patch = nn.Sequential(*convolutions) if first == "convolutions" else nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, width, 1)) if first == "class token" else None
        self.turned, self.blocks = turned, nn.ModuleList([RowBlock(width, turned), RowBlock(width, turned)])
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2)
        x = x if self.token is None else torch.cat([self.token.expand(len(x), -1, -1), x], 2)
        x = x.mT if self.turned else x
        for block in self.blocks:
            x = block(x)
        x = x.mT if self.turned else x
        return self.head(x.mean(2) if self.token is None else x[:, :, 0])


_CHANNELS_FIRST = r"channels before tokens.*transpose the last two axes once before the first block and once after the last"


@pytest.mark.parametrize("first", ["patches", "convolutions", "class token"])
@pytest.mark.parametrize("width", [16, 24, 64])
def test_channels_before_tokens_are_refused_whatever_their_number(width: int, first: str) -> None:
    """16 patches: 16 and 64 channels would fill a square grid."""
    with pytest.raises(explainers.ExplainerError, match=_CHANNELS_FIRST):
        explainers.wrap(built(lambda: Rows(width, first)), kind="image", preprocess=PREPROCESS)


@pytest.mark.parametrize("width", [16, 24])
def test_blocks_that_transpose_what_they_take_are_read(width: int) -> None:
    """What the refusal advises, against autograd on the model that has channels first."""
    module, plain = built(lambda: Rows(width, turned=True)), built(lambda: Rows(width))
    x = plain.patch(pixels()).flatten(2).detach().requires_grad_()  # type: ignore[operator]
    y = x
    for block in plain.blocks:  # type: ignore[union-attr]
        y = block(y)
    (gradient,) = torch.autograd.grad(plain.head(y.mean(2))[0, 1], x)  # type: ignore[operator]
    (found,) = scores(module, pixels(), 1, "input_x_gradient")
    torch.testing.assert_close(found, (x * gradient).sum(1)[0].detach(), rtol=1e-5, atol=1e-8)


class TransposingBlock(nn.Module):
    """Take and give (B, width, tokens), and transpose both around a block over (B, tokens, width)."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(x.mT).mT
        return out


class MeanOfTokens(nn.Module):
    """A model whose blocks transpose inside, or whose forward transposes once before and after blocks over (B, tokens, width)."""

    def __init__(self, inside: bool) -> None:
        super().__init__()
        blocks = plain_blocks()
        self.inside, self.patch, self.head = inside, nn.Conv2d(3, WIDTH, 8, 8), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList([TransposingBlock(block) for block in blocks] if inside else blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2)
        x = x if self.inside else x.mT
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.head((x if self.inside else x.mT).mean(2))
        return out


def test_blocks_that_transpose_inside_are_refused_and_run_where_the_model_transposes_once_around_them() -> None:
    """What the refusal advises, against autograd on the model that it refuses."""
    refused, advised = built(lambda: MeanOfTokens(True)), built(lambda: MeanOfTokens(False))
    with pytest.raises(explainers.ExplainerError, match=_CHANNELS_FIRST + ".*in one that transposes already, no more"):
        explainers.wrap(refused, kind="image", preprocess=PREPROCESS)
    x = refused.patch(pixels()).flatten(2).detach().requires_grad_()  # type: ignore[operator]
    y = x
    for block in refused.blocks:  # type: ignore[union-attr]
        y = block(y)
    (gradient,) = torch.autograd.grad(refused.head(y.mean(2))[0, 1], x)  # type: ignore[operator]
    (found,) = scores(advised, pixels(), 1, "input_x_gradient")
    torch.testing.assert_close(found, (x * gradient).sum(1)[0].detach(), rtol=1e-5, atol=1e-8)
