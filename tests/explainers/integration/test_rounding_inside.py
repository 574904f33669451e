"""Parts of a model of float64 that compute in float32, as the norms of Llama do: what they round is not missing in an account."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import explainers
from tests.explainers.support.attention_forms import PREPROCESS, WIDTH, Attention, Block, Vit, built, of_module, pixels


class Rms(nn.Module):
    """The norm of Llama: computed in float32 and multiplied in the type of its input. ``loses`` adds what no rule accounts for."""

    def __init__(self, loses: bool) -> None:
        super().__init__()
        self.weight, self.loses = nn.Parameter(torch.ones(WIDTH)), loses

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
        y = self.weight * y.to(x.dtype)
        return y + 1e-3 * y.exp() if self.loses else y


class RmsBlock(Block):
    def __init__(self, loses: bool) -> None:
        super().__init__(lambda: Attention(of_module))
        self.n1, self.n2 = Rms(loses), Rms(loses)  # type: ignore[assignment]


@pytest.mark.parametrize("loses", [False, True])
def test_what_is_rounded_inside_is_not_said_to_be_lost(loses: bool) -> None:
    vit = built(lambda: Vit(lambda: [RmsBlock(loses), RmsBlock(loses)]))
    model = explainers.wrap(vit, kind="image", preprocess=PREPROCESS)
    result = explainers.explain(model, {"pixel_values": pixels()}, 1, ["fullgrad:libra", "input_x_gradient:libra"])
    maps = (result[0] if isinstance(result, list) else result).maps
    assert [any("miss it by" in note for note in each.notes) for each in maps] == [loses, loses]
