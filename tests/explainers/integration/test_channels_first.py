"""Blocks over maps (B, D, rows, columns) with attention by 1 x 1 convolutions and a normalisation over all tokens: read, or refused with
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
from tests.explainers.support.attention_forms import CLASSES, HEADS, PREPROCESS, WIDTH, built, pixels, scores, softmax_of


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
