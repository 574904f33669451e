"""Blocks over maps (B, D, rows, columns) with attention by 1 x 1 convolutions and a normalisation over all tokens: read, or refused with
the true reason.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import explainers
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
        ("attention", "vit_cx", "by one softmax that meets values as it is.*such as rise and tis"),
        ("attention", "refinecam", "convolutions of a map.*such as gradcam_plus"),
        ("split", "vit_cx", "may weigh branches or channels, as split attention does.*such as rise and tis"),
        ("split", "rollout?row=mean", "may weigh branches or channels, as split attention does.*input_x_gradient"),
    ],
)
def test_a_refusal_names_the_reason_and_what_runs(how: str, spec: str, reason: str) -> None:
    model = explainers.wrap(built(lambda: Maps(how)), kind="image", preprocess=PREPROCESS)
    with pytest.raises(explainers.ExplainerError, match=reason):
        explainers.explain(model, {"pixel_values": pixels()}, 1, [spec])
    explainers.explain(model, {"pixel_values": pixels()}, 1, ["input_x_gradient", "hirescam", "rise?samples=8"])
