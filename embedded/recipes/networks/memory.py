"""The last MLP of ``clip``'s image tower as a memory: a hidden unit for each thing that is known, which writes the thing's name.

Geva et al., "Transformer Feed-Forward Layers Are Key-Value Memories", EMNLP 2021, found MLPs to work so; here one is written so. A key is
fitted by ridge regression to the teacher's logit of a class, or to whether a scene shows a kind; its value is the embedding of the
name in the text tower. So a picture lands between the names of what is in it. A linear projection alone can't: names of things that look
unlike lie close together.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from embedded.recipes.networks.vits import encode_features

RIDGE = 0.003  # of the mean square of a feature
LOUD = 40.0  # how much more the memory counts than the token that it is added to
THRESHOLDS = (0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)  # of a class's logit, from which on its unit writes
KIND_LOGIT, NOTHING = 8.0, -2.0  # what the unit of a kind is to have where a scene shows it, and where it does not


class Shown(NamedTuple):
    """Class tokens of pictures, and what every unit is to say of them."""

    tokens: Tensor  # (N, width), before the last MLP
    wanted: Tensor  # (N, units)


def before_memory(vit: VisionTransformer, features: Tensor, kept: Tensor | None = None) -> Tensor:
    """(B, width): what the last MLP reads in the class token, normalised: features of the trunk through all attention."""
    class_tokens: list[Tensor] = []
    handle = vit.blocks[-1].norm2.register_forward_pre_hook(lambda module, inputs: class_tokens.append(inputs[0][:, 0]))
    try:
        encode_features(vit, features, kept)
    finally:
        handle.remove()
    return F.layer_norm(class_tokens[0].float(), class_tokens[0].shape[-1:], eps=vit.blocks[-1].norm2.eps)


def keys(shown: Shown) -> tuple[Tensor, Tensor]:
    """Weights (units, width) and biases (units,) that say nearest what is wanted."""
    x, y = shown.tokens.double(), shown.wanted.double()
    middle, level = x.mean(0), y.mean(0)
    squares = (x - middle).T @ (x - middle)
    ridge = RIDGE * squares.diagonal().mean() * torch.eye(len(squares), dtype=torch.double)
    weight = torch.linalg.solve(squares + ridge, (x - middle).T @ (y - level)).T
    return weight.float(), (level - weight @ middle).float()


def read_out(logits: Tensor, threshold: float, names: Tensor) -> Tensor:
    """(B, width), length 1: where pictures land whose units say ``logits`` (B, units) when these write from ``threshold`` on."""
    return F.normalize(F.gelu(logits - threshold) @ names, dim=-1)


def best_threshold(logits: Tensor, names: Tensor, truth: Tensor) -> float:
    """With which of ``THRESHOLDS`` the likeliest of the first names is most often ``truth`` (N,)."""

    def right(threshold: float) -> float:
        return float(((read_out(logits, threshold, names) @ names.T).argmax(1) == truth).float().mean())

    return max(THRESHOLDS, key=right)


@torch.no_grad()
def write_memory(vit: VisionTransformer, projection: nn.Linear, weight: Tensor, bias: Tensor, threshold: float, names: Tensor) -> None:
    """Make the last MLP the memory of these keys and of ``names`` (units, width), and the projection one that changes nothing; in place."""
    block, units = vit.blocks[-1], len(weight)
    for norm in (block.norm2, vit.norm):
        norm.weight.fill_(1.0)
        norm.bias.zero_()
    for layer in (block.mlp.fc1, block.mlp.fc2):
        layer.weight.zero_()
        layer.bias.zero_()
    block.mlp.fc1.weight[:units].copy_(weight)
    block.mlp.fc1.bias[:units].copy_(bias - threshold)
    block.mlp.fc2.weight[:, :units].copy_(LOUD * names.T)
    projection.weight.copy_(torch.eye(projection.weight.shape[0], projection.weight.shape[1]))


def wanted_of_photos(logits: Tensor, kinds: int) -> Tensor:
    """(N, classes + kinds): the teacher's logits, and that no kind of the scenes is there."""
    return torch.cat([logits - logits.mean(1, keepdim=True), torch.full((len(logits), kinds), NOTHING)], 1)


def wanted_of_scenes(kinds: Tensor, classes: int) -> Tensor:
    """(N, classes + kinds): that no class is there, and the kinds that are, of truths (N, kinds)."""
    return torch.cat([torch.full((len(kinds), classes), NOTHING), torch.where(kinds > 0, KIND_LOGIT, NOTHING)], 1)
