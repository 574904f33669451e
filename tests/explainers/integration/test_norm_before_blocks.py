"""A norm between the embedded tokens and the first block, as in CLIP: GlobEnc and ALTI read what the block takes, which the norm gave."""

from __future__ import annotations

from typing import Any

import explainers  # isort: skip  (before timm)

import pytest
import timm
import torch
from PIL import Image
from torch import Tensor, nn

from explainers.methods.contributions import after_attention

PATCHES = 16


def vit(pre_norm: bool) -> Any:
    torch.manual_seed(0)
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 3}
    module = timm.models.vision_transformer.VisionTransformer(**sizes, pre_norm=pre_norm).double().eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4) if parameter.ndim > 1 else None
    if pre_norm:
        nn.init.normal_(module.norm_pre.weight, 1, 0.3)
    return module


def shares(module: Any, block: int) -> tuple[Tensor, Tensor]:
    """The contributions (to, from, D) of the tokens that a block takes to its tokens after attention, and these tokens, by torch alone."""
    taken: list[Tensor] = []
    handle = module.blocks[block].register_forward_pre_hook(lambda _, args: taken.append(args[0]))
    model = explainers.open(module, kind="image", check="none")
    pixels = model.prepare(Image.effect_noise((32, 32), 60).convert("RGB")).tensors["pixel_values"].double()
    taken.clear()
    with torch.no_grad():
        module(pixels)
        handle.remove()
        part, x = module.blocks[block], taken[0]
        attention, tokens = part.attn, x.shape[1]
        heads = attention.qkv(part.norm1(x)).reshape(1, tokens, 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
        weights = (heads[0] @ heads[1].mT * attention.scale).softmax(-1)
        spread = weights.permute(0, 2, 1, 3)[..., None] * heads[2].transpose(1, 2).permute(0, 2, 1, 3)[:, None]
        vectors = spread.transpose(2, 3).flatten(3)  # (1, to, from, D)
        mixed = vectors @ attention.proj.weight.T + torch.eye(tokens, dtype=x.dtype)[None, :, :, None] * x[:, None]
    session = explainers.Session(model, {"pixel_values": pixels}, 1, precision="double")
    found = after_attention(session.trace(session.targets_and_rows()[0][0], None), block, 2)
    torch.testing.assert_close(found.vectors, mixed, rtol=0, atol=1e-9)
    return found.whole, x + attention.proj(vectors.sum(2))


@pytest.mark.parametrize("block", [0, 1])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_contributions_are_those_of_what_the_block_takes(pre_norm: bool, block: int) -> None:
    found, expected = shares(vit(pre_norm), block)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


class NormBetween(timm.models.vision_transformer.VisionTransformer):  # type: ignore[misc]
    """A ViT with one more norm between its two blocks, through which alone the first one's output goes on."""

    def __init__(self, between: bool) -> None:
        super().__init__(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=3)
        self.between = nn.LayerNorm(16) if between else None

    def forward_features(self, x: Tensor, **_: Any) -> Tensor:
        x = self.blocks[0](self._pos_embed(self.patch_embed(x)))
        x = self.blocks[1](x if self.between is None else self.between(x))
        tokens: Tensor = self.norm(x)
        return tokens


@pytest.mark.parametrize("between", [True, False])
def test_attcat_says_where_its_map_is_the_epsilon_of_a_norm(between: bool) -> None:
    torch.manual_seed(0)
    module = NormBetween(between).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4) if parameter.ndim > 1 else None
    model = explainers.open(module, kind="image", check="none")
    picture = {"pixel_values": torch.randn(1, 3, 32, 32)}
    found = explainers.explain(model, picture, 1, ["attcat", "attcat:libra"], precision="double")
    assert isinstance(found, explainers.Explanation)
    said = ["the map shows that epsilon" in " ".join(found[spec].notes) for spec in ("attcat", "attcat:libra")]
    assert said == [between, False]
    sizes = [float(found[spec].scores.abs().max()) for spec in ("attcat", "attcat:libra")]
    assert (sizes[0] < 1e-3 * sizes[1]) == between
